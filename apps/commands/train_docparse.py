"""``fovea train docparse``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError
from docparse.config import DocparseConfig, Fields, presets, with_fields
from docparse.train import ReaderTraining, train_reader

Preset = Literal[
    "flow", "one-step", "kl", "balanced", "far", "entropy", "transport", "looks", "looks-one-step", "looks-kl"
]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Train the reader of documents on records, or go on with the run in --output; it is left in OUTPUT/model.

    Records come from `fovea data records`. Ctrl-C stops after the current step with a checkpoint; the same command goes
    on from there. Rivals are trained alike: another --preset, or --method detector.
    """

    config: Annotated[ReaderTraining, tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands]  # patches come by --fields
    preset: Preset = "flow"  # of the flow; or give --reader.*; looks: for questions that need two looks
    fields: Fields = "words"  # what the network knows of a page: its words, what patches of it look like, or both
    backbone: str = "nano"  # with patches: whose; `fovea data records --patches` has made the fields
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Train; exit code 130 if it was stopped before the end."""
        config = self._resolved()
        result = train_reader(config)
        model = config.output / "model"
        if not output.as_json:
            for name, value in result.metrics.items():
                output.console.print(f"{name:<12} {value:.4f}")
            state = f"stopped ({result.stopped}), start again to go on" if result.stopped else "done"
            output.console.print(f"{state}: {result.steps} steps in {result.seconds / 60:.1f} minutes")
            output.console.print(f"try it: fovea read DOCUMENT QUESTION --weights {escape(str(model))}", markup=False)
        output.json({"result": _plain(asdict(result)), "model": str(model), "config": _plain(asdict(config))})
        return 130 if result.stopped else 0

    def _resolved(self) -> ReaderTraining:
        """The settings with the preset; raises `ConfigError` for what cannot be, before anything is read."""
        if self.preset != "flow" and self.config.reader != DocparseConfig():
            raise ConfigError(f"--preset {self.preset} and --reader.* exclude each other; give one of them")
        if not self.config.records.is_dir():
            raise ConfigError(f"--records {self.config.records}: no such folder; make records with: fovea data records")
        check_folder(self.config.output)
        reader = self.config.reader if self.preset == "flow" else presets()[self.preset]
        if self.fields != "words":
            if self.config.method != "flow":
                raise ConfigError(f"--fields {self.fields} belongs to --method flow, got {self.config.method}")
            from docparse.patch_data import find_patches

            reader = with_fields(reader, self.fields, find_patches(self.config.records, self.backbone))
        return replace(self.config, reader=reader)


def _plain(value: Any) -> Any:
    """Paths as text, everything else as it is."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
