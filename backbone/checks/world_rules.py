"""Checks of a world's rules: the order of calls, the limits of actions, the end of an episode, its expert."""

from __future__ import annotations

import numpy as np

from backbone.checks.playing import actions_for, advance, difference
from backbone.checks.report import Wrong
from backbone.checks.world_probe import WorldProbe
from backbone.contracts import FloatArray
from backbone.errors import WorldError
from backbone.rollout.agents import ExpertAgent
from backbone.rollout.config import Episode
from backbone.rollout.episode import run_episode


def step_before_reset(probe: WorldProbe) -> None:
    """A step before the first reset raises `WorldError`."""
    probe.close()
    _refused(probe, probe.action, "a step before the first reset", "keep a flag that reset sets and the end clears")


def refusals(probe: WorldProbe) -> None:
    """Actions outside the limits, not finite, or of a wrong shape raise `WorldError` and end nothing."""
    spec, good = probe.spec, probe.action
    wrong: list[tuple[str, FloatArray, str]] = [
        ("an action above its limits", np.asarray(spec.high, np.float32) + 1, "call check_action first in step"),
        ("an action below its limits", np.asarray(spec.low, np.float32) - 1, "call check_action first in step"),
        ("a NaN action", np.full_like(good, np.nan), "comparisons with NaN are false: test with isfinite"),
        ("an infinite action", np.full_like(good, np.inf), "test with isfinite"),
        ("an action with a value too many", np.concatenate([good, good[:1]]), "compare the shape"),
    ]
    if spec.kind == "discrete":
        wrong.append(("a fractional choice", good * 0 + np.float32(spec.low[0] + 0.5), "compare with its rounding"))
    for what, action, remedy in wrong:
        probe.begin()
        _refused(probe, action, what, remedy)
        probe.world.step(good)  # a refusal must not end the episode


def _refused(probe: WorldProbe, action: FloatArray, what: str, remedy: str) -> None:
    try:
        probe.world.step(action)
    except WorldError:
        return
    except Exception as error:
        raise Wrong(f"{what} raises {type(error).__name__}: {error}; raise WorldError ({remedy})") from error
    raise Wrong(f"{what} is accepted; raise WorldError ({remedy})")


def action_kept(probe: WorldProbe) -> None:
    """`step` does not write to its argument."""
    probe.begin()
    action = probe.action
    before = action.copy()
    probe.world.step(action)
    if not np.array_equal(before, action):
        raise Wrong(f"step changed the action it was given from {before} to {action}; work on a copy")


def end(probe: WorldProbe) -> str:
    """The episode ends by ``max_steps``, refuses further steps, and leaves nothing behind."""
    trace = probe.begin()
    limit = probe.world.max_steps
    for action in actions_for(probe.spec, probe.seed, limit):
        advance(probe.world, trace, action)
        if trace.ended:
            break
    steps = len(trace.ends)
    if not trace.ended:
        raise Wrong(f"the episode goes on after max_steps = {limit}; step must return truncated = True at that step")
    if trace.ends[-1][1] and steps < limit:
        raise Wrong(f"the episode was truncated after {steps} steps, but max_steps is {limit}; say the true limit")
    _refused(probe, probe.action, "a step after the end of the episode", "require a reset")
    if difference(probe.play(), probe.play()):
        raise Wrong("after an episode's end the next ones differ; reset must set everything that a step changes")
    return "" if trace.ends[-1][1] else f"ended by itself after {steps} steps, so max_steps was not reached"


def expert(probe: WorldProbe) -> str:
    """The expert has no dice and plays an episode to its end."""
    probe.begin()
    first, second = probe.world.expert_action(), probe.world.expert_action()
    if not np.array_equal(first, second):
        raise Wrong(f"the expert changes its mind without a step: {first} and then {second}; it must have no dice")
    row = run_episode(probe.world, ExpertAgent(probe.spec), Episode(0, probe.seed, probe.options))
    return f"{'success' if row.success else 'no success'} after {row.steps} steps"


def close(probe: WorldProbe) -> None:
    """A second close does nothing."""
    world = probe.world
    probe.begin()
    world.close()
    try:
        world.close()
    except Exception as error:
        raise Wrong(f"a second close raises {type(error).__name__}: {error}; it must do nothing") from error
    finally:
        probe.close()
