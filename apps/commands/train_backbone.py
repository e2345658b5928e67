"""``fovea train backbone``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import tyro
from rich.markup import escape

import perception.curriculum  # noqa: F401 - importing registers its sources
from apps.commands.common import check_folder
from apps.output import Output
from backbone.nano.train import NanoTrainingConfig, train_nano


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train nano from nothing, or go on with the run in --output; the model is left in OUTPUT/model.

    Ctrl-C stops after the current step with a checkpoint; the same command goes on from there.
    """

    config: Annotated[NanoTrainingConfig, tyro.conf.arg(name="")] = field(default_factory=NanoTrainingConfig)
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Train; exit code 130 if it was stopped before the end."""
        check_folder(self.config.output)
        result = train_nano(self.config)
        model = self.config.output / "model"
        if not output.as_json:
            for name, value in result.metrics.items():
                output.console.print(f"{name:<28} {value:.4f}")
            state = f"stopped ({result.stopped}), start again to go on" if result.stopped else "done"
            output.console.print(f"{state}: {result.steps} steps of all stages in {result.seconds / 60:.1f} minutes")
            output.console.print(f"try it: fovea ask PICTURE QUESTION --model {escape(str(model))}")
        output.json({"result": _plain(asdict(result)), "model": str(model), "config": _plain(asdict(self.config))})
        return 130 if result.stopped else 0


def _plain(value: Any) -> Any:
    """Paths as text, everything else as it is."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
