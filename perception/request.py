"""One question about one image, with everything a method needs to answer it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from backbone.contracts import Box
from backbone.errors import CancelledError, ConfigError
from backbone.vlm import VLM, Generation, Messages
from perception import prompts
from perception.answer import OnEvent, PerceptionEvent
from perception.config import PerceptionConfig
from perception.crops import Crop
from perception.views import LargeImage, View, global_view


def check_question(question: str, options: Sequence[str], several: bool = False) -> None:
    """Raise `ConfigError` for an empty question, or for options that are too few, too many, not distinct or wanted."""
    if not question.strip():
        raise ConfigError("the question is empty; ask something about the image")
    if several and not options:
        raise ConfigError("several right options were asked for, but no options are given")
    if len(options) == 1 or len(options) > len(prompts.LETTERS):
        raise ConfigError(f"multiple choice needs 2 to {len(prompts.LETTERS)} options, got {len(options)}")
    if twice := sorted({option for option in options if list(options).count(option) > 1}):
        raise ConfigError(f"options must differ, these are given more than once: {twice}")


@dataclass(frozen=True)
class Request:
    """A question about ``image``; ``view`` is the small global image, all a model sees of it besides close-ups."""

    vlm: VLM
    config: PerceptionConfig
    image: LargeImage
    question: str
    options: tuple[str, ...] = ()
    seed: int = 0
    cancel: threading.Event | None = None
    on_event: OnEvent | None = None
    several: bool = False  # more than one option may be right: letters are then read from a free answer
    view: View = field(init=False)

    def __post_init__(self) -> None:
        check_question(self.question, self.options, self.several)
        object.__setattr__(self, "view", global_view(self.image, self.vlm, self.config.longest))

    @property
    def letters(self) -> list[str]:
        """The letters of the options."""
        return list(prompts.LETTERS[: len(self.options)])

    @property
    def constraint(self) -> list[str]:
        """What an answer must be one of; empty if it is free."""
        return [] if self.several else self.letters

    @property
    def prompt(self) -> str:
        """The question with its lettered options."""
        return prompts.multiple_choice(self.question, self.options, self.several)

    def generate(
        self,
        messages: Messages,
        stage: str,
        max_new_tokens: int,
        choices: Sequence[str] | None,
        on_text: OnText | None,
        **sampling: Any,
    ) -> Generation:
        """One continuation with the reasoning adapter; ``on_text`` gets all that is written so far.

        It is greedy, unless ``sampling`` (``temperature``, ``top_p``, ``seed`` of `VLM.generate`) says otherwise.
        """
        pieces: list[str] = []

        def collect(_: int, piece: str) -> None:
            pieces.append(piece)
            if on_text is not None:
                on_text("".join(pieces))

        return self.vlm.generate(
            messages,
            max_new_tokens=max_new_tokens,
            choices=choices or None,
            adapter=self.config.reasoning_adapter,
            cancel=self.cancel,
            on_text=collect if self.on_event and on_text else None,
            stage=stage,
            **{"seed": self.seed, **sampling},
        )

    def emit(self, event: PerceptionEvent) -> None:
        """Report progress, if anyone listens."""
        if self.on_event:
            self.on_event(event)

    def check_cancelled(self, when: str) -> None:
        """Raise `CancelledError` if the caller's stop event is set."""
        if self.cancel is not None and self.cancel.is_set():
            raise CancelledError(f"cancelled {when}; nothing was answered")


OnText = Callable[[str], None]


def regions_of(crops: Sequence[Crop]) -> tuple[Box, ...]:
    """The regions of close-ups, in their order."""
    return tuple(crop.box for crop in crops)
