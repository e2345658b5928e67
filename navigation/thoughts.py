"""Thoughts for training, written from privileged state by templates with paraphrases (section 4.3, no model needed).

A thought has three parts: what the memory says, what is seen around, and the plan. The plan follows what the robot did
next, in hindsight, but speaks only of what is seen from here: a thought that tells of more would teach to guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from backbone.errors import ConfigError, DataError
from navigation.actions import END, OBS
from navigation.homes.furniture import words
from navigation.records import Cycle, Pose, Recorded, Trajectory, with_thoughts
from navigation.worlds.navigation_world import bearing, wrapped

SIDES = ("ahead", "left", "behind", "right")
Style = Literal["short", "full"]
_NEAR_M = 0.6  # a cycle that leads less far than this has no direction
_STEP_M, _TURN = 0.25, math.radians(30.0)
_ASIDE_M = 0.4  # a leg is straight while nothing of it lies farther from its line
_TURNED_M = 0.3  # a cycle that leads less far than this is turns on the spot


@dataclass(frozen=True)
class Situation:
    """All that a thought may speak of. ``toward`` is the side the robot goes to next, None where it stays."""

    category: str
    rooms: tuple[str, ...]  # kinds of the rooms of the landmarks before, oldest first
    room: str
    views: tuple[Mapping[str, Any], ...]  # see `navigation.surroundings`
    toward: int | None
    ends: bool  # the next action is `end`
    returns: bool  # it goes on to a room where a landmark is already
    way: tuple[int, int] = (0, 0)  # the first straight leg of what comes: turns to the left (-5 to 6), then steps

    @property
    def goal(self) -> tuple[int, float] | None:
        """In which view the target is nearest, and how far; None where it is not seen."""
        seen = [(min(v["goals"]), i) for i, v in enumerate(self.views) if v["goals"]]
        return (min(seen)[1], min(seen)[0]) if seen else None


def situation(trajectory: Trajectory, cycle: int) -> Situation:
    """The situation at the start of a cycle; `DataError` where nothing was noted of its look around."""
    around = trajectory.facts.get("around", [])
    if len(around) != len(trajectory.cycles) or not around[cycle].get("views"):
        raise DataError(f"{trajectory.id}: nothing is known of the look around of cycle {cycle}")
    here, now = around[cycle], trajectory.cycles[cycle]
    last = cycle + 1 == len(trajectory.cycles)
    after = now.poses[-1] if last else trajectory.cycles[cycle + 1].poses[0]
    rooms = tuple(a["room"] for a in around[:cycle])
    leads_to = "" if last else around[cycle + 1]["room"]
    return Situation(
        category=trajectory.category,
        rooms=rooms,
        room=here["room"],
        views=tuple(here["views"]),
        toward=side_of(now.poses[0], after),
        ends=now.actions[0] == END,
        returns=bool(leads_to) and leads_to != here["room"] and leads_to in rooms,
        way=first_leg([*now.poses, after][: _meant(now)]),
    )


def _meant(cycle: Cycle) -> int:
    """How many poses of a cycle, the last one included, its plan spoke of: not where it went astray at its end."""
    motor = len(cycle.actions) - (cycle.actions[-1] in (OBS, END))
    while motor > 1 and not cycle.learn[motor - 1]:
        motor -= 1
    return motor + 1


def first_leg(poses: Sequence[Pose]) -> tuple[int, int]:
    """The straight leg that a way begins with, as turns to the left (-5 to 6) and steps ahead: all in sight from here.

    Where the way leads nowhere it is the turns alone.
    """
    here = poses[0]
    end = next((i for i in range(len(poses) - 1, 0, -1) if _straight(poses[: i + 1])), 0)
    metres = math.dist(here[:2], poses[end][:2])
    if metres < _TURNED_M:
        return _turns(poses[-1][2] - here[2]), 0
    return _turns(bearing(here, poses[end]) - here[2]), max(1, round(metres / _STEP_M))


def _turns(angle: float) -> int:
    """The whole number of turns nearest to an angle, -5 to 6."""
    return (round(wrapped(angle) / _TURN) + 5) % 12 - 5


def _straight(poses: Sequence[Pose]) -> bool:
    """Whether a way is about straight, and never leads back."""
    places = np.array([p[:2] for p in poses])
    whole = places[-1] - places[0]
    length = float(np.linalg.norm(whole))
    if length < 1e-6:
        return bool(np.linalg.norm(places - places[0], axis=1).max() < _TURNED_M)
    along, across = (places - places[0]) @ (whole / length), (places - places[0]) @ [-whole[1], whole[0]] / length
    return bool(np.abs(across).max() <= _ASIDE_M and along.min() > -_TURNED_M and along.max() < length + _TURNED_M)


def side_of(here: Pose, there: Pose) -> int | None:
    """In which of the four views (0 ahead, 1 left, 2 behind, 3 right) a place lies; None if it is here."""
    dx, dz = there[0] - here[0], there[1] - here[1]
    if math.hypot(dx, dz) < _NEAR_M:
        return None
    return round(wrapped(bearing(here, there) - here[2]) / (math.pi / 2)) % 4


@dataclass(frozen=True)
class TemplateTeacher:
    """Writes thoughts by rule. ``short`` ones stay below some 40 of nano's tokens."""

    style: Style = "short"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.style not in ("short", "full"):
            raise ConfigError(f"thoughts are short or full, not {self.style!r}")

    def write(self, recorded: Recorded, cycle: int) -> str:
        """The thought of one cycle."""
        trajectory = recorded.trajectory
        rng = np.random.default_rng([self.seed, trajectory.seed, cycle, 0x7EAC])
        return write(situation(trajectory, cycle), self.style, rng)


