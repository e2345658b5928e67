"""A world small enough for tests: a dot that walks to a goal on a square, and policies that play it.

It is a module of its own so that worker processes can import it. Faults are asked for by ``faults``, for example
``("3:raise-step", "5:hang")``: episode 3 raises in a step, episode 5 never returns.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, FloatArray, Image, Ledger, Observation, Session, Stage
from backbone.errors import WorldError
from backbone.rollout.agents import CLOSED
from backbone.worlds.world import Info, Step, World, check_action

SIZE = 10.0
REACH = 0.6
CONTINUOUS = ActionSpec(("right", "up"), ("m/step", "m/step"), (-1.0, -1.0), (1.0, 1.0), 10.0)
DISCRETE = ActionSpec.discrete(("stop", "right", "left", "up", "down"), 5.0)
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
FAULT_STEP = 2


@dataclass(frozen=True)
class ToyConfig:
    """The toy world."""

    pixels: int = 24  # side of its camera
    max_steps: int = 40
    discrete: bool = False
    delay_s: float = 0.0  # of every step
    faults: tuple[str, ...] = ()  # "EPISODE:FAULT"
    marker: str = ""  # a file that lets "die-once" happen only once
    broken: bool = False  # whether it cannot be opened at all

    @property
    def world(self) -> str:
        return "toy"

    def options(self, index: int) -> dict[str, Any]:
        for fault in self.faults:
            number, kind = fault.split(":")
            if int(number) == index:
                return {"fault": kind}
        return {}

    def make(self) -> ToyWorld:
        if self.broken:
            raise WorldError("the toy is broken; buy another one")
        return ToyWorld(self)


class ToyWorld(World):
    """The dot's position and goal are drawn from the seed; nothing is random afterwards."""

    name = "toy"

    def __init__(self, config: ToyConfig) -> None:
        self.config = config
        self.action_spec = DISCRETE if config.discrete else CONTINUOUS
        self.max_steps = config.max_steps
        self._fault = ""
        self._running = False
        self._closed = False
        self._poisoned = False

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        if self._closed:
            raise WorldError("toy: reset after close")
        self._fault = str((options or {}).get("fault", ""))
        if self._poisoned:
            raise WorldError("toy: poisoned by an earlier episode")
        if self._fault == "raise-reset":
            raise WorldError("toy: no reset today")
        generator = np.random.default_rng(seed)
        self.place, self.goal = generator.uniform(0, SIZE, (2, 2)).astype(np.float32)
        self.steps, self.path, self._running = 0, 0.0, True
        self.trail = [self.place.copy()]
        return self._observation(), {"success": self._success()}

    def step(self, action: FloatArray) -> Step:
        if not self._running:
            raise WorldError("toy: step before reset or after the end; call reset first")
        action = check_action(action, self.action_spec, "toy")
        if self.steps == FAULT_STEP:
            self._go_wrong()
        if self.config.delay_s:
            time.sleep(self.config.delay_s)
        move = MOVES[int(action[0])] if self.config.discrete else action
        place = np.clip(self.place + move, 0, SIZE).astype(np.float32)
        self.path += float(np.linalg.norm(place - self.place))
        self.place = place
        self.trail.append(place.copy())
        self.steps += 1
        success = self._success()
        truncated = not success and self.steps >= self.max_steps
        self._running = not (success or truncated)
        return self._observation(), float(success) - 0.01, success, truncated, {"success": success}

    def describe(self) -> dict[str, Any]:
        return {"place": self.place.tolist(), "goal": self.goal.tolist(), "distance": self._distance()}

    def expert_action(self) -> FloatArray:
        gap = self.goal - self.place
        if self.config.discrete:
            axis = int(abs(gap[1]) > abs(gap[0]))
            return np.array([1 + 2 * axis + int(gap[axis] < 0)], np.float32)
        return (gap / max(1.0, float(np.abs(gap).max()))).astype(np.float32)

    def metrics(self) -> dict[str, float]:
        success = float(self._success())
        if self._fault == "nan-metric":
            return {"success": success, "path_length": float("nan")}
        return {"success": success, "path_length": self.path, "distance_to_goal": self._distance()}

    def draw(self) -> Image:
        image = np.full((48, 48, 3), 235, np.uint8)
        for point in self.trail:
            self._dot(image, point, (90, 90, 90), 0)
        self._dot(image, self.goal, (40, 160, 60), 2)
        self._dot(image, self.place, (30, 60, 200), 2)
        return image

    def close(self) -> None:
        self._closed, self._running = True, False

    def _observation(self) -> Observation:
        image = np.full((self.config.pixels, self.config.pixels, 3), 30, np.uint8)
        self._dot(image, self.goal, (60, 220, 90), 1)
        self._dot(image, self.place, (240, 240, 90), 1)
        state = np.concatenate([self.place, self.goal]).astype(np.float32)
        if self._fault == "nan-state" and self.steps > FAULT_STEP:
            state[0] = np.nan
        return Observation({"top": image}, "walk to the green dot", state, self.steps / self.action_spec.control_hz)

    def _dot(self, image: Image, point: FloatArray, colour: tuple[int, int, int], radius: int) -> None:
        side = image.shape[0]
        column, row = int(point[0] / SIZE * (side - 1)), int((1 - point[1] / SIZE) * (side - 1))
        image[max(0, row - radius) : row + radius + 1, max(0, column - radius) : column + radius + 1] = colour

    def _distance(self) -> float:
        return float(np.linalg.norm(self.goal - self.place))

    def _success(self) -> bool:
        return self._distance() < REACH

    def _go_wrong(self) -> None:
        if self._fault == "poison":  # as a simulator that crashed: nothing works any more
            self._poisoned = True
            raise WorldError("toy: poisoned")
        if self._fault == "raise-step":
            raise ValueError("toy: a wheel came off")
        if self._fault == "hang":
            time.sleep(3600)
        if self._fault == "hang-deaf":  # as native code does: no signal handler of Python is reached
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(3600)
        if self._fault == "die" or (self._fault == "die-once" and not Path(self.config.marker).exists()):
            if self.config.marker:
                Path(self.config.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class ToyPolicyConfig:
    """A policy with weights, memory, dice and chunks, as learned ones have. ``fault``: `ToyConfig`'s, hang-make."""

    chunk: int = 4  # actions in a chunk
    noise: float = 0.4
    fault_seed: int = -1  # the episode seed at which it goes wrong
    fault: str = ""
    batch_fault: bool = False  # whether it goes wrong in common inferences only

    @property
    def agent(self) -> str:
        return "toy-policy"

    def make(self, spec: ActionSpec) -> ToyPolicy:
        if self.fault == "hang-make":
            time.sleep(3600)
        return ToyPolicy(spec, self)


class ToyPolicy:
    """Walks towards the goal it sees in the state, with noise from its session's dice and a memory of its last move."""

    def __init__(self, spec: ActionSpec, config: ToyPolicyConfig) -> None:
        self.spec = spec
        self.config = config
        self.batches: list[int] = []

    def session(self, instruction: str, seed: int) -> ToySession:
        return ToySession(self, seed)

    def act_many(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        self.batches.append(len(sessions))
        if self.config.batch_fault:
            raise RuntimeError("toy: too many cooks")
        return [session.act(observation) for session, observation in zip(sessions, observations, strict=True)]


class ToySession:
    def __init__(self, policy: ToyPolicy, seed: int) -> None:
        self._policy = policy
        self._seed = seed
        self._generator = np.random.default_rng(seed)
        self._memory = np.zeros(2, np.float32)
        self._count = 0
        self._closed = False

    def act(self, observation: Observation) -> Decision:
        if self._closed:
            raise WorldError(CLOSED)
        config, spec = self._policy.config, self._policy.spec
        assert observation.state is not None
        place, goal = observation.state[:2], observation.state[2:]
        gap = goal - place
        move = gap / max(1.0, float(np.abs(gap).max())) + 0.2 * self._memory
        noise = self._generator.normal(0, config.noise, (config.chunk, 2))
        values = np.clip(move + noise, -1, 1).astype(np.float32)
        self._memory = values[0]
        self._count += 1
        if self._seed == config.fault_seed and self._count == 3:
            values = self._wrong(values)
        stage = Stage("acting", prompt_tokens=7, generated_tokens=2, forward_passes=1, reasoned=self._count % 5 == 1)
        return Decision(ActionChunk(values, spec), Ledger((stage,)), f"the goal is {gap.round(1).tolist()} away")

    def _wrong(self, values: FloatArray) -> FloatArray:
        fault = self._policy.config.fault
        if fault == "raise":
            raise RuntimeError("toy policy: out of ideas")
        if fault == "exit":
            raise SystemExit(0)
        if fault == "hang":
            time.sleep(3600)
        if fault == "nan":
            values[0, 0] = np.nan
        if fault == "wild":
            values[0, 0] = 9.0
        if fault == "shape":
            values = values[:, :1]
        return values

    def close(self) -> None:
        self._closed = True
