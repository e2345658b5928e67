"""The one form of every world: gymnasium's ``reset`` and ``step``, our contracts, privileged labels, an expert.

An episode is a pure function of ``(world config, seed, actions)``. Frames and units are stated by each world.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from backbone.contracts import ActionSpec, FloatArray, Image, Observation
from backbone.errors import WorldError

Info = dict[str, Any]  # JSON values and NumPy arrays only, so that it crosses to another interpreter
Step = tuple[Observation, float, bool, bool, Info]  # observation, reward, terminated, truncated, info


class World(ABC):
    """A place to act in. ``info["success"]`` (bool) is in every reset's and step's info.

    Call order is ``reset`` -> ``step``* -> ``reset`` ... -> ``close``; a step before a reset or after the end of an
    episode raises `WorldError`. A world holds one episode at a time; make several for several episodes.
    """

    name: str
    action_spec: ActionSpec
    max_steps: int

    @abstractmethod
    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin the episode of ``seed``; ``options`` choose what a seed would (a home, a task, a recorded log)."""

    @abstractmethod
    def step(self, action: FloatArray) -> Step:
        """Apply one action (A,) float32 in the units of ``action_spec``; a discrete one is the index of its choice.

        Raises `WorldError` for a wrong shape, a value that is not finite, or one outside the limits.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Privileged state for labels, as JSON values: poses, objects, goals, distances. Never shown to a policy."""

    @abstractmethod
    def expert_action(self) -> FloatArray:
        """The world's own expert's action (A,) for the present state."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Measures of the episode so far: finite numbers, ``success`` (0 or 1) and ``path_length`` among them."""

    @abstractmethod
    def draw(self) -> Image:
        """A map from above, or the trajectory, of the episode so far: uint8 (H, W, 3)."""

    def close(self) -> None:  # noqa: B027 - most worlds hold nothing that must be released
        """Release windows, contexts and processes; a second call does nothing."""


class WorldConfig(Protocol):
    """A frozen dataclass of plain values that makes a world, here or in another process."""

    @property
    def world(self) -> str:
        """The world's name, for example ``rooms``."""
        ...

    def options(self, index: int) -> dict[str, Any]:
        """What ``reset`` gets for episode ``index`` of this config (a task, a log, a file's episode); often empty."""
        ...

    def make(self) -> World:
        """Open the world; raises `WorldError` with the remedy where its simulator is missing."""
        ...


def check_action(action: FloatArray, spec: ActionSpec, where: str) -> FloatArray:
    """``action`` if it is finite, of shape (A,) and inside the limits of ``spec``; `WorldError` otherwise."""
    wanted = (len(spec.names),)
    values = np.asarray(action)
    if values.shape != wanted or values.dtype.kind not in "fiu":
        raise WorldError(
            f"{where}: expected an action of shape {wanted} for {spec.names}, got {values.dtype} {values.shape}"
        )
    values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise WorldError(f"{where}: the action has NaN or infinite values: {values.tolist()}")
    outside = [
        f"{name} = {value:g} not in [{low:g}, {high:g}]"
        for name, value, low, high in zip(spec.names, values.tolist(), spec.low, spec.high, strict=True)
        if not low - 1e-5 <= value <= high + 1e-5
    ]
    if outside:
        raise WorldError(f"{where}: the action leaves its limits: {'; '.join(outside)}; clip it or mend the policy")
    if spec.kind == "discrete" and not np.array_equal(values, np.round(values)):
        raise WorldError(f"{where}: a discrete action must be whole, got {values.tolist()}")
    return values