def write(now: Situation, style: Style, rng: np.random.Generator) -> str:
    """A thought in one of its wordings."""
    parts = (_memory(now, style, rng), _panorama(now, style, rng), _plan(now, style, rng))
    return " ".join(part for part in parts if part)


def think_all(recorded: Recorded, teacher: TemplateTeacher) -> Recorded:
    """The trajectory with a thought in every cycle."""
    cycles = range(len(recorded.trajectory.cycles))
    return with_thoughts(recorded, [teacher.write(recorded, i) for i in cycles])


def with_new_thoughts(recorded: Recorded, teacher: TemplateTeacher, first: int) -> Recorded:
    """The trajectory with new thoughts from cycle ``first`` on; those before stay as they are."""
    cycles = recorded.trajectory.cycles
    thoughts = [c.thought if i < first else teacher.write(recorded, i) for i, c in enumerate(cycles)]
    return with_thoughts(recorded, thoughts)


def _memory(now: Situation, style: Style, rng: np.random.Generator) -> str:
    known = list(dict.fromkeys(_room(r) for r in now.rooms if r))
    if not now.rooms:
        return _pick(rng, ("Start.", "Nothing seen yet.")) if style == "short" else "Nothing was explored so far."
    if not known:
        return f"Been: {len(now.rooms)} places."
    if style == "short":
        return f"{_pick(rng, ('Been', 'Seen'))}: {', '.join(known[-2:])}."
    return _pick(rng, ("So far I explored the {}.", "The memory shows the {}.")).format(_joined(known))


def _panorama(now: Situation, style: Style, rng: np.random.Generator) -> str:
    """What each side shows: the largest thing, doorways; the target first of all."""
    told = []
    for number, (side, view) in enumerate(zip(SIDES, now.views, strict=True)):
        things = [words(name) for name, _ in view["things"]]
        if view["goals"]:
            things = [words(now.category), *(t for t in things if t != words(now.category))]
        if style == "short":
            known = number == 2 and now.rooms and now.toward != 2 and not view["goals"]
            things = [] if known else things[:1]  # one came from behind; a short thought leaves that out
            if view["doors"] and not known and (not things or (number == now.toward and not view["goals"])):
                things = ["door"]
        else:
            things = things[:3] + (["a doorway"] if view["doors"] else [])
        told.append(f"{side} {_joined(things)}" if things else "")
    shown = [t for t in told if t]
    here = f"Here {_room(now.room)}" if now.room else "Here"
    if style == "short":
        return f"{here}: {', '.join(shown) if shown else 'walls'}."
    opening = _pick(rng, ("I am in the {}.", "This is the {}.")).format(_room(now.room)) if now.room else ""
    return f"{opening} I see {'; '.join(shown) if shown else 'nothing but walls'}.".strip()


def _plan(now: Situation, style: Style, rng: np.random.Generator) -> str:
    goal, name = now.goal, words(now.category)
    if now.ends:
        return _pick(rng, (f"The {name} is here. Stop.", f"Reached the {name}. Stop."))
    if goal is not None and (now.toward is None or goal[0] == now.toward):
        seen = SIDES[goal[0]]
        wordings = (f"Go to the {name} {seen}", f"The {name} is {seen}; go there")
        return f"{_pick(rng, wordings)}: {_way(now.way, style)}."
    where = SIDES[now.toward if now.toward is not None else 0]
    view = now.views[now.toward if now.toward is not None else 0]
    if style == "short":
        way = f"{where} through the door" if view["doors"] else where
        again = " again" if now.returns else ""
        seen = f"{name} {SIDES[goal[0]]}, but round" if goal else f"No {name}"
        return f"{seen}. {_pick(rng, ('Go', 'Explore'))} {way}{again}: {_way(now.way, style)}."
    way = f"through the doorway {where}" if view["doors"] else f"on to the side {where}"
    why = "back to a known room, for the rest is seen" if now.returns else "where I have not been"
    seen = f"The {name} shows {SIDES[goal[0]]}, but the way leads round." if goal else f"There is no {name} in sight."
    return f"{seen} {_pick(rng, ('I go', 'I will go', 'Next I go'))} {way}, {why}: {_way(now.way, style)}."


def _way(way: tuple[int, int], style: Style) -> str:
    """``left 3, ahead 8``: turns of 30 degrees, then steps of a quarter of a metre."""
    turns, steps = way
    side = "left" if turns > 0 else "right"
    if style == "short":
        parts = [f"{side} {abs(turns)}"] * bool(turns) + [f"ahead {steps}"] * bool(steps)
        return ", ".join(parts) or "stay"
    parts = [f"turn {side} by {30 * abs(turns)} degrees"] * bool(turns)
    parts += [f"{_STEP_M * steps:.2f} m straight ahead"] * bool(steps)
    return ", then ".join(parts) or "right here"


def _room(kind: str) -> str:
    return kind.replace("_", " ")


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
