"""What an agent did at every step, as JSON lines, one file an episode: action, mode, why, chance of ``obs``, costs.

Calibration chooses its thresholds from these, and whoever asks why a robot looked around finds the answer there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backbone.contracts import Agent, Decision, Observation, Session
from backbone.errors import DataError
from backbone.rollout.agents import BatchedAgent
from navigation.decisions import NavigationDecision


def record_of(decision: Decision, step: int) -> dict[str, Any]:
    """Plain JSON values of one step; a decision of another agent has only its status and costs."""
    total = decision.ledger.total()
    row: dict[str, Any] = {"step": step, "status": decision.status}
    if isinstance(decision, NavigationDecision):
        row |= {name: getattr(decision, name) for name in ("action", "mode", "why", "landmarks", "context")}
        row |= {"obs_probability": decision.obs_probability, "notes": list(decision.notes)}
    row |= {"thought": decision.thought} if decision.thought else {}
    costs = ("prompt_tokens", "visual_tokens", "generated_tokens", "forward_passes", "milliseconds")
    return row | {name: getattr(total, name) for name in costs}


class TracedAgent:
    """An agent whose every session leaves ``FOLDER/episode-SEED.jsonl`` when it is closed."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        """``folder`` is made if need be."""
        self.spec = agent.spec
        self._agent, self._folder = agent, folder
        folder.mkdir(parents=True, exist_ok=True)

    def session(self, instruction: str, seed: int) -> TracedSession:
        """Start an episode."""
        return TracedSession(self._agent.session(instruction, seed), trace_path(self._folder, seed), instruction)

    def act_many(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        """Decide for several sessions, in one inference if the agent can do that, and note it."""
        traced = [session for session in sessions if isinstance(session, TracedSession)]
        if len(traced) != len(sessions):
            raise DataError(f"act_many: {len(sessions) - len(traced)} sessions are not of this agent")
        if not isinstance(self._agent, BatchedAgent):
            return [session.act(observation) for session, observation in zip(traced, observations, strict=True)]
        decisions = self._agent.act_many([session.inner for session in traced], observations)
        for session, decision in zip(traced, decisions, strict=True):
            session.note(decision)
        return decisions


class TracedSession:
    """A session that remembers what it decided."""

    def __init__(self, session: Session, path: Path, instruction: str) -> None:
        """Nothing decided yet."""
        self.inner = session
        self._path, self._instruction = path, instruction
        self._rows: list[dict[str, Any]] = []

    def act(self, observation: Observation) -> Decision:
        """Decide, and note it."""
        decision = self.inner.act(observation)
        self.note(decision)
        return decision

    def note(self, decision: Decision) -> None:
        """Remember a decision."""
        self._rows.append(record_of(decision, len(self._rows)))

    def close(self) -> None:
        """Write the file, in one step, and release the session; a second call does nothing."""
        self.inner.close()
        if not self._rows:
            return
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in self._rows]
        temporary = self._path.with_suffix(f".{os.getpid()}.part")
        temporary.write_text("\n".join(lines) + "\n", "utf-8")
        temporary.replace(self._path)
        self._rows = []


def trace_path(folder: Path, seed: int) -> Path:
    """Where the trace of the episode with this seed stands."""
    return folder / f"episode-{seed}.jsonl"


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The rows of one episode; `DataError` for a file that is none."""
    try:
        return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no trace of an episode: {error}") from error


@dataclass(frozen=True)
class Probabilities:
    """The probabilities of ``obs`` that one episode's fast turns gave, in order."""

    seed: int
    values: tuple[float, ...]


def probabilities(folder: Path) -> Iterator[Probabilities]:
    """Those of every trace in ``folder``, by seed."""
    found = {int(path.stem.removeprefix("episode-")): path for path in folder.glob("episode-*.jsonl")}
    for seed, path in sorted(found.items()):
        values = [row.get("obs_probability") for row in read_trace(path)]
        yield Probabilities(seed, tuple(float(v) for v in values if v is not None))
