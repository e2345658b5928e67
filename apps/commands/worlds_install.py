"""``fovea worlds install``."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from apps.output import Output

SHOWN = 100  # characters of a line of pip's that are shown


@dataclass(frozen=True, kw_only=True)
class Command:
    """Build the environment of a simulator that cannot share Fovea's: habitat, metadrive or libero.

    It goes below $FOVEA_WORLDS (default ~/.cache/fovea/worlds), pinned file by file, and is tried before it counts as
    installed; what was interrupted is built anew. Where the simulator is installed already, for example by conda, name
    that interpreter with --python: nothing is built then.
    """

    name: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="NAME")]]  # habitat, metadrive or libero
    python: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None  # an interpreter that has the simulator
    base: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None  # the interpreter to build with
    force: bool = False  # build anew, or replace what is recorded
    verbose: bool = False  # print every line of the build
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Build, try and mark."""
        from apps.environments import find_recipe
        from apps.environments.install import install
        from backbone.worlds.environments import environment_path

        recipe, begun = find_recipe(self.name), time.monotonic()
        if self.python is None:
            output.console.print(f"{self.name}: {escape(str(environment_path(self.name)))} ({recipe.size})")
        with output.console.status("starting") as status:

            def log(line: str) -> None:
                if self.verbose:
                    output.console.print(escape(line))
                status.update(escape(line[:SHOWN]))

            done = install(self.name, log, python=self.python, base=self.base, force=self.force)
        seconds = time.monotonic() - begun
        what = f"installed in {seconds:.0f} s" if done.built else "ready"
        if not output.as_json:
            output.console.print(f"{self.name} is {what}: {escape(str(done.python))}\n{escape(done.trial)}")
        output.json({"world": self.name, "seconds": seconds, **asdict(done), "python": str(done.python)})
        return 0
