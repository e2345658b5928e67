"""The five actions as the model writes them, and as a world counts them.

The words are the paper's (section 2.1). ``obs`` is the look around that leads to a slow turn; a world that offers it
calls it ``look_around``, one that does not is looked at by turning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backbone.contracts import ActionSpec
from backbone.errors import ConfigError, DataError
from navigation.worlds.navigation_world import ACTIONS, LOOK_AROUND

MOVE = "MoveAhead 0.25"
LEFT = "RotateLeft 30.0"
RIGHT = "RotateRight 30.0"
OBS = "obs"
END = "end"

MOTOR = (MOVE, LEFT, RIGHT)  # what moves the body
MOTOR_OR_END = (*MOTOR, END)  # what a slow turn may end with, and all that stage 1 knows
ALL = (MOVE, LEFT, RIGHT, OBS, END)  # what a fast turn chooses from

_WORLD_NAMES = {MOVE: "move_forward", LEFT: "turn_left", RIGHT: "turn_right", OBS: LOOK_AROUND, END: "stop"}
_OWN_NAMES = {name: action for action, name in _WORLD_NAMES.items()}
_MIRRORED = {LEFT: RIGHT, RIGHT: LEFT}


@dataclass(frozen=True)
class ActionMap:
    """Between our words and the indices of a world's discrete actions; see `ActionMap.of`."""

    spec: ActionSpec
    indices: dict[str, int]  # our word -> the world's index

    @classmethod
    def of(cls, spec: ActionSpec) -> ActionMap:
        """The map of a navigation world.

        Raises:
            ConfigError: the world lacks an action to move, turn or stop.
        """
        found = {action: spec.choices.index(name) for action, name in _WORLD_NAMES.items() if name in spec.choices}
        missing = [_WORLD_NAMES[action] for action in MOTOR_OR_END if action not in found]
        if missing:
            raise ConfigError(
                f"navigation needs a world with the actions {', '.join(ACTIONS)}; this one lacks {', '.join(missing)} "
                f"and has {spec.choices or spec.names}; choose rooms or habitat"
            )
        return cls(spec, found)

    @property
    def looks_around(self) -> bool:
        """Whether the world gives the four pictures of a look around by itself."""
        return OBS in self.indices

    def index(self, action: str) -> int:
        """The world's index of one of our words; `DataError` for a word it has no action for."""
        if action not in self.indices:
            raise DataError(f"this world has no action for {action!r}; it has {', '.join(self.indices)}")
        return self.indices[action]

    def word(self, index: int) -> str:
        """Our word for one of the world's indices; `DataError` for an action we have no word for (looking up)."""
        for action, own in self.indices.items():
            if own == index:
                return action
        names = self.spec.choices
        shown = names[index] if 0 <= index < len(names) else index
        raise DataError(f"the world's action {shown!r} has no word; there are words for {', '.join(_OWN_NAMES)}")


def word_of(name: str) -> str:
    """Our word for a world's action by its name: ``turn_left`` -> ``RotateLeft 30.0``."""
    if name not in _OWN_NAMES:
        raise DataError(f"the world's action {name!r} has no word; there are words for {', '.join(_OWN_NAMES)}")
    return _OWN_NAMES[name]


def mirrored(actions: Sequence[str]) -> tuple[str, ...]:
    """What a mirrored robot would do in a mirrored home: left and right exchanged."""
    return tuple(_MIRRORED.get(action, action) for action in actions)


def inverse(actions: Sequence[str]) -> tuple[str, ...]:
    """Turns that undo ``actions``, which must be turns: exchanged and in reverse order."""
    if any(action not in _MIRRORED for action in actions):
        raise DataError(f"only turns can be undone by turns, got {list(actions)}")
    return tuple(_MIRRORED[action] for action in reversed(actions))
