"""Stage 3 in a world: rollouts of the present weights under watch, and the repair of those that failed (section 5).

A repaired trajectory is played anew: the rollout's own actions up to where it went wrong, a look around there, and the
shortest way to the target with a look at least every thirty actions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from backbone.contracts import Observation
from backbone.errors import DataError, FoveaError, WorldError
from backbone.worlds.world import World
from navigation.actions import END, OBS
from navigation.agent import HydraAgent, HydraSession
from navigation.agent_config import load
from navigation.data import Dropped, MakingConfig
from navigation.decisions import NavigationDecision
from navigation.irft import Judgement, accept, judge, look_due
from navigation.playing import Play
from navigation.prompts import THINK_END, THINK_START
from navigation.records import Recorded
from navigation.segments import leg_ends
from navigation.stagnation import Watch
from navigation.surroundings import scene_of, surroundings
from navigation.switching import SwitchConfig
from navigation.thoughts import TemplateTeacher, with_new_thoughts

OBJECT_M = "distance_to_object"  # of a world's measures


@dataclass(frozen=True, eq=False)
class Rollout:
    """An episode of the agent, and what it was judged by: one entry of ``distances`` a time, 0 to T."""

    recorded: Recorded
    ended: bool
    object_m: float
    distances: tuple[float, ...]
    stagnant: tuple[int, ...]


Asking = tuple[HydraSession, Observation]  # who is asked for a decision, and what it sees
Playing = Generator[Asking, NavigationDecision, Rollout]


def playing(world: World, agent: HydraAgent, config: MakingConfig, seed: int, options: Mapping[str, Any]) -> Playing:
    """One episode of algorithm 1: a slow turn at the start, wherever the robot stagnates, and where it asks for one.

    It yields whenever a decision is due and is sent it, so that several episodes can be decided together.
    """
    data = config.data
    play = Play(world, seed, options)
    scene, watch = scene_of(world, play.told), Watch(data, seed)
    session: HydraSession = agent.session(play.observation.instruction, seed)
    distances: list[float] = []
    stagnant: list[int] = []
    ended = False
    while not play.over and play.steps < data.rollout_steps:
        if len(distances) == play.steps:  # not after a look, which takes no time
            distances.append(play.distance)
            if watch.step(play.pose[:2], play.distance) is not None:
                stagnant.append(watch.t)
                session.ask_to_think()
        decision = yield session, play.observation
        if decision.action == OBS:
            play.look_around(surroundings(world, scene, play.pose, str(play.info["category"])))
            watch.slow()
            continue
        if decision.mode == "slow":
            play.think(teachable(decision.thought))
        play.act(decision.action)
        ended = decision.action == END
    session.close()
    if not ended:
        distances.append(play.distance)
    object_m = float(world.metrics()[OBJECT_M])
    recorded = play.finish(
        f"rollout-{seed}", "rollout", {"stagnant": stagnant, "ended": ended, "options": dict(options)}
    )
    return Rollout(recorded, ended, object_m, tuple(distances), tuple(stagnant))


def roll_out(world: World, agent: HydraAgent, config: MakingConfig, seed: int, options: Mapping[str, Any]) -> Rollout:
    """One episode of `playing`, decided alone."""
    (found,) = roll_out_many([playing(world, agent, config, seed, options)], lambda s, o: [s[0].act(o[0])])
    if isinstance(found, FoveaError):
        raise found
    return found


Decide = Callable[[Sequence[HydraSession], Sequence[Observation]], Sequence[NavigationDecision]]


def roll_out_many(episodes: Sequence[Playing], decide: Decide) -> list[Rollout | FoveaError]:
    """Episodes side by side: at every turn one call of ``decide`` for all that are under way.

    An episode that fails leaves its error in its place; where ``decide`` fails, all fail that had asked.
    """
    out: dict[int, Rollout | FoveaError] = {}
    asking: dict[int, Asking] = {}

    def go_on(number: int, decision: NavigationDecision | None) -> None:
        asking.pop(number, None)
        try:
            episode = episodes[number]
            asking[number] = next(episode) if decision is None else episode.send(decision)
        except StopIteration as done:
            out[number] = done.value
        except FoveaError as error:
            out[number] = error

    for number in range(len(episodes)):
        go_on(number, None)
    while asking:
        turn = dict(asking)
        try:
            decisions = decide([s for s, _ in turn.values()], [o for _, o in turn.values()])
        except FoveaError as error:
            out.update(dict.fromkeys(turn, error))
            break
        for number, decision in zip(turn, decisions, strict=True):
            go_on(number, decision)
    return [out[number] for number in range(len(episodes))]


def teachable(thought: str | None) -> str:
    """A thought as it can be taught again; empty, so that its cycle is not, if there are tags left in it."""
    text = (thought or "").strip()
    return "" if THINK_START in text or THINK_END in text else text


def settle(world: World, rollout: Rollout, config: MakingConfig) -> tuple[Recorded, Judgement]:
    """What is learned from a rollout: itself or its repair.

    Raises:
        Dropped: the repair is too long, or does not end at the target.
    """
    judgement = judge(rollout.ended, rollout.object_m, rollout.distances, rollout.stagnant, config.data)
    facts = {"outcome": judgement.outcome, "fate": judgement.fate}
    if judgement.fate == "keep":
        return _with_facts(rollout.recorded, facts), judgement
    repaired, object_m = repair(world, rollout.recorded, judgement, config)
    judgement = accept(judgement, repaired.trajectory.steps, object_m, config.data)
    if judgement.fate == "drop":
        raise Dropped(f"{judgement.outcome}: {judgement.why}")
    return _with_facts(repaired, {**facts, "at": judgement.at}), judgement


def _with_facts(recorded: Recorded, facts: Mapping[str, Any]) -> Recorded:
    told = {**recorded.trajectory.facts, **facts}
    return Recorded(replace(recorded.trajectory, facts=told), recorded.packed)


def repair(world: World, failed: Recorded, judgement: Judgement, config: MakingConfig) -> tuple[Recorded, float]:
    """The rollout up to time ``judgement.at``, ``obs`` in place of its action there, and the shortest way.

    Returns the repaired trajectory and the metres to the object at its end.
    """
    if judgement.at is None:
        raise DataError("only a judgement that says where to cut can be carried out")
    trajectory = failed.trajectory
    play = Play(world, trajectory.seed, trajectory.facts["options"])
    scene, category = scene_of(world, play.told), trajectory.category
    _replay(play, failed, judgement.at)
    looked = play.thinks and not play.since_look  # cut at the very start: the look there is the one that is due
    kept = len(play.cycles) + (not looked)  # cycles with thoughts of their own, the one that is cut among them
    while not play.over:
        wanted = play.expert()
        fresh = len(play.cycles) < kept  # not looked around yet since the cut
        turns = leg_ends(play.since_look, play.begun, play.pose, wanted, config.data)
        if fresh or turns or (look_due(play.since_look, config.data) and wanted != END):
            play.look_around(surroundings(world, scene, play.pose, category))
        if play.steps > config.data.repaired_steps:
            break
        play.act(wanted)
    object_m = float(world.metrics()[OBJECT_M])
    facts = {"options": trajectory.facts["options"]}
    made = play.finish(f"repaired-{trajectory.seed}", "repaired", facts)
    return with_new_thoughts(made, TemplateTeacher(config.thoughts, config.seed), kept), object_m


def _replay(play: Play, failed: Recorded, until: int) -> None:
    """The first ``until`` actions of the body again, with the looks around and thoughts between them.

    Raises:
        WorldError: the world does not do again what it did.
    """
    around = failed.trajectory.facts["around"]
    for number, cycle in enumerate(failed.trajectory.cycles):
        if play.steps >= until and number > 0:
            return
        play.look_around(around[number])
        play.think(cycle.thought)
        for action, pose in zip(cycle.actions, cycle.poses, strict=True):
            if play.steps >= until or action == OBS:
                break
            if np.abs(np.subtract(pose, play.pose)).max() > 1e-3:
                raise WorldError(f"{failed.trajectory.id}: replayed, the robot stands elsewhere at step {play.steps}")
            play.act(action)


@dataclass(frozen=True)
class RolloutJob:
    """Rollouts of a model and what becomes of them, for `navigation.producing`."""

    making: MakingConfig = field(default_factory=MakingConfig)
    model: str = "nano"
    adapter: str = ""
    device: str = "auto"
    world_name: str = "rooms"  # kept with the settings
    round: int = 1

    def open(self) -> RolloutStudio:
        """Load the model and open the world."""
        return RolloutStudio(self)


class RolloutStudio:
    """A model, and a world for every episode that is played at the same time."""

    def __init__(self, job: RolloutJob) -> None:
        """Load and open."""
        making = job.making
        self._making = replace(making, seed=making.seed + 7919 * job.round)
        settings = replace(
            making.agent, temperature=making.data.rollout_temperature, max_steps=making.data.rollout_steps
        )
        vlm, adapter = load(job.model, settings, job.adapter, job.device)
        self._worlds = [making.ready_world().make()]
        self._agent = HydraAgent(vlm, self._worlds[0].action_spec, settings, SwitchConfig("learned"), adapter=adapter)

    def make(self, number: int) -> Recorded:
        """Roll out, judge, keep or repair."""
        (made,) = self.make_many([number])
        if isinstance(made, Exception):
            raise made
        return made

    def make_many(self, numbers: Sequence[int]) -> list[Recorded | Dropped | FoveaError]:
        """The same for several episodes at once; what befalls one is in its place."""
        while len(self._worlds) < len(numbers):
            self._worlds.append(self._making.ready_world().make())
        episodes = [self._playing(world, number) for world, number in zip(self._worlds, numbers, strict=False)]
        out: list[Recorded | Dropped | FoveaError] = []
        for world, found in zip(
            self._worlds, roll_out_many(episodes, cast(Decide, self._agent.act_many)), strict=False
        ):
            try:
                out.append(found if isinstance(found, FoveaError) else settle(world, found, self._making)[0])
            except (Dropped, FoveaError) as reason:
                out.append(reason)
        return out

    def _playing(self, world: World, number: int) -> Playing:
        making = self._making
        return playing(world, self._agent, making, making.episode_seed(number), making.options(number))

    def close(self) -> None:
        """Close the worlds."""
        for world in self._worlds:
            world.close()
