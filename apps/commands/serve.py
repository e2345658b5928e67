"""``fovea serve WORLD|SPEC.json``."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.markup import escape

from apps.commands.choices import WORLD_HELP, chosen_agent, chosen_world, named_world, option, with_configs
from apps.commands.common import check_file, token_from
from apps.output import Output
from apps.server.config import ServerConfig
from backbone.errors import ConfigError, DataError, FoveaError, ServerError

if TYPE_CHECKING:
    from apps.server.robot import Robot
    from apps.server.server import PolicyServer
    from backbone.contracts import ActionSpec, Agent
    from backbone.rollout.agents import AgentConfig

TARGET_HELP = f"{WORLD_HELP}; or a JSON file of a robot's actions and observations"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Serve an agent to robots and evaluators: openpi's protocol on /, vla-eval's on /vla-eval, until Ctrl-C.

    WORLD is opened once to learn its actions and observations. A robot that no world stands for is described by a JSON
    file; --save-spec writes one to begin with. GET /healthz and /metrics tell how the server is. It listens on this
    machine alone unless --host says otherwise; then set a token. Actions leave un-normalised, inside their limits.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|SPEC.json", help=TARGET_HELP)]
    agent: str | None = None  # random, still, wander, metaworld-expert, package.module:Class; nothing is served without
    host: str = "127.0.0.1"  # 0.0.0.0 lets the whole network in
    port: int = 8000  # 0: any free one
    token_env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None  # environment variable with the token
    deadline: float = 30.0  # seconds for one answer; a policy that takes longer is given up
    warmup: float = 120.0  # seconds for the policy's first answer, before anybody is served
    out_of_range: Literal["clip", "refuse"] = "clip"  # what becomes of actions outside their limits
    max_change: tuple[float, ...] = ()  # largest step of every action value between two actions
    execute: int = 1  # actions of a chunk that vla-eval clients get before the policy is asked again
    seed: int = 0  # of episodes whose client gives none
    max_connections: int = 64
    workers: int = 1  # threads of inference; more only for agents that may be asked at the same time
    batch: int = 1  # requests answered by one inference, for agents that can
    ping: float = 20.0  # seconds between pings that find out vanished clients; 0: none
    prompt: str | None = None  # for clients that send none
    alias: tuple[str, ...] = ()  # further names of arrays, as KEY=images/NAME
    save_spec: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # write the robot's JSON and stop
    json: bool = False  # print the address as JSON only

    def run(self, output: Output) -> int:
        """Open the world or the file, make the agent, serve."""
        config = self.server_config()
        check_file(self.save_spec, "--save-spec")
        if self.save_spec is None:
            from apps.server.server import check_address

            check_address(config)
        robot = self.robot()
        if self.save_spec is not None:
            return _save(robot, self.save_spec, output)
        assert self.agent is not None  # noqa: S101 - for the type checker: `server_config` asked
        from apps.server.server import PolicyServer
        from backbone.rollout.agents import check_specs

        agent_config = chosen_agent(self, self.agent)
        agent = _made(agent_config, robot.spec)
        check_specs(agent.spec, robot.spec)
        about = {"agent": agent_config.agent, "world": robot.world}
        server = PolicyServer(agent, robot.layout, config, about=about, example=robot.example)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("fovea.server.websockets").setLevel(logging.WARNING)
        asyncio.run(self._serve(server, output))
        return 0

    async def _serve(self, server: PolicyServer, output: Output) -> None:
        def listening() -> None:
            output.console.print(
                f"{escape(str(self.agent))} for {escape(self.world)} at {server.url} (openpi) and "
                f"{server.url}/vla-eval; health at http://{server.url.removeprefix('ws://')}/healthz. Ctrl-C ends it"
            )
            if not is_loopback(self.host) and self.token_env is None:
                output.console.print("[yellow]anybody on the network may use it: set a token with --token-env[/yellow]")
            output.json({"url": server.url, "agent": self.agent, "world": self.world})

        await server.run(listening)

    def robot(self) -> Robot:
        """What is to be driven; raises `WorldError`, `DataError` or `ConfigError`."""
        from apps.server.robot import robot_from_file, robot_of_world

        path = Path(self.world)
        robot = robot_from_file(path) if is_file(self.world) else robot_of_world(chosen_world(self, self.world))
        names = dict(alias.partition("=")[::2] for alias in self.alias)
        if not all(names) or not all(names.values()):
            raise ConfigError(f"--alias takes KEY=images/NAME, got {self.alias}")
        return robot.with_names(names, self.prompt)

    def server_config(self) -> ServerConfig:
        """The settings; raises `ConfigError` for impossible ones, such as a token variable that is not set."""
        if self.agent is None and self.save_spec is None:  # no default: what moves a robot is somebody's choice
            raise ConfigError("--agent is missing: what shall be served? `--agent random` to try a connection")
        return ServerConfig(
            host=self.host,
            port=self.port,
            token=token_from(self.token_env),
            deadline_s=self.deadline,
            warmup_s=self.warmup,
            out_of_range=self.out_of_range,
            max_change=self.max_change or None,
            execute=self.execute,
            seed=self.seed,
            max_connections=self.max_connections,
            workers=self.workers,
            max_batch=self.batch,
            ping_interval_s=self.ping or None,
        )


def _made(config: AgentConfig, spec: ActionSpec) -> Agent:
    try:
        return config.make(spec)
    except (FoveaError, ImportError):
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of a class of the user's own, SystemExit too; this program has no defect then
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise ServerError(
            f"the agent {config.agent} cannot be made: {type(error).__name__}: {error} ({at.filename}:{at.lineno})"
        ) from error


def _save(robot: Robot, path: Path, output: Output) -> int:
    try:
        path.write_text(json.dumps(robot.to_plain(), indent=2) + "\n", "utf-8")
    except OSError as error:
        raise DataError(f"--save-spec {path}: cannot be written ({error.strerror}); choose another file") from error
    output.console.print(f"written: {escape(str(path))}")
    output.json({"written": str(path)})
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def is_file(name: str) -> bool:
    """Whether the target is a robot's file rather than a world."""
    return name.endswith(".json")


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world and the agent that ``arguments`` name."""
    files = [word for word in arguments if is_file(word) and not word.startswith("-")]
    world = None if arguments and arguments[0] in files else named_world(arguments)
    return with_configs(Command, world, option(arguments, "--agent", "") or None)
