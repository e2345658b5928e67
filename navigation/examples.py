"""From trajectories to conversations to learn from, written with the very functions that the agent speaks with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backbone.errors import DataError
from backbone.vlm import Message
from navigation.config import NavigationConfig
from navigation.memory import VIEWS
from navigation.prompts import base_messages, cycle_messages, fast_reply, fast_turn, reply_turn, slow_reply
from navigation.records import Cycle, Recorded, Trajectory, read_episode


@dataclass(frozen=True, eq=False)
class Example:
    """A conversation, and for each of its assistant turns whether it is to be learned."""

    id: str
    messages: tuple[Message, ...]
    learn: tuple[bool, ...]

    def __post_init__(self) -> None:
        turns = sum(m["role"] == "assistant" for m in self.messages)
        if turns != len(self.learn):
            raise DataError(f"{self.id}: {turns} replies, but {len(self.learn)} marks of what to learn")
        if not any(self.learn):
            raise DataError(f"{self.id}: nothing to learn")


@dataclass(frozen=True)
class Place:
    """Where an example is found: file, cycle and first turn; ``pictures`` are how many it shows, for its length."""

    path: Path
    cycle: int
    begin: int
    pictures: int

    def load(self, config: NavigationConfig) -> Example:
        """The example itself."""
        return example_at(read_episode(self.path), self.cycle, self.begin, config)


def places_of(trajectory: Trajectory, path: Path, config: NavigationConfig) -> Iterator[Place]:
    """The examples of a trajectory: windows of ``config.window`` turns of stage 1, and every cycle that has a thought.

    The agent of stage 1 begins its context anew after as many turns.
    """
    for number, cycle in enumerate(trajectory.cycles):
        if cycle.views:
            if any(cycle.learn) and cycle.thought:
                memory = VIEWS * min(number + 1, config.memory_limit)
                yield Place(path, number, 0, memory + len(cycle.actions))
            continue
        for begin in range(0, len(cycle.actions), config.window):
            learn = cycle.learn[begin : begin + config.window]
            if any(learn):
                yield Place(path, number, begin, len(learn))


def example_at(recorded: Recorded, cycle: int, begin: int, config: NavigationConfig) -> Example:
    """One of the examples that `places_of` names."""
    if recorded.trajectory.cycles[cycle].views:
        return segment_example(recorded, cycle, config)
    return _window(recorded, cycle, begin, config)


def _window(recorded: Recorded, number: int, begin: int, config: NavigationConfig) -> Example:
    trajectory, cycle = recorded.trajectory, recorded.trajectory.cycles[number]
    turns = range(begin, min(begin + config.window, len(cycle.actions)))
    messages = base_messages(trajectory.task, recorded.picture(cycle.frames[begin]), config)
    messages += _replies(recorded, cycle, turns)
    return Example(f"{trajectory.id}/{number}/{begin}", tuple(messages), tuple(cycle.learn[i] for i in turns))


def segment_example(recorded: Recorded, number: int, config: NavigationConfig) -> Example:
    """A segment: memory and thought at the first turn, then frames and actions to ``obs`` or the end.

    Raises:
        DataError: the cycle has no thought; what is not known cannot be taught.
    """
    trajectory, cycle = recorded.trajectory, recorded.trajectory.cycles[number]
    if not cycle.thought:
        raise DataError(f"{trajectory.id}: cycle {number} has no thought; write thoughts before training")
    memory = recorded.memory(number, config.memory_limit)
    messages = cycle_messages(trajectory.task, memory, recorded.picture(cycle.frames[0]), config)
    messages.append(reply_turn(slow_reply(cycle.thought, cycle.actions[0])))
    if len(cycle.actions) > 1:
        messages.append(fast_turn(recorded.picture(cycle.frames[1])))
        messages += _replies(recorded, cycle, range(1, len(cycle.actions)))
    return Example(f"{trajectory.id}/{number}", tuple(messages), cycle.learn)


def _replies(recorded: Recorded, cycle: Cycle, turns: range) -> list[Message]:
    """The replies of ``turns``, each but the last followed by the next frame."""
    messages: list[Message] = []
    for i in turns:
        messages.append(reply_turn(fast_reply(cycle.actions[i])))
        if i + 1 in turns:
            messages.append(fast_turn(recorded.picture(cycle.frames[i + 1])))
    return messages
