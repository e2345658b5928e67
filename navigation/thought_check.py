"""What thoughts get right: the model's own, written freely, against what the simulator knew of the same look around.

Imitation is measured best before it acts. An episode fails for many reasons at once; a thought either found the object
that was in sight or did not, named the room or another one, and planned to go where the robot went or elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backbone.errors import ConfigError, DataError
from backbone.statistics import Interval, wilson
from backbone.vlm import VLM, Message
from navigation.config import NavigationConfig
from navigation.homes.furniture import words
from navigation.parsing import split_thought
from navigation.prompts import cycle_messages
from navigation.records import list_episodes, read_episode
from navigation.thoughts import SIDES, Situation, situation

Verdict = Literal["found", "stop", "absent"]
_SIDE = "|".join(SIDES)
_SHORT_WAY = re.compile(r": (?:(left|right) (\d+))?(?:, )?(?:ahead (\d+))?\.")
_FULL_WAY = re.compile(r": (?:turn (left|right) by (\d+) degrees)?(?:, then )?(?:([\d.]+) m straight ahead)?\.")


@dataclass(frozen=True)
class Claims:
    """What a thought says: whether the object is in sight or reached, on which side, the room, and the way to go."""

    verdict: Verdict
    side: str = ""
    room: str = ""
    way: tuple[int, int] | None = None  # turns to the left, steps; None where it plans none


def claims_of(thought: str, category: str) -> Claims:
    """Read a thought in the wordings of `navigation.thoughts`."""
    name = re.escape(words(category))
    room = re.search(r"(?:Here|I am in the|This is the) ([a-z ]+?)[:.]", thought)
    seen = re.search(
        rf"(?:The {name} is|Go to the {name}|The {name} shows|(?:^|\. ){name}) ({_SIDE})\b", thought, flags=re.MULTILINE
    )
    verdict: Verdict = "stop" if "Stop." in thought else "found" if seen is not None else "absent"
    return Claims(verdict, seen[1] if seen else "", room[1] if room else "", _way(thought))


def _way(thought: str) -> tuple[int, int] | None:
    for pattern, turn, step in ((_SHORT_WAY, 1.0, 1.0), (_FULL_WAY, 30.0, 0.25)):
        found = [m for m in pattern.finditer(thought) if any(m.groups())]
        if found:
            side, turns, steps = found[-1].groups()
            count = round(float(turns or 0) / turn) * (-1 if side == "right" else 1)
            return count, round(float(steps or 0) / step)
    return None


def true_claims(now: Situation) -> Claims:
    """What a thought should say."""
    goal = now.goal
    verdict: Verdict = "stop" if now.ends else "found" if goal is not None else "absent"
    return Claims(verdict, SIDES[goal[0]] if goal else "", now.room.replace("_", " "), now.way)


@dataclass(frozen=True)
class Checked:
    """A thought and what it should have said."""

    episode: str
    cycle: int
    category: str
    thought: str
    said: Claims
    true: Claims
    sides: tuple[str, ...]  # all on which the object is in sight


def check_thoughts(
    vlm: VLM,
    adapter: str | None,
    folders: Sequence[Path],
    config: NavigationConfig,
    n: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Checked]:
    """Thoughts of up to ``n`` looks around of recorded episodes, drawn by ``seed``, with the records' own memory.

    Raises:
        ConfigError: ``n`` below 1.
        DataError: there are no episodes with looks around in ``folders``.
    """
    if n < 1:
        raise ConfigError(f"thoughts: n must be at least 1, got {n}")
    out: list[Checked] = []
    for messages, blank in _asked(folders, config, n, seed):
        written = vlm.generate(messages, max_new_tokens=config.thought_tokens, temperature=0.0, adapter=adapter)
        thought, _ = split_thought(written.texts[0])
        said = claims_of(thought, blank.category)
        out.append(Checked(blank.episode, blank.cycle, blank.category, thought, said, blank.true, blank.sides))
        if progress is not None:
            progress(len(out))
    return out


def _asked(
    folders: Sequence[Path], config: NavigationConfig, n: int, seed: int
) -> Iterator[tuple[list[Message], Checked]]:
    """Conversations that wait for a thought, and what it should say."""
    paths = [path for folder in folders for path in list_episodes(folder)]
    order = np.random.default_rng([seed, 0x7C]).permutation(len(paths)).tolist()
    count = 0
    for index in order:
        recorded = read_episode(paths[index])
        told = recorded.trajectory
        for number, cycle in enumerate(told.cycles):
            if not cycle.views or count >= n:
                continue
            now = situation(told, number)
            sides = tuple(s for s, v in zip(SIDES, now.views, strict=True) if v["goals"])
            view = recorded.picture(cycle.frames[0])
            messages = cycle_messages(told.task, recorded.memory(number, config.memory_limit), view, config)
            yield messages, Checked(told.id, number, told.category, "", Claims("absent"), true_claims(now), sides)
            count += 1
    if not count:
        raise DataError(
            f"no looks around in {', '.join(map(str, folders))}; make episodes with: fovea data navigation stage2"
        )


def summary(checked: Sequence[Checked]) -> dict[str, Any]:
    """Shares with 95 % intervals; None where nothing was there to judge."""
    seen = [c for c in checked if c.true.verdict != "absent"]
    claimed = [c for c in checked if c.said.verdict != "absent"]
    sided = [c for c in checked if c.said.side and c.sides]
    planned = [c for c in checked if c.true.verdict != "stop" and c.true.way is not None]
    rooms = [c for c in checked if c.true.room]
    ways = [(c.said.way, c.true.way) for c in planned]
    shares = {
        "object_recall": ([c.said.verdict != "absent" for c in seen]),
        "object_precision": ([c.true.verdict != "absent" for c in claimed]),
        "side": ([c.said.side in c.sides for c in sided]),
        "room": ([c.said.room == c.true.room for c in rooms]),
        "plan_given": ([said is not None for said, _ in ways]),
        "turns_within_one": ([_turns_apart(said, true) <= 1 for said, true in ways]),
        "steps_within_three": (
            [said is not None and true is not None and abs(said[1] - true[1]) <= 3 for said, true in ways]
        ),
        "stop": ([c.said.verdict == "stop" for c in checked if c.true.verdict == "stop"]),
        "false_stop": ([c.said.verdict == "stop" for c in checked if c.true.verdict != "stop"]),
    }
    told: dict[str, Interval | None] = {k: wilson(sum(v), len(v)) if v else None for k, v in shares.items()}
    outcomes = Counter(f"{c.true.verdict} -> {c.said.verdict}" for c in checked)
    return {
        "n": len(checked),
        "shares": {k: asdict(v) if v is not None else None for k, v in told.items()},
        "verdicts": dict(sorted(outcomes.items())),
    }


def _turns_apart(said: tuple[int, int] | None, true: tuple[int, int] | None) -> int:
    """Turns between two plans, the shorter way round; 12 where one is missing."""
    if said is None or true is None:
        return 12
    off = (said[0] - true[0]) % 12
    return min(off, 12 - off)
