"""``check_policy``: what every agent must do to be measured, served and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.checks.playing import copied, observation_difference
from backbone.checks.policy_probe import Play, PolicyProbe
from backbone.checks.report import Check, CheckReport, Finding, Wrong, run_checks
from backbone.contracts import Decision, FloatArray, Observation
from backbone.errors import WorldError
from backbone.rollout.agents import AgentConfig, BatchedAgent, check_specs, is_privileged
from backbone.rollout.config import Episode, episode_seed
from backbone.rollout.episode import run_episode
from backbone.worlds.world import WorldConfig, check_action

SESSIONS = 3  # played at the same time by the checks of interleaving and batches


def check_policy(
    agent: AgentConfig,
    world: WorldConfig,
    *,
    seed: int = 0,
    steps: int = 8,
    on_finding: Callable[[Finding], None] | None = None,
) -> CheckReport:
    """Check an agent against its contract in a world; every finding that failed says what is probably wrong.

    The world is taken to be sound; `check_world` says whether it is.

    Raises:
        ConfigError: a negative ``seed``, or too few ``steps`` to see a difference.
    """
    probe = PolicyProbe(agent, world, seed, steps)
    try:
        name = f"policy {agent.agent} in {world.world}"
        return run_checks(name, CHECKS, probe, mend=probe.mend, on_finding=on_finding)
    finally:
        probe.close()


def _made(probe: PolicyProbe) -> str:
    return f"{type(probe.agent).__name__}{', reads the world itself' if is_privileged(probe.agent) else ''}"


def _spec(probe: PolicyProbe) -> None:
    check_specs(probe.agent.spec, probe.world().action_spec)


def _chunks(probe: PolicyProbe) -> str:
    play = probe.play(0)
    sizes: set[int] = set()
    for _ in range(probe.steps):
        decision = play.decide()
        _check_decision(decision)
        if decision.actions.spec != probe.agent.spec:
            raise Wrong("a chunk's spec is not the agent's; build it with the agent's own `spec`")
        values = decision.actions.values
        sizes.add(len(values))
        for row in values:
            try:
                check_action(row, probe.world().action_spec, "an action of the chunk")
            except WorldError as error:
                raise Wrong(
                    f"{error}; un-normalise and clip before returning: the world and the server refuse such an action"
                ) from error
        play.take(decision)
        if play.ended:
            break
    play.session.close()
    if len(sizes) > 1:
        raise Wrong(f"chunks have {sorted(sizes)} actions; one length for all lets clients plan")
    return f"{sizes.pop()} actions in a chunk"


def _check_decision(decision: Any) -> None:
    if not isinstance(decision, Decision):
        raise Wrong(f"act returned a {type(decision).__name__}; it must return a Decision")
    if not len(decision.actions.values):
        raise Wrong("a chunk has no actions; at least one is needed")
    if not np.isfinite(decision.actions.values).all():
        raise Wrong("a chunk has NaN or infinite values; look for a division by a standard deviation of zero")
    for name in ("thought", "status"):
        if not isinstance(getattr(decision, name), str):
            raise Wrong(f"the decision's {name} is a {type(getattr(decision, name)).__name__}; it must be text")


def _deterministic(probe: PolicyProbe) -> None:
    first = probe.alone(0)
    _same(
        first,
        probe.play(0).to_the_end(probe.steps),
        "the same seed and world gave other actions",
        "draw from the session's seed, not from global random numbers",
    )


def _memory(probe: PolicyProbe) -> None:
    first = probe.alone(0)
    probe.play(1).to_the_end(probe.steps)
    _same(
        first,
        probe.play(0).to_the_end(probe.steps),
        "an episode depends on the one before",
        "keep queue, memory and caches in the session, not in the agent",
    )


def _interleaved(probe: PolicyProbe) -> None:
    alone = [probe.alone(number) for number in range(SESSIONS)]
    plays = [probe.play(number, number) for number in range(SESSIONS)]
    while any(_playing(probe, play) for play in plays):
        for play in plays:
            if _playing(probe, play):
                play.take(play.decide())
    _close(plays)
    for number, play in enumerate(plays):
        _same(
            alone[number],
            play.chunks,
            f"session {number} of {SESSIONS} interleaved ones acts otherwise than alone",
            "sessions share state: move it from the agent into the session",
        )


def _batched(probe: PolicyProbe) -> str:
    agent = probe.agent
    if not isinstance(agent, BatchedAgent):
        return "it has no act_many, so episodes are decided one by one"
    alone = [probe.alone(number) for number in range(SESSIONS)]
    plays = [probe.play(number, number) for number in range(SESSIONS)]
    while playing := [play for play in plays if _playing(probe, play)]:
        decisions = agent.act_many([play.session for play in playing], [play.observation for play in playing])
        if len(decisions) != len(playing):
            raise Wrong(f"act_many gave {len(decisions)} decisions for {len(playing)} sessions; one each, in order")
        for play, decision in zip(playing, decisions, strict=True):
            play.take(decision)
    _close(plays)
    for number, play in enumerate(plays):
        _same(
            alone[number],
            play.chunks,
            f"act_many decides otherwise for session {number} than act alone",
            "look for padding without a mask, a wrong order, or one random generator for the whole batch",
        )
    return f"{SESSIONS} sessions at once"


def _playing(probe: PolicyProbe, play: Play) -> bool:
    return not play.ended and len(play.chunks) < probe.steps


def _close(plays: Sequence[Play]) -> None:
    for play in plays:
        play.session.close()


def _same(a: Sequence[FloatArray], b: Sequence[FloatArray], what: str, remedy: str) -> None:
    for step, (one, other) in enumerate(zip(a, b, strict=False)):
        if one.shape != other.shape or not np.array_equal(one, other):
            gap = f" by up to {np.abs(one - other).max():.2g}" if one.shape == other.shape else ""
            raise Wrong(f"{what}: at decision {step} the actions differ{gap}; {remedy}")
    if len(a) != len(b):
        raise Wrong(f"{what}: {len(a)} decisions and then {len(b)}; {remedy}")


def _observation_kept(probe: PolicyProbe) -> None:
    play = probe.play(0)
    before = copied(play.observation)
    play.decide()
    found = observation_difference(before, play.observation)
    play.session.close()
    if found:
        raise Wrong(f"act changed its observation: {found}; the recorder and other agents see it too, work on a copy")


def _read_only(probe: PolicyProbe) -> None:
    play = probe.play(0)
    play.observation = _frozen(play.observation)
    try:
        decision = play.decide()
    except ValueError as error:
        raise Wrong(f"act fails on arrays that cannot be written to ({error}); those from a network are so") from error
    finally:
        play.session.close()
    _same(probe.alone(0)[:1], [decision.actions.values], "read-only arrays change the actions", "do not write to them")


def _frozen(observation: Observation) -> Observation:
    observation = copied(observation)
    arrays: list[NDArray[Any]] = [*observation.images.values(), *observation.depths.values()]
    if observation.state is not None:
        arrays.append(observation.state)
    for array in arrays:
        array.flags.writeable = False
    return observation


def _closing(probe: PolicyProbe) -> None:
    play = probe.play(0)
    play.decide()
    play.session.close()
    try:
        play.session.close()
    except Exception as error:
        raise Wrong(f"a second close raises {type(error).__name__}: {error}; it must do nothing") from error
    try:
        play.session.act(play.observation)
    except Exception:
        return
    raise Wrong("a closed session still acts; raise an error, or a client's late message moves a robot")


def _episode(probe: PolicyProbe) -> str:
    episode = Episode(0, episode_seed(probe.seed, 0), probe.world_config.options(0))
    row = run_episode(probe.world(), probe.agent, episode)
    return f"{'success' if row.success else 'no success'} after {row.steps} steps"


CHECKS: tuple[Check[PolicyProbe], ...] = (
    Check("it is made", _made, ground=True),
    Check("its actions are the world's", _spec, ground=True),
    Check("decisions are valid: finite, within limits, one length", _chunks),
    Check("the same seed gives the same actions", _deterministic),
    Check("an episode does not depend on those before", _memory),
    Check("interleaved sessions act as each alone", _interleaved),
    Check("a common inference decides as each alone", _batched),
    Check("act leaves its observation alone", _observation_kept),
    Check("read-only observations are fine", _read_only),
    Check("a closed session stays closed", _closing),
    Check("it plays an episode to its end", _episode),
)
