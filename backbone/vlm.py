"""The one interface every system talks to: a vision-language model that generates, keeps prefixes, and grounds.

``VLM.load`` takes ``nano`` (shipped weights), a local directory, a hub id of any transformers Qwen-VL class, or
``http://host:port/v1#model`` for an OpenAI-compatible server.

Messages have Qwen's own form, with decoded pictures instead of paths::

    [{"role": "user", "content": [{"type": "image", "image": array}, {"type": "text", "text": "What is it?"}]}]

``array`` is uint8 (H, W, 3) RGB. Paths and URLs are refused: reading files is the caller's decision.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backbone.boxes import BoxConvention
from backbone.contracts import Box, Stage
from backbone.errors import ConfigError, UnsupportedError
from backbone.pixels import Pixels

if TYPE_CHECKING:
    from torch import Tensor

Message = dict[str, Any]
Messages = Sequence[Message]


@dataclass(frozen=True)
class Prefix:
    """An encoded conversation to continue from. Immutable for its user; what it holds belongs to the engine."""

    key: str  # content hash of pixels, processor settings, text, adapter
    length: int  # tokens
    visual_tokens: int
    stage: Stage  # what encoding it cost (reused tokens are counted apart)
    state: Any = field(repr=False, compare=False)  # engine's own: key/value cache, rotary position, token ids


@dataclass(frozen=True)
class Generation:
    """``n`` sampled continuations of one prompt."""

    texts: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]  # without the stop token
    log_probs: tuple[tuple[float, ...], ...]  # natural log, of each chosen token under the model (temperature 1)
    finished: tuple[bool, ...]  # False where max_new_tokens or a cancel ended it
    stage: Stage


class VLM(ABC):
    """A loaded vision-language model. Holds weights and a bounded prefix cache, no conversation state."""

    name: str
    family: str  # transformers model_type: "qwen2_vl", "qwen2_5_vl", "qwen3_vl", ...
    pixels: Pixels  # pixel limits used for resizing and for box conversion
    boxes: BoxConvention  # how this family writes boxes as numbers

    @staticmethod
    def load(
        name: str = "nano",
        *,
        device: str = "auto",
        dtype: str = "auto",
        pixels: Pixels | None = None,
        attention: str = "auto",
        cache_mebibytes: int = 512,
        timeout_s: float = 120.0,
    ) -> VLM:
        """Load a model by name; see the module docstring for the forms of ``name``.

        Raises:
            ModelError: unknown family, missing or unexpected weights, tokenizer without the family's vision tokens.
            RemoteError: the server does not answer or does not know the model.
        """
        from backbone.loading import load_vlm

        return load_vlm(
            name,
            device=device,
            dtype=dtype,
            pixels=pixels,
            attention=attention,
            cache_mebibytes=cache_mebibytes,
            timeout_s=timeout_s,
        )

    @abstractmethod
    def generate(
        self,
        prompt: Messages | Prefix,
        *,
        n: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        choices: Sequence[str] | None = None,
        adapter: str | None = None,
        seed: int = 0,
        cancel: threading.Event | None = None,
        on_text: Callable[[int, str], None] | None = None,
        stage: str = "generate",
    ) -> Generation:
        """``n`` continuations that share one prefill.

        ``temperature`` 0 is greedy. ``top_p`` (above 0, at most 1) draws from the likeliest tokens alone that together
        have that probability. ``choices`` constrains the output to exactly one of the given strings (the text
        returned is that string, and log_probs are those of its tokens). ``cancel`` ends within one step and raises
        `CancelledError`. ``on_text(i, piece)`` streams sample ``i``. ``stage`` names the ledger entry.
        """

    @abstractmethod
    def generate_batch(self, prompts: Sequence[Messages], **options: Any) -> list[Generation]:
        """One generation per prompt, computed together (left-padded); greedy tokens equal those of single calls."""

    def prefill(self, messages: Messages, *, adapter: str | None = None, generation_prompt: bool = True) -> Prefix:
        """Encode a conversation once; generate from it or extend it as often as wanted."""
        raise UnsupportedError(f"{self.name}: this engine keeps no prefixes; load local weights for prefill()")

    def extend(self, prefix: Prefix, messages: Messages, *, generation_prompt: bool = True) -> Prefix:
        """A new prefix that continues ``prefix``; the old one stays usable."""
        raise UnsupportedError(f"{self.name}: this engine keeps no prefixes; load local weights for extend()")

    def prefill_many(
        self, conversations: Sequence[Messages], *, adapter: str | None = None, generation_prompt: bool = True
    ) -> list[Prefix]:
        """`prefill` of several conversations; engines that can do so encode them together."""
        return [self.prefill(m, adapter=adapter, generation_prompt=generation_prompt) for m in conversations]

    def extend_many(
        self, prefixes: Sequence[Prefix], additions: Sequence[Messages], *, generation_prompt: bool = True
    ) -> list[Prefix]:
        """`extend` of several prefixes, one addition each; engines that can do so encode them together."""
        check_lengths("extend_many", prefixes, additions)
        pairs = zip(prefixes, additions, strict=True)
        return [self.extend(prefix, added, generation_prompt=generation_prompt) for prefix, added in pairs]

    def generate_many(
        self,
        prefixes: Sequence[Prefix],
        *,
        seeds: Sequence[int],
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        cancel: threading.Event | None = None,
        on_text: Callable[[int, str], None] | None = None,
        stage: str = "generate",
    ) -> list[Generation]:
        """One continuation of each prefix with a seed of its own, as `generate` gives them; together if possible.

        ``on_text(i, piece)`` streams the continuation of prefix ``i``.
        """
        check_lengths("generate_many", prefixes, seeds)
        found = []
        for i, (prefix, seed) in enumerate(zip(prefixes, seeds, strict=True)):
            found.append(
                self.generate(
                    prefix,
                    seed=seed,
                    temperature=temperature,
                    top_p=top_p,
                    max_new_tokens=max_new_tokens,
                    stop=stop,
                    cancel=cancel,
                    on_text=None if on_text is None else _numbered(on_text, i),
                    stage=stage,
                )
            )
        return found

    def image_states(self, messages: Messages, *, layer: int = -1, adapter: str | None = None) -> list[Tensor]:
        """Hidden states of the language model at each picture's tokens: float32 (rows, columns, D) grids, in order.

        Attention is causal: a picture's states know what stands before it in the conversation and nothing after it, so
        a question that they shall depend on comes first. ``layer`` 0 gives the embeddings, the number of layers (or
        -1) the output after the final norm.

        Raises:
            UnsupportedError: the engine keeps no hidden states, as that of a server does not.
            DataError: a layer that there is not, or no picture.
        """
        raise UnsupportedError(
            f"{self.name}: this engine gives no hidden states; load local weights (nano, a directory or a hub id) for "
            "image_states()"
        )

    def fingerprint(self) -> str:
        """Tells weights apart, whatever number format they are loaded in; raises `UnsupportedError` for a server's."""
        raise UnsupportedError(f"{self.name}: this engine does not show its weights; load local ones for fingerprint()")

    def forget(self) -> None:
        """Empty the prefix cache, so that the next call costs what it would alone; engines without one keep nothing."""
        return

    def encoded_size(self, width: int, height: int) -> tuple[int, int]:
        """``(width, height)`` an image of this size is resized to before it is cut into patches."""
        return self.pixels.resize(width, height)

    def visual_tokens(self, width: int, height: int) -> int:
        """Visual tokens an image of this size costs."""
        w, h = self.encoded_size(width, height)
        return (w // self.pixels.factor) * (h // self.pixels.factor)

    def box_to_numbers(self, box: Box, width: int, height: int) -> tuple[int, int, int, int]:
        """A box of a ``width`` x ``height`` image in the numbers this family writes."""
        return self.boxes.encode(box, (width, height), self.encoded_size(width, height))

    def numbers_to_box(
        self, numbers: Sequence[float], width: int, height: int, label: str = "", score: float = 1.0
    ) -> Box:
        """The family's four numbers, written for an image shown at ``width`` x ``height``, as a box of that image."""
        return self.boxes.decode(numbers, (width, height), self.encoded_size(width, height), label, score)


def _numbered(on_text: Callable[[int, str], None], number: int) -> Callable[[int, str], None]:
    return lambda _, piece: on_text(number, piece)


def check_lengths(name: str, prefixes: Sequence[Any], others: Sequence[Any]) -> None:
    """Raise `ConfigError` unless there is one of ``others`` for each prefix."""
    if len(prefixes) != len(others):
        raise ConfigError(
            f"{name}: {len(prefixes)} prefixes and {len(others)} values for them; give one each, in order"
        )
