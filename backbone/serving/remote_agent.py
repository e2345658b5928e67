"""A policy behind a server as an `Agent`: sessions, observations and decisions look the same here and over there."""

from __future__ import annotations

from typing import Any

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, Ledger, Observation, Stage
from backbone.errors import DataError
from backbone.serving.client import PolicyClient
from backbone.serving.errors import AnswerError
from backbone.serving.spec import spec_from_plain


class RemoteAgent:
    """Every session is a connection of its own. The action spec is the server's; a server without one needs ``spec``.

    Raises `ServerError`s as `PolicyClient` does, and `AnswerError` where the metadata holds no action spec.
    """

    def __init__(
        self, uri: str, *, token: str | None = None, timeout_s: float = 30.0, spec: ActionSpec | None = None
    ) -> None:
        """Connect once to learn the action spec."""
        self.uri, self._token, self._timeout_s = uri, token, timeout_s
        with self._client() as client:
            metadata = client.get_server_metadata()
        if spec is None and "action" not in metadata:
            raise AnswerError(
                f"{uri} does not say what its actions mean (no `action` in its metadata: {sorted(map(str, metadata))}"
                "); give the spec by hand"
            )
        self.spec = spec if spec is not None else spec_from_plain(metadata["action"], f"metadata of {uri}")

    def session(self, instruction: str, seed: int) -> RemoteSession:
        """Connect; the episode begins with the first observation."""
        return RemoteSession(self._client(), self.spec, instruction, seed)

    def _client(self) -> PolicyClient:
        return PolicyClient(self.uri, token=self._token, timeout_s=self._timeout_s)


class RemoteSession:
    """One episode on one connection."""

    def __init__(self, client: PolicyClient, spec: ActionSpec, instruction: str, seed: int) -> None:
        """Own ``client`` from now on."""
        self._client, self._spec, self._instruction, self._seed = client, spec, instruction, seed
        self._started = False

    def act(self, observation: Observation) -> Decision:
        """Ask the server; raises `ServerError`s, `AnswerError` if the answer is no chunk of the spec."""
        frame = observation_to_wire(observation)
        frame.update(prompt=self._instruction or observation.instruction, seed=self._seed, reset=not self._started)
        answer = self._client.infer(frame)
        self._started = True
        try:
            actions = ActionChunk(np.asarray(answer.get("actions"), np.float32), self._spec)
        except (DataError, ValueError, TypeError) as error:
            self.close()
            raise AnswerError(f"{self._client.uri}: {error}") from error
        return Decision(actions, _ledger(answer), str(answer.get("thought", "")), str(answer.get("status", "ok")))

    def close(self) -> None:
        """End the connection and with it the episode."""
        self._client.close()


def observation_to_wire(observation: Observation) -> dict[str, Any]:
    """The observation under the generic keys ``images/NAME``, ``depths/NAME``, ``state``, ``prompt``, ``time_s``."""
    frame: dict[str, Any] = {f"images/{name}": image for name, image in observation.images.items()}
    frame.update({f"depths/{name}": depth for name, depth in observation.depths.items()})
    if observation.state is not None:
        frame["state"] = observation.state
    return {**frame, "prompt": observation.instruction, "time_s": float(observation.time_s)}


def _ledger(answer: dict[str, Any]) -> Ledger:
    timing = answer.get("server_timing")
    spent = timing.get("infer_ms", 0.0) if isinstance(timing, dict) else 0.0
    reasoned = bool(answer.get("reasoned", False))
    return Ledger((Stage("remote", milliseconds=max(0.0, float(spent)), reasoned=reasoned),))
