"""A model that writes what a test scripts, records what it was shown, and accounts for tokens like a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backbone.boxes import BoxConvention
from backbone.contracts import Image, Stage
from backbone.errors import CancelledError
from backbone.pixels import Pixels
from backbone.vlm import VLM, Generation, Message, Messages, Prefix


@dataclass(frozen=True)
class Call:
    """One call of `ScriptedVLM.generate`."""

    messages: list[Message]
    options: dict[str, Any]

    @property
    def images(self) -> list[Image]:
        return [part["image"] for m in self.messages for part in m["content"] if part["type"] == "image"]

    @property
    def text(self) -> str:
        return "".join(part["text"] for m in self.messages for part in m["content"] if part["type"] == "text")


Reply = str | Sequence[str] | Callable[[Call], str]


@dataclass
class ScriptedVLM(VLM):
    """Replies in order; with ``n`` samples a reply is a list of n texts. ``choices`` takes the reply, or the first."""

    replies: list[Reply] = field(default_factory=list)
    family: str = "qwen3_vl"
    pixels: Pixels = field(default_factory=lambda: Pixels(32 * 32, 16384 * 32 * 32, 32))
    on_call: Callable[[Call], None] = lambda call: None
    calls: list[Call] = field(default_factory=list)
    name: str = "scripted"

    def __post_init__(self) -> None:
        self.boxes = BoxConvention.for_family(self.family)

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
        assert not isinstance(prompt, Prefix)
        options = {
            "n": n,
            "temperature": temperature,
            "top_p": top_p,
            "choices": choices,
            "adapter": adapter,
            "seed": seed,
        }
        call = Call(list(prompt), {**options, "stage": stage})
        self.calls.append(call)
        self.on_call(call)
        if cancel is not None and cancel.is_set():
            raise CancelledError("cancelled")
        reply = self.replies.pop(0) if self.replies else ""
        reply = reply(call) if callable(reply) else reply
        texts = [reply] * n if isinstance(reply, str) else list(reply)
        assert len(texts) == n
        if choices:
            texts = [text if text in choices else choices[0] for text in texts]
        for i, text in enumerate(texts):
            for word in text.split(" ") if on_text else []:
                on_text(i, word + " ")
        visual = sum(self.visual_tokens(image.shape[1], image.shape[0]) for image in call.images)
        generated = sum(len(text.split()) for text in texts)
        return Generation(
            tuple(texts),
            tuple(tuple(range(len(text.split()))) for text in texts),
            tuple((-0.1,) * len(text.split()) for text in texts),
            (True,) * n,
            Stage(stage, visual, visual + len(call.text.split()), 0, generated, 1, 10.0, 2.0),
        )

    def generate_batch(self, prompts: Sequence[Messages], **options: Any) -> list[Generation]:
        return [self.generate(prompt, **options) for prompt in prompts]


def boxes_reply(*boxes: Sequence[float], label: str = "mark") -> str:
    parts = [f'{{"bbox_2d": {[round(v) for v in box]}, "label": "{label}"}}' for box in boxes]
    return f"[{', '.join(parts)}]"


def zoom_reply(box: Sequence[float], index: int = 0, prose: str = "") -> str:
    arguments = f'{{"bbox_2d": {[round(v) for v in box]}, "label": "mark", "img_idx": {index}}}'
    return f'{prose}<tool_call>\n{{"name": "image_zoom_in_tool", "arguments": {arguments}}}\n</tool_call>'


def canvas(width: int, height: int, value: int = 90) -> Image:
    return np.full((height, width, 3), value, np.uint8)
