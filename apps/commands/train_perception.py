"""``fovea train perception``."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape
from rich.progress import track

from apps.commands.common import ModelOptions, check_folder, preset_name
from apps.output import Output
from backbone.errors import ConfigError, TrainingError, UnsupportedError
from backbone.local import LocalVLM
from perception.benchmarks import ministar
from perception.config import PerceptionConfig
from perception.data import Mining, Record, mine, perception_record, read_records, reasoning_record, write_records
from perception.pipeline import Searcher
from perception.train import CircuitTraining, train_circuit


@dataclass(frozen=True, kw_only=True)
class Command(ModelOptions):
    """Train one circuit alone as a LoRA adapter, on regions that were seen to help; left in OUTPUT/adapter.

    Regions come from a teacher, or are the true boxes of generated mini-V* scenes of the train split. They are kept if
    the model answers rightly with close-ups of them and wrongly without. Mined records are kept in OUTPUT/records and
    used again; Ctrl-C leaves a checkpoint from which the same command goes on.
    """

    items: int = 2000  # scenes looked through for records
    regime: Literal[256, 512, "full"] = 256  # the lowest trains best
    teacher: str | None = None  # a model that proposes the regions (default: the scenes' own boxes)
    teacher_regime: Literal[256, 512, "full"] = "full"  # what the teacher sees
    training: CircuitTraining = field(default_factory=lambda: CircuitTraining(precision="fp32"))
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/looking")  # records, checkpoints, adapter
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Mine, train, save; exit code 130 if it was stopped before the end."""
        self.check()
        if self.items < 1:
            raise ConfigError(f"--items must be at least 1 scene, got {self.items}")
        if self.teacher is not None:
            self._teacher_options(self.teacher).check()
        check_folder(self.output)
        vlm = self.load()
        if not isinstance(vlm, LocalVLM):
            raise UnsupportedError(f"{self.model} is not local; training needs weights in this process")
        settings = replace(self.training, seed=self.seed)
        records = self._records(vlm, settings, output)
        result = train_circuit(vlm, records, self.output / "training", settings)
        adapter = self.output / "training" / "adapter"
        if not output.as_json:
            state = f"stopped ({result.stopped}), start again to go on" if result.stopped else "done"
            output.console.print(f"{state}: {len(records)} records, {result.steps} steps, {result.metrics}")
            output.console.print(
                f"use it: fovea ask PICTURE QUESTION --{settings.circuit}-adapter {escape(str(adapter))}", markup=False
            )
        plain = {**asdict(result), "checkpoint": str(result.checkpoint)}
        output.json({"result": plain, "records": len(records), "adapter": str(adapter), "settings": asdict(settings)})
        return 130 if result.stopped else 0

    def _records(self, vlm: LocalVLM, settings: CircuitTraining, output: Output) -> list[Record]:
        """The mined records, from the folder if they are complete there; a half-mined folder is mined again."""
        final, partial = self.output / "records", self.output / "records.part"
        while int(os.environ.get("RANK", "0")) > 0 and not final.is_dir():  # under torchrun process 0 mines for all
            time.sleep(1.0)
        if not final.is_dir():
            if partial.exists():
                shutil.rmtree(partial)
            mining = Mining()
            count = write_records(self._mined(vlm, settings, output, mining), partial)
            said = ", ".join(f"{number} {why}" for why, number in sorted(mining.counts.items()))
            if not count:
                raise TrainingError(
                    f"no record came out of {self.items} scenes ({said}); look through more, or train the model"
                )
            partial.rename(final)
            output.console.print(f"{count} records from {self.items} scenes: {said}", markup=False)
        return read_records(final)

    def _mined(self, vlm: LocalVLM, settings: CircuitTraining, output: Output, mining: Mining) -> Iterator[Record]:
        config = replace(PerceptionConfig.preset(preset_name(self.model)), regime=self.regime)
        make = perception_record if settings.circuit == "perception" else reasoning_record
        items = ministar.benchmark(self.items, "train", offset=0).items
        shown = track(items, "mining", console=output.console, transient=True)
        for item, boxes in mine(vlm, shown, config, teacher=self._teacher(), seed=self.seed, mining=mining):
            yield make(vlm, item, boxes, config)

    def _teacher(self) -> Searcher | None:
        if self.teacher is None:
            return None
        config = replace(PerceptionConfig.preset(preset_name(self.teacher)), regime=self.teacher_regime)
        return Searcher(self._teacher_options(self.teacher).load(), config)

    def _teacher_options(self, teacher: str) -> ModelOptions:
        return ModelOptions(model=teacher, device=self.device)
