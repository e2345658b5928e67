"""Real clients drive worlds through a real policy server, and must reach exactly the results of in-process rollouts.

Run from the project's folder; the first run makes the clients' environments (about 300 MB)::

    python -m tests.clients.check --environments /tmp/fovea-clients --worlds metaworld rooms --episodes 5

Exit code 1 if any episode differs in seed, instruction, steps, success, reward or any metric, by a single bit.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apps.agents import agent_config
from apps.server.background import serving
from apps.server.config import ServerConfig
from apps.server.robot import robot_of_world
from apps.server.server import PolicyServer
from apps.worlds import world_config_class
from backbone.contracts import Agent, Observation
from backbone.rollout.config import RolloutConfig
from backbone.rollout.episode import run_episode
from backbone.worlds.world import World, WorldConfig
from tests.clients.driver import pack, read
from tests.clients.environment import PINS, client_python

AGENTS = {"metaworld": "metaworld-expert", "rooms": "wander"}
SETTINGS: dict[str, dict[str, Any]] = {
    "metaworld": {"task": "drawer-open-v3,door-open-v3,reach-v3,button-press-topdown-v3,push-v3"},
    "rooms": {"max_steps": 150, "depth": True},  # the wanderer never stops; with depth it turns before it collides
}
logger = logging.getLogger(__name__)
Row = dict[str, Any]


def main() -> int:
    """Run every world with every client, compare, say what came out."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("fovea.server.websockets").setLevel(logging.WARNING)
    report: list[Row] = []
    for world in options.worlds:
        report += check_world(world, options.clients, options.episodes, options.environments)
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    equal = sum(row["equal"] for row in report)
    logger.info("%d of %d episodes equal to in-process ones", equal, len(report))
    return 0 if report and equal == len(report) else 1


def check_world(name: str, clients: Sequence[str], episodes: int, environments: Path) -> list[Row]:
    """A row for every client and episode, with what differed."""
    kind: Any = world_config_class(name)
    config: WorldConfig = kind(**SETTINGS[name])
    run = RolloutConfig(world=config, agent=agent_config(AGENTS[name]), episodes=episodes)
    robot = robot_of_world(config)
    world, agent = config.make(), run.agent.make(robot.spec)
    try:
        wanted = [in_process(world, agent, run, index) for index in range(episodes)]
        about = {"agent": run.agent.agent, "world": name}
        server = PolicyServer(agent, robot.layout, ServerConfig(port=0), about=about, example=robot.example)
        with serving(server):
            found = {client: driven(client, server.url, world, run, environments) for client in clients}
    finally:
        world.close()
    return [
        _compared(name, client, want, got)
        for client, rows in found.items()
        for want, got in zip(wanted, rows, strict=True)
    ]


def in_process(world: World, agent: Agent, run: RolloutConfig, index: int) -> Row:
    """The row of an episode without any server."""
    row = run_episode(world, agent, run.episode(index))
    return {
        "seed": row.seed,
        "instruction": row.instruction,
        "steps": row.steps,
        "success": row.success,
        "total_reward": row.total_reward,
        "metrics": dict(row.metrics),
    }


def driven(client: str, url: str, world: World, run: RolloutConfig, environments: Path) -> list[Row]:
    """The rows of episodes that a real client drove; raises `RuntimeError` with the client's words if it failed."""
    python = client_python(environments, client)
    command = [str(python), str(Path(__file__).with_name("driver.py")), client, url, str(run.episodes)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - our own driver
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        host = _Host(world, run)
        try:
            while host.answer(process):
                pass
            process.wait(30)
        except EOFError as error:
            process.wait(30)
            errors.seek(0)
            raise RuntimeError(f"{PINS[client]} failed:\n{errors.read().decode()[-3000:]}") from error
        finally:
            process.kill()
            process.wait()
    logger.info("%s drove %s: %d episodes in %.1f s", PINS[client], world.name, len(host.rows), host.seconds)
    return host.rows


class _Host:
    """Answers the driver's requests with a world, and keeps the results."""

    def __init__(self, world: World, run: RolloutConfig) -> None:
        self._world, self._run = world, run
        self.rows: list[Row] = []
        self._began = time.perf_counter()
        self._row: Row = {}

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def answer(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.stdin is not None
        assert process.stdout is not None
        request = read(process.stdout)
        if request["op"] == "end":
            reply: Row = {}
        else:
            reply = self._reset(request["index"]) if request["op"] == "reset" else self._step(request["action"])
        process.stdin.write(pack(reply))
        process.stdin.flush()
        return bool(reply)

    def _reset(self, index: int) -> Row:
        episode = self._run.episode(index)
        observation, _ = self._world.reset(seed=episode.seed, options=dict(episode.options))
        self._row = {"seed": episode.seed, "instruction": observation.instruction, "steps": 0, "total_reward": 0.0}
        return self._message(observation, 0.0, False)

    def _step(self, action: Any) -> Row:
        observation, reward, terminated, truncated, _ = self._world.step(action)
        self._row["steps"] += 1
        self._row["total_reward"] += float(reward)
        if terminated or truncated:
            metrics = {name: float(value) for name, value in self._world.metrics().items()}
            self.rows.append({**self._row, "metrics": metrics, "success": bool(metrics["success"])})
        return self._message(observation, float(reward), terminated or truncated)

    def _message(self, observation: Observation, reward: float, done: bool) -> Row:
        return {
            "images": dict(observation.images),
            "depths": dict(observation.depths),
            "state": observation.state,
            "prompt": observation.instruction,
            "seed": self._row["seed"],
            "reward": reward,
            "done": bool(done),
        }


def _compared(world: str, client: str, want: Row, got: Row) -> Row:
    differences = {key: [want[key], got.get(key)] for key in want if want[key] != got.get(key)}
    for key, (here, there) in differences.items():
        logger.error(
            "%s, %s, seed %s: %s is %s in process and %s served", world, client, want["seed"], key, here, there
        )
    return {"world": world, "client": PINS[client], "equal": not differences, "differences": differences, **got}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, required=True, help="where the clients' environments are or go")
    parser.add_argument("--worlds", nargs="+", choices=sorted(AGENTS), default=sorted(AGENTS))
    parser.add_argument("--clients", nargs="+", choices=sorted(PINS), default=sorted(PINS))
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write all rows as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
