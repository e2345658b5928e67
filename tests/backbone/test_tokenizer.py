"""Qwen's tokenizer and templates: known ids, exact round trips, and the prompts of the official templates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import ConfigError
from backbone.tokenizer import PLAIN_TOKENS, SPECIAL_TOKENS, build_tokenizer, chat_template

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="module")
def full():
    return build_tokenizer()


@pytest.fixture(scope="module")
def pruned():
    return build_tokenizer(4096)


def render(tokenizer, messages, **options):
    return tokenizer.apply_chat_template(messages, tokenize=False, **options)


def user(*parts):
    return {"role": "user", "content": [{"type": "text", "text": p} if p else {"type": "image"} for p in parts]}


def test_ids_are_the_official_ones(full):
    """Ids published with Qwen2.5 and Qwen3 (tokenizer_config.json of their repositories)."""
    assert len(full) == 151669
    known = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|vision_start|>": 151652}
    known |= {"<|image_pad|>": 151655, "<|video_pad|>": 151656, "<tool_call>": 151657, "<|file_sep|>": 151664}
    known |= {"<tool_response>": 151665, "<think>": 151667, "</think>": 151668}
    assert {t: full.convert_tokens_to_ids(t) for t in known} == known
    assert full("Hello, world!")["input_ids"] == [9707, 11, 1879, 0]
    assert full("<|im_start|>user\n")["input_ids"] == [151644, 872, 198]
    assert full("2026 你好")["input_ids"] == [17, 15, 17, 21, 220, 108386]
    assert (full.eos_token_id, full.pad_token_id, full.bos_token_id) == (151645, 151643, None)


def test_added_tokens_are_single_and_only_control_tokens_vanish(full, pruned):
    for tokenizer in (full, pruned):
        for token in (*SPECIAL_TOKENS, *PLAIN_TOKENS):
            ids = tokenizer(token)["input_ids"]
            assert len(ids) == 1
            assert tokenizer.decode(ids, skip_special_tokens=True) == ("" if token in SPECIAL_TOKENS else token)


def test_pruned_ids_follow_the_kept_ranks(full, pruned):
    assert len(pruned) == 4096 + 26
    assert [pruned.convert_tokens_to_ids(t) for t in SPECIAL_TOKENS + PLAIN_TOKENS] == list(range(4096, 4122))
    kept, all_ids = pruned.get_vocab(), full.get_vocab()
    assert all(all_ids[token] == i for token, i in kept.items() if i < 4096)
    assert pruned.eos_token_id == 4098


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60))
@settings(max_examples=80, deadline=None)
def test_any_text_survives(full, pruned, text):
    """Both write any text without loss (up to Unicode NFC, which Qwen's tokenizer applies)."""
    import unicodedata

    for tokenizer in (full, pruned):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == unicodedata.normalize("NFC", text)


def test_saved_tokenizers_load_the_same(pruned, tmp_path):
    from transformers import AutoTokenizer

    pruned.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = "<|im_start|>user\nboxes [12, 30, 400, 999] 你好<|im_end|>"
    assert again(text)["input_ids"] == pruned(text)["input_ids"]
    assert (again.eos_token_id, again.pad_token_id) == (pruned.eos_token_id, pruned.pad_token_id)
    assert again.chat_template == pruned.chat_template


def test_qwen3_vl_prompts(pruned):
    """Expected strings are what the template shipped with Qwen3-VL-Instruct renders."""
    messages = [
        {"role": "system", "content": "Be brief."},
        user("", "", "Compare."),
        {"role": "assistant", "content": "Same."},
        user("Sure?"),
    ]
    body = (
        f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{IMAGE}{IMAGE}Compare.<|im_end|>\n"
        "<|im_start|>assistant\nSame.<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n"
    )
    assert render(pruned, messages) == body
    assert render(pruned, messages, add_generation_prompt=True) == body + "<|im_start|>assistant\n"
    numbered = body.replace(IMAGE * 2, f"Picture 1: {IMAGE}Picture 2: {IMAGE}")
    assert render(pruned, messages, add_vision_id=True) == numbered


def test_qwen3_vl_tools(pruned):
    tool = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}
    call = {"function": {"name": "zoom", "arguments": {"bbox_2d": [1, 2, 3, 4]}}}
    messages = [
        {"role": "system", "content": "S"},
        user("", "Q"),
        {"role": "assistant", "content": "Looking.", "tool_calls": [call, {"name": "zoom", "arguments": '{"a": 1}'}]},
        {"role": "tool", "content": [{"type": "image"}, {"type": "text", "text": "crop"}]},
        {"role": "tool", "content": "second"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    expected = (
        "<|im_start|>system\nS\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
        '{"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}\n</tools>\n\n'
        "For each function call, return a json object with function name and arguments within <tool_call></tool_call> "
        'XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
        f"<|im_start|>user\n{IMAGE}Q<|im_end|>\n<|im_start|>assistant\nLooking.\n"
        '<tool_call>\n{"name": "zoom", "arguments": {"bbox_2d": [1, 2, 3, 4]}}\n</tool_call>\n'
        '<tool_call>\n{"name": "zoom", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n'
        f"<|im_start|>user\n<tool_response>\n{IMAGE}crop\n</tool_response>\n<tool_response>\nsecond\n</tool_response>"
        '<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "zoom", "arguments": {"bbox_2d": [1, 2, 3, 4]}}\n'
        "</tool_call><|im_end|>\n"
    )
    assert render(pruned, messages, tools=[tool]) == expected
    without_system = expected.replace("<|im_start|>system\nS\n\n", "<|im_start|>system\n")
    assert render(pruned, messages[1:], tools=[tool]) == without_system


def test_the_tool_turn_of_the_zoom_loop_is_what_the_template_writes(pruned):
    """A reply written as a user turn gives the very prompt of a tool message."""
    by_hand = [user("<tool_response>\n", "", "\n</tool_response>")]
    by_role = [user("x"), {"role": "tool", "content": [{"type": "image"}]}]
    assert render(pruned, by_role).endswith(render(pruned, by_hand))


def test_qwen2_vl_prompts():
    """Expected strings are what the template shipped with Qwen2-VL and Qwen2.5-VL renders."""
    tokenizer = build_tokenizer(512, "qwen2_5_vl")
    system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    turn = f"<|im_start|>user\n{IMAGE}What?<|im_end|>\n"
    assert render(tokenizer, [user("", "What?")]) == system + turn
    own = [{"role": "system", "content": "S"}, user("", "What?")]
    expected = f"<|im_start|>system\nS<|im_end|>\n{turn}<|im_start|>assistant\n"
    assert render(tokenizer, own, add_generation_prompt=True) == expected
    numbered = render(tokenizer, [user("", ""), user("")], add_vision_id=True)
    assert [numbered.count(f"Picture {i}: {IMAGE}") for i in (1, 2, 3)] == [1, 1, 1]


def test_impossible_requests_are_refused():
    with pytest.raises(ConfigError, match="between 256 and 151643"):
        build_tokenizer(10)
    with pytest.raises(ConfigError, match="llava"):
        chat_template("llava")
