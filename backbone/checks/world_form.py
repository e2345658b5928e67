"""Checks of a world's form: what it is made from, what it hands out, and in which types."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np

from backbone.checks.playing import actions_for, advance, plain
from backbone.checks.report import Wrong
from backbone.checks.world_probe import OTHER_SEED, WorldProbe
from backbone.contracts import check_image
from backbone.errors import DataError
from backbone.worlds.world import World


def config(probe: WorldProbe) -> None:
    """A frozen dataclass of plain values, and options of plain values."""
    config: Any = probe.config
    if not getattr(getattr(type(config), "__dataclass_params__", None), "frozen", False):
        raise Wrong("the config is no frozen dataclass; other processes could not make the same world from it")
    for what, value in (("config", dataclasses.asdict(config)), ("options", dict(probe.options))):
        try:
            plain(value)
        except (TypeError, ValueError) as error:
            raise Wrong(f"the {what} are not plain JSON values ({error}); results could not record them") from error


def opens(probe: WorldProbe) -> str:
    """`make` returns a world with a name, actions and a limit of steps."""
    world = probe.world
    if not isinstance(world, World):
        raise Wrong(f"make() returned a {type(world).__name__}; derive it from backbone.worlds.world.World")
    if world.name != probe.config.world:
        raise Wrong(f"the world calls itself {world.name!r} and its config {probe.config.world!r}; use one name")
    if not isinstance(world.max_steps, int) or world.max_steps < 1:
        raise Wrong(f"max_steps is {world.max_steps!r}; it must be a whole number of at least 1")
    return f"{len(world.action_spec.names)} {world.action_spec.kind} actions, {world.max_steps} steps at most"


def observations(probe: WorldProbe) -> str:
    """Names, shapes and types stay the same in all episodes, and time grows."""
    first = probe.begin().observations[0]
    later = [*probe.play().observations, *probe.play(probe.seed + OTHER_SEED).observations]
    for number, observation in enumerate(later):
        if _form(observation) != _form(first):
            raise Wrong(
                f"observation {number} has the form {_form(observation)}, the first one {_form(first)}; "
                "names, shapes and types must stay the same in all episodes, or nothing can be batched or recorded"
            )
    times = [observation.time_s for observation in probe.play().observations]
    if any(b <= a for a, b in pairwise(times)):
        raise Wrong(f"time_s does not grow from step to step: {times[:5]}; count steps divided by control_hz")
    return ", ".join(f"{name} {shape}" for name, shape, _ in _form(first))


def _form(observation: Any) -> list[tuple[str, tuple[int, ...], str]]:
    arrays = {**observation.images, **{f"depth of {name}": d for name, d in observation.depths.items()}}
    if observation.state is not None:
        arrays["state"] = observation.state
    return [(name, array.shape, str(array.dtype)) for name, array in sorted(arrays.items())]


def pictures(probe: WorldProbe) -> None:
    """No camera shows one colour for ever, and something changes."""
    trace = probe.play()
    for name in trace.observations[0].images:
        frames = [observation.images[name] for observation in trace.observations]
        if all(int(frame.min()) == int(frame.max()) for frame in frames):
            raise Wrong(
                f"camera {name!r} shows one colour ({frames[0][0, 0].tolist()}) in all of {len(frames)} frames; "
                "the camera may be inside a wall, the light off, or the picture read before it was drawn"
            )
    if all(
        np.array_equal(observation.images[name], trace.observations[0].images[name])
        for observation in trace.observations[1:]
        for name in observation.images
    ):
        raise Wrong(
            f"no picture changes over {len(trace.ends)} steps of moving; "
            "the world may hand out an old frame, or not move at all"
        )


def answers(probe: WorldProbe) -> None:
    """A finite reward, two bools and a dict."""
    probe.begin()
    _, reward, terminated, truncated, info = probe.world.step(probe.action)
    if not np.isfinite(reward):
        raise Wrong(f"the reward is {reward}; it must be finite")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, (bool, np.bool_)):
            raise Wrong(f"step's {name} is {value!r}; it must be a bool (the order is reward, terminated, truncated)")
    if not isinstance(info, dict):
        raise Wrong(f"step's info is a {type(info).__name__}; it must be a dict")


def describe(probe: WorldProbe) -> None:
    """Privileged state as JSON values."""
    probe.play()
    description = probe.world.describe()
    if not isinstance(description, dict) or not description:
        raise Wrong(f"describe() gave {description!r:.80}; it must be a dict of privileged state for labels")
    try:
        plain(description)
    except (TypeError, ValueError) as error:
        raise Wrong(f"describe() is not plain JSON values: {error}; convert arrays with tolist()") from error


def metrics(probe: WorldProbe) -> str:
    """Finite, with the same names at every step, and of one mind with the info."""
    trace = probe.begin()
    lengths: list[float] = []
    names: set[str] = set()
    for action in [None, *actions_for(probe.spec, probe.seed, probe.steps)]:
        if action is not None and not trace.ended:
            advance(probe.world, trace, action)
        metrics = probe.world.metrics()
        missing = {"success", "path_length"} - set(metrics)
        if missing:
            raise Wrong(f"metrics() lacks {sorted(missing)}; it has {sorted(metrics)}")
        bad = {name: value for name, value in metrics.items() if not np.isfinite(value)}
        if bad:
            raise Wrong(f"metrics() is not finite after {len(trace.ends)} steps: {bad}; one of them spoils every mean")
        if metrics["success"] not in (0.0, 1.0):
            raise Wrong(f"metric success is {metrics['success']}; it must be 0 or 1")
        if names and set(metrics) != names:
            raise Wrong(f"metrics() changes its names from {sorted(names)} to {sorted(metrics)}")
        names = set(metrics)
        lengths.append(metrics["path_length"])
        info = trace.infos[-1]
        if not isinstance(info.get("success"), (bool, np.bool_)):
            raise Wrong(f"info['success'] is {info.get('success')!r} after {len(trace.ends)} steps; it must be a bool")
        if trace.ended and bool(info["success"]) != bool(metrics["success"]):
            raise Wrong(
                f"at the end info['success'] is {info['success']}, the metric {metrics['success']}; make them one"
            )
    if lengths[0] != 0 or any(b < a - 1e-9 for a, b in pairwise(lengths)):
        raise Wrong(f"path_length does not grow from 0: {lengths[:6]}; reset it in reset and add each move")
    return ", ".join(sorted(names))


def draw(probe: WorldProbe) -> str:
    """A valid picture with something on it."""
    probe.play()
    try:
        picture = check_image(probe.world.draw(), "draw()")
    except DataError as error:
        raise Wrong(f"{error}; draw() must return a map or the trajectory") from error
    if int(picture.min()) == int(picture.max()):
        raise Wrong("draw() shows one colour; draw the place and the way that was taken")
    return f"{picture.shape[1]} x {picture.shape[0]}"
