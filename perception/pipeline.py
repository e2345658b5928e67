"""Questions about images, answered by SPARC or one of its two rivals on the same weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backbone.contracts import Box, Image
from backbone.vlm import VLM
from perception import sparc
from perception.answer import OnEvent, PerceptionAnswer, PerceptionEvent
from perception.config import PerceptionConfig
from perception.request import Request
from perception.views import LargeImage, as_large
from perception.zoom import ZoomLoop

__all__ = ["PerceptionAnswer", "PerceptionConfig", "PerceptionEvent", "Searcher"]


@dataclass(frozen=True)
class Searcher:
    """Answers questions about images by the method its config names.

    Holds weights and settings only: all state of a call lives in that call, so one searcher may be shared and its
    calls interleaved.
    """

    vlm: VLM
    config: PerceptionConfig = field(default_factory=PerceptionConfig)

    def ask(
        self,
        image: Image | LargeImage,
        question: str,
        options: Sequence[str] = (),
        *,
        several: bool = False,
        seed: int = 0,
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> PerceptionAnswer:
        """Answer ``question``; with ``options`` the text is the letter of one of them and ``choice`` its index.

        Where ``several`` options may be right the text is free, and ``chosen`` holds the indices that it names.

        ``cancel`` ends the call within one step of generation. ``on_event`` gets progress and streamed text, in the
        calling thread.

        Raises:
            DataError: an array that is no uint8 (H, W, 3) image, an empty question, one option or more than ten.
            CancelledError: ``cancel`` was set.
        """
        request = replace(self._request(image, question, options, seed, cancel, on_event), several=several)
        if self.config.method == "native":
            return sparc.answer(request, ())
        if self.config.method == "zoom":
            return ZoomLoop(request).run()
        return sparc.run(request)

    def search(
        self, image: Image | LargeImage, question: str, *, seed: int = 0, cancel: threading.Event | None = None
    ) -> sparc.Search:
        """Stage 1 alone: where the evidence for ``question`` is likely to be."""
        return sparc.search(self._request(image, question, (), seed, cancel, None))

    def answer_from(
        self, image: Image | LargeImage, question: str, options: Sequence[str], boxes: Sequence[Box], *, seed: int = 0
    ) -> PerceptionAnswer:
        """Stage 2 alone: answer from the global image and close-ups of given boxes (none: the global image alone)."""
        return sparc.look_and_answer(self._request(image, question, options, seed, None, None), boxes)

    def _request(
        self,
        image: Image | LargeImage,
        question: str,
        options: Sequence[str],
        seed: int,
        cancel: threading.Event | None,
        on_event: OnEvent | None,
    ) -> Request:
        return Request(self.vlm, self.config, as_large(image), question, tuple(options), seed, cancel, on_event)
