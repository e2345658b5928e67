"""What perception returns and what it reports on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from backbone.contracts import Answer, Box, Ledger
from perception.config import Method, Regime
from perception.crops import Crop


@dataclass(frozen=True)
class PerceptionAnswer(Answer):
    """An `Answer` with everything it rests on. ``regions`` are the ones looked at, in original pixels, best first."""

    method: Method = "sparc"
    regime: Regime = 256
    choice: int | None = None  # index of the chosen option, if options were given
    chosen: tuple[int, ...] = ()  # likewise of all that were chosen, where several may be right
    log_probs: tuple[float, ...] = ()  # natural log, of each token of the answer
    crops: tuple[Crop, ...] = ()  # the close-ups the model was given, one for each region
    rollouts: tuple[tuple[Box, ...], ...] = ()  # the boxes of each perception sample, before fusion and widening
    shown_size: tuple[int, int] = (0, 0)  # (width, height) of the global image as the model got it

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without pixels."""
        return {
            **super().to_dict(),
            "method": self.method,
            "regime": self.regime,
            "choice": self.choice,
            "chosen": list(self.chosen),
            "log_probs": list(self.log_probs),
            "rollouts": [[asdict(box) for box in boxes] for boxes in self.rollouts],
            "shown_size": list(self.shown_size),
        }

    @classmethod
    def make_example(cls) -> PerceptionAnswer:
        """A valid answer with one close-up."""
        box = Box.make_example()
        crop = Crop(box, "mug [10, 20, 110, 220]:", np.zeros((8, 4, 3), np.uint8))
        return cls(
            "A", (box,), Ledger.make_example(), choice=0, crops=(crop,), rollouts=((box,),), shown_size=(256, 192)
        )


@dataclass(frozen=True)
class PerceptionEvent:
    """Progress of one call, for streaming. A later event of the same kind replaces the earlier one."""

    kind: Literal["searching", "looking", "answering"]
    boxes: tuple[Box, ...] = ()  # searching: all boxes proposed so far; looking: the regions cut out
    crops: tuple[Crop, ...] = field(default=(), repr=False)
    text: str = ""  # searching and answering: what the model has written so far


OnEvent = Callable[[PerceptionEvent], None]
