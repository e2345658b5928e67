"""``fovea check policy NAME --world WORLD``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from apps.commands.check_world import conclude, show
from apps.commands.choices import WORLD_HELP, chosen_agent, chosen_world, option, with_configs
from apps.output import Output

DEFAULT_WORLD = "rooms"
AGENT_HELP = "expert, random, still, metaworld-expert, ws://HOST:PORT, package.module:Class"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Check an agent against its contract in a world: its actions, its dice, its memory, its sessions.

    Options of the world and of the agent are shown by `fovea check policy AGENT --world WORLD --help`.
    """

    agent: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT", help=AGENT_HELP)]
    world: Annotated[str, tyro.conf.arg(help=WORLD_HELP)] = DEFAULT_WORLD
    seed: int = 0  # of the episodes that are played
    steps: int = 8  # played in most checks
    json: bool = False  # print the findings as JSON only

    def run(self, output: Output) -> int:
        """Run the checks; exit code 1 if one failed."""
        from backbone.checks.policy import check_policy

        agent, world = chosen_agent(self, self.agent), chosen_world(self, self.world)
        report = check_policy(
            agent, world, seed=self.seed, steps=self.steps, on_finding=lambda f: show(output.console, f)
        )
        return conclude(output, report)


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world and the agent that ``arguments`` name."""
    agent = arguments[0] if arguments and not arguments[0].startswith("-") else None
    return with_configs(Command, option(arguments, "--world", DEFAULT_WORLD) if agent else None, agent)
