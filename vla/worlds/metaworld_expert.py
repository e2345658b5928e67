"""Meta-World's scripted policies as an agent: it sees the state and the instruction, and nothing of the simulator.

So it may stand behind a policy server, and must then do exactly what the world's own expert does.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, FloatArray, Observation
from backbone.errors import DataError, WorldError
from backbone.rollout.agents import CLOSED
from vla.worlds.metaworld_tasks import ACTION_SPEC, STATE_NAMES, check_task, task_of

REMEDY = "Meta-World is not installed: pip install -e '.[worlds]'"


@functools.cache
def _policy(task: str) -> Any:
    try:
        from metaworld.policies import ENV_POLICY_MAP
    except ImportError as error:
        raise WorldError(f"{REMEDY} ({error})") from error
    kind: Any = ENV_POLICY_MAP[check_task(task)]
    return kind()  # keeps nothing between calls, so one serves every session


def scripted_action(task: str, state: FloatArray) -> FloatArray:
    """The scripted policy's action (4,), clipped to [-1, 1], for a state (39,) float32 as the world reports it."""
    if state.shape != (len(STATE_NAMES),):
        raise DataError(f"Meta-World's experts read the world's state of {len(STATE_NAMES)} values, got {state.shape}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Constant.s. may be too high")  # that is what the clipping is for
        action = _policy(task).get_action(state.astype(np.float64))
    return np.clip(np.asarray(action, np.float32), -1.0, 1.0)


class MetaWorldPolicySession:
    """One episode. Scripted policies have no memory; the session only holds its task."""

    def __init__(self, instruction: str) -> None:
        """`InstructionError` unless the instruction is a sentence of the world."""
        self._task: str | None = task_of(instruction)

    def act(self, observation: Observation) -> Decision:
        """One action for one observation; `DataError` if it lacks the state."""
        if self._task is None:
            raise WorldError(CLOSED)
        if observation.state is None:
            raise DataError("Meta-World's experts act on Observation.state, and this observation has none")
        return Decision(ActionChunk(scripted_action(self._task, observation.state)[None], ACTION_SPEC))

    def close(self) -> None:
        """End the episode."""
        self._task = None


class MetaWorldPolicyAgent:
    """The 50 scripted policies; the instruction, which must be one of the world's own sentences, chooses the policy."""

    spec: ActionSpec = ACTION_SPEC

    def session(self, instruction: str, seed: int) -> MetaWorldPolicySession:
        """Begin an episode; the policies draw no random numbers, so ``seed`` changes nothing."""
        del seed
        return MetaWorldPolicySession(instruction)
