"""``fovea eval thoughts``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import Progress
from rich.table import Table

from apps.commands.common import ModelOptions, check_folder
from apps.output import Output
from backbone.errors import ConfigError

LABELS = {
    "object_recall": "object in sight: found",
    "object_precision": "said to be in sight: is",
    "side": "on the right side",
    "room": "room named rightly",
    "plan_given": "plan can be read",
    "turns_within_one": "turns of the plan within one",
    "steps_within_three": "steps of the plan within three",
    "stop": "at the object: stops",
    "false_stop": "elsewhere: stops all the same",
}


@dataclass(frozen=True, kw_only=True)
class Command(ModelOptions):
    """Measure what a navigating model's thoughts get right, against what the simulator knew of the same looks around.

    The episodes are records of `fovea data navigation stage2` that the model was not trained on (another --seed).
    """

    data: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR ...")]
    adapter: str = "auto"  # a directory that training wrote, or the name of a shipped one
    preset: str = ""  # nano or qwen; empty: by the model
    n: int = 300  # looks around
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # keeps every thought; default: none
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Let it think, compare, print."""
        self.check()
        missing = [str(folder) for folder in self.data if not folder.is_dir()]
        if missing:
            raise ConfigError(f"--data: no such directory: {', '.join(missing)}; see fovea data navigation stage2")
        if self.output is not None:
            check_folder(self.output)
        from navigation.agent_config import check_acts, load, preset_for
        from navigation.config import NavigationConfig
        from navigation.thought_check import check_thoughts, summary

        config = NavigationConfig.preset(self.preset or preset_for(self.model))
        check_acts(self.model, self.adapter)
        vlm, adapter = load(self.model, config, self.adapter, self.device)
        with Progress(console=output.console, transient=True) as bar:
            task = bar.add_task("thoughts", total=self.n)
            found = check_thoughts(
                vlm, adapter, self.data, config, self.n, self.seed, lambda done: bar.update(task, completed=done)
            )
        report = {**summary(found), "model": self.model, "adapter": self.adapter, "data": [str(d) for d in self.data]}
        if self.output is not None:
            self.output.mkdir(parents=True, exist_ok=True)
            partial = self.output / ".thoughts.jsonl.part"
            partial.write_text("".join(json.dumps(asdict(c)) + "\n" for c in found), encoding="utf-8")
            os.replace(partial, self.output / "thoughts.jsonl")
            (self.output / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        if not output.as_json:
            table = Table("thoughts", "share", "95 % interval", "n", title=f"{len(found)} looks around")
            for key, share in report["shares"].items():
                if share is not None:
                    shown = f"{share['low']:.3f} to {share['high']:.3f}"
                    table.add_row(LABELS[key], f"{share['estimate']:.3f}", shown, str(share["n"]))
            output.console.print(table)
        output.json(report)
        return 0
