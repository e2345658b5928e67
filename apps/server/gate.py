"""The last look at actions before they leave for a robot: finite, then shape, then bounds, then rate of change.

NaN is never clipped into something plausible: what is not a finite number of the right shape is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.server.config import OutOfRange
from backbone.contracts import ActionSpec, FloatArray
from backbone.errors import ConfigError
from backbone.serving.errors import RequestError


class UnsafeActionError(RequestError):
    """The policy's actions may not be sent."""

    def __init__(self, message: str) -> None:
        """An ``unsafe_action``."""
        super().__init__("unsafe_action", message)


@dataclass(frozen=True)
class Passed:
    """``values`` float32 (H, A) are what is sent; how many of them were clipped to the limits or slowed down."""

    values: FloatArray
    clipped: int = 0
    slowed: int = 0


class ActionGate:
    """Checks chunks against a spec; has no state, so that sessions cannot influence each other."""

    def __init__(self, spec: ActionSpec, out_of_range: OutOfRange, max_change: tuple[float, ...] | None = None) -> None:
        """``max_change`` is the largest step of every value between two actions, in its unit; None: any."""
        if max_change is not None and len(max_change) != len(spec.names):
            raise ConfigError(f"max_change has {len(max_change)} numbers for {len(spec.names)} actions {spec.names}")
        if max_change is not None and spec.kind == "discrete":
            raise ConfigError("max_change has no meaning for a choice between discrete actions; leave it out")
        self.spec, self._clip = spec, out_of_range == "clip" and spec.kind == "continuous"
        self._low, self._high = np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32)
        self._change = None if max_change is None else np.asarray(max_change, np.float32)

    def check(self, actions: Any, previous: FloatArray | None) -> Passed:
        """What may be sent of ``actions`` (H, A); ``previous`` (A,) is the action that was sent last.

        Raises:
            UnsafeActionError: not numbers, not finite, wrong shape, or outside the limits where these refuse.
        """
        wanted = f"(H, {len(self.spec.names)}) for {', '.join(self.spec.names)}"
        try:
            values = np.array(actions, np.float32)
        except (TypeError, ValueError) as error:
            raise UnsafeActionError(
                f"the policy returned a {type(actions).__name__} as actions; need {wanted}"
            ) from error
        if not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            raise UnsafeActionError(f"the policy returned {bad} of {values.size} action values as NaN or infinite")
        if values.ndim != 2 or values.shape[1] != len(self.spec.names) or not values.shape[0]:
            raise UnsafeActionError(f"the policy returned actions of shape {values.shape}; need {wanted}")
        inside = np.minimum(np.maximum(values, self._low), self._high)  # a third of the time of np.clip
        clipped = int((values != inside).sum())
        if clipped and not self._clip:
            raise UnsafeActionError(self._outside(values))
        if self.spec.kind == "discrete" and not np.array_equal(inside, np.round(inside)):
            raise UnsafeActionError(f"the policy chose {values.ravel()[:5].tolist()}; a choice is a whole number")
        return self._slow(inside, clipped, previous)

    def _slow(self, values: FloatArray, clipped: int, previous: FloatArray | None) -> Passed:
        if self._change is None:
            return Passed(values, clipped)
        slowed, last = 0, previous
        for row in values:  # each action is limited against the one before it as sent
            if last is not None:
                limited = np.clip(row, last - self._change, last + self._change)
                slowed += int((np.abs(limited - row) > 1e-6).sum())
                row[:] = limited
            last = row
        return Passed(values, clipped, slowed)

    def _outside(self, values: FloatArray) -> str:
        row, column = np.argwhere((values < self._low) | (values > self._high))[0]
        return (
            f"the policy returned {self.spec.names[column]} = {values[row, column]:g} at step {row}, outside "
            f"[{self._low[column]:g}, {self._high[column]:g}]"
        )
