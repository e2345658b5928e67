"""Checks that an episode is a pure function of its seed and actions, and that nothing else reaches into it."""

from __future__ import annotations

from backbone.checks.playing import actions_for, advance, begin, difference, observation_difference
from backbone.checks.report import Wrong
from backbone.checks.world_probe import OTHER_SEED, WorldProbe


def own_arrays(probe: WorldProbe) -> None:
    """Later steps do not change an observation that was handed out."""
    before = probe.begin().observations[0]
    observation, _ = probe.world.reset(seed=probe.seed, options=dict(probe.options))
    for action in actions_for(probe.spec, probe.seed, 3):
        _, _, terminated, truncated, _ = probe.world.step(action)
        if terminated or truncated:
            break
    changed = observation_difference(before, observation)
    if changed:
        raise Wrong(
            f"the first observation changed after later steps: {changed}; the world hands out a buffer that it draws "
            "into again, return a copy"
        )


def same_seed(probe: WorldProbe) -> None:
    """The same seed and actions give the same episode."""
    found = difference(probe.play(), probe.play())
    if found:
        raise Wrong(f"the same seed and actions gave another episode: {found}; draw everything from the reset's seed")


def other_seed(probe: WorldProbe) -> None:
    """Other seeds begin with other observations."""
    traces = [probe.begin(probe.seed + number * OTHER_SEED) for number in range(3)]
    if all(not difference(traces[0], trace) for trace in traces[1:]):
        raise Wrong("three different seeds begin with the same observation; the seed is not used, or only partly")


def history(probe: WorldProbe) -> None:
    """An episode is the same whatever was played before."""
    probe.close()
    first = probe.play()
    probe.play(probe.seed + OTHER_SEED)
    found = difference(first, probe.play())
    if found:
        raise Wrong(f"an episode depends on those before it: {found}; reset must set everything that a step changes")


def side_by_side(probe: WorldProbe) -> None:
    """A second open world changes nothing in the first."""
    alone = probe.play()
    actions = actions_for(probe.spec, probe.seed, probe.steps)
    other = probe.config.make()
    try:
        mine = probe.begin()
        theirs = begin(other, probe.seed + OTHER_SEED, probe.options)
        for action in actions:
            if not mine.ended:
                advance(probe.world, mine, action)
            if not theirs.ended:
                advance(other, theirs, action)
    finally:
        other.close()
    found = difference(alone, mine)
    if found:
        raise Wrong(
            f"a second open world changes this one's episode: {found}; look for global random numbers, shared "
            "simulator state, or a rendering context that is not made current"
        )
    found = difference(alone, probe.play())
    if found:
        raise Wrong(f"closing another world changed this one: {found}; each must own what it closes")


def looking(probe: WorldProbe) -> None:
    """describe, metrics, draw and expert_action change nothing."""
    quiet = probe.play()
    trace = probe.begin()
    for action in actions_for(probe.spec, probe.seed, probe.steps):
        if trace.ended:
            break
        for look in (probe.world.describe, probe.world.metrics, probe.world.draw, probe.world.expert_action):
            look()
        advance(probe.world, trace, action)
    found = difference(quiet, trace)
    if found:
        raise Wrong(f"describe, metrics, draw or expert_action changes the episode: {found}; they may only look")
