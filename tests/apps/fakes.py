"""A scripted model behind the VLM interface: known boxes and answers at a known pace, to test streaming."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from backbone.boxes import BoxConvention
from backbone.contracts import Stage
from backbone.errors import CancelledError
from backbone.pixels import Pixels
from backbone.vlm import VLM, Generation, Messages, Prefix

BOXES = '[{"bbox_2d": [600, 200, 700, 300], "label": "red circle"}, {"bbox_2d": [100, 600, 220, 700], "label": "sign"}]'
ANSWER = "The circle is red."
PIECE = 6  # characters a step


class ScriptedVLM(VLM):
    """Answers every perception prompt with `BOXES` and everything else with ``answer``, one piece each ``step_s``."""

    def __init__(self, step_s: float = 0.01, answer: str = ANSWER, steps: int | None = None) -> None:
        self.name, self.family = "scripted", "qwen3_vl"
        self.pixels = Pixels(32 * 32, 1 << 24, 32)
        self.boxes = BoxConvention.for_family("qwen3_vl")
        self.step_s, self.answer, self.steps = step_s, answer, steps
        self.calls = 0
        self.active = 0  # generations running now
        self.most_active = 0
        self.ended_at = 0.0  # time.monotonic() when the last generation ended, however it ended
        self._guard = threading.Lock()

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
        prefix = prompt if isinstance(prompt, Prefix) else self.prefill(prompt)
        text = BOXES if "bbox_2d" in _last_text(prefix.state) else choices[0] if choices else self.answer
        begun = time.monotonic()
        with self._guard:
            self.calls += 1
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        try:
            steps = self._play(text, n, cancel, on_text)
        finally:
            with self._guard:
                self.active -= 1
                self.ended_at = time.monotonic()
        tokens = tuple(range(len(text) // 4 + 1))
        fresh = not isinstance(prompt, Prefix)
        cost = Stage(
            stage,
            prefix.visual_tokens if fresh else 0,
            prefix.length if fresh else 0,
            0 if fresh else prefix.length,
            n * len(tokens),
            steps,
            (time.monotonic() - begun) * 1000,
            self.step_s * 1000,
        )
        return Generation((text,) * n, (tokens,) * n, ((-0.1,) * len(tokens),) * n, (True,) * n, cost)

    def _play(
        self, text: str, n: int, cancel: threading.Event | None, on_text: Callable[[int, str], None] | None
    ) -> int:
        pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
        pieces += [""] * ((self.steps or 0) - len(pieces))
        for piece in pieces:
            if cancel is not None and cancel.is_set():
                raise CancelledError("generation stopped")
            time.sleep(self.step_s)
            for sample in range(n if on_text is not None and piece else 0):
                on_text(sample, piece)
        return len(pieces)

    def generate_batch(self, prompts: Sequence[Messages], **options: Any) -> list[Generation]:
        return [self.generate(prompt, **options) for prompt in prompts]

    def prefill(self, messages: Messages, *, adapter: str | None = None, generation_prompt: bool = True) -> Prefix:
        images = [part["image"] for m in messages for part in m["content"] if part["type"] == "image"]
        visual = sum(self.visual_tokens(image.shape[1], image.shape[0]) for image in images)
        text = sum(len(part["text"]) // 4 for m in messages for part in m["content"] if part["type"] == "text")
        stage = Stage("prefill", visual, visual + text, 0, 0, 1, 1.0)
        return Prefix(str(hash(str(messages))), visual + text, visual, stage, list(messages))

    def extend(self, prefix: Prefix, messages: Messages, *, generation_prompt: bool = True) -> Prefix:
        added = self.prefill(messages)
        total = prefix.visual_tokens + added.visual_tokens
        return Prefix(
            prefix.key + added.key, prefix.length + added.length, total, added.stage, prefix.state + added.state
        )


def _last_text(messages: Messages) -> str:
    return " ".join(part["text"] for part in messages[-1]["content"] if part["type"] == "text")
