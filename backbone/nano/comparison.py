"""What makes grounding learnable from nothing: a controlled comparison, one factor changed at a time.

Every arm gets the same scenes, the same CPU seconds of training (warm-ups included) and the same two seeds; only the
named factor differs from the reference. Measured: mean IoU on held-out scenes of the same kind, greedy decoding.

    python -m backbone.nano.comparison --output runs/comparison --seconds 150
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.random import Generator
from rich.console import Console
from torch import nn

from backbone.curriculum.photos import training_photos
from backbone.curriculum.sample import Message, Sample, box_pieces, reply
from backbone.curriculum.scenes import Scene, random_scene
from backbone.curriculum.shapes import ground_thing, unique_things
from backbone.nano.build import build_model
from backbone.nano.config import VOCABULARY, Guidance, NanoConfig
from backbone.nano.encode import Batch, Encoder
from backbone.nano.losses import NanoTraining
from backbone.nano.measure import box_iou, engine, first_box, generate
from backbone.statistics import bootstrap_mean
from backbone.tokenizer import build_tokenizer
from backbone.training import TrainingConfig, train

SIZE = (128, 128)
MOST = 4  # things in a scene
SIDE = (0.15, 0.4)
HELD_OUT = 5_000
IMAGES = 8
STEPS = 100_000  # never reached: the budget ends a run
REFERENCE = NanoConfig(minimum_pixels=64 * 64)


@dataclass(frozen=True)
class Arm:
    """One setting; ``warm_up``, ``text_first`` and ``grow`` are shares of the budget."""

    model: NanoConfig = REFERENCE
    guidance: Guidance = field(default_factory=Guidance)
    warm_up: float = 0.3  # dense supervision of the vision tower alone
    text_first: float = 0.0  # scenes as text lists with boxes, no picture
    grow: float = 0.0  # one thing at first, more later
    frozen: bool = False  # the tower does not learn after its warm-up


def arms() -> dict[str, Arm]:
    """The reference and what each other arm changes."""
    base = Arm()
    return {
        "reference": base,
        "no attention guidance": replace(base, guidance=Guidance(attention=0.0)),
        "no dense guidance": replace(base, guidance=Guidance(dense=0.0), warm_up=0.0),
        "no guidance at all": replace(base, guidance=Guidance(dense=0.0, attention=0.0), warm_up=0.0),
        "no warm-up": replace(base, warm_up=0.0),
        "frozen tower": replace(base, frozen=True),
        "no deepstack": replace(base, model=replace(REFERENCE, deepstack=())),
        "patch 8": replace(base, model=replace(REFERENCE, patch=8)),
        "text retrieval first": replace(base, text_first=0.2),
        "one to many": replace(base, grow=0.3),
    }


def scene(rng: Generator, count: int) -> Scene:
    """A small scene of the comparison."""
    high = min(SIDE[1], 0.9 / np.sqrt(count))
    return random_scene(rng, SIZE, count, side=(SIDE[0], high), photos=training_photos())


def grounding_sample(rng: Generator, most: int) -> Sample:
    """A scene with every uniquely named thing to be located."""
    while True:
        made = scene(rng, int(rng.integers(1, most + 1)))
        if things := unique_things(made):
            return Sample(made.image, tuple(ground_thing(rng, made, t) for t in things), made.things)


def text_sample(rng: Generator, most: int) -> Sample:
    """The same questions with the scene written out; the picture is one empty visual token."""
    pictured = grounding_sample(rng, most)
    blank = np.full((32, 32, 3), 127, np.uint8)
    lines = []
    for thing in pictured.things or ():
        numbers = [round(v * 1000 / SIZE[i % 2]) for i, v in enumerate(thing.box)]
        lines.append(f"{thing.name} [{', '.join(map(str, numbers))}]")
    text = "\n".join([lines[i] for i in rng.permutation(len(lines))])
    conversations: list[tuple[Message, ...]] = []
    for thing in unique_things(Scene(blank, pictured.things or ())):
        content = [{"type": "image", "image": blank}, {"type": "text", "text": f"{text}\nLocate the {thing.name}."}]
        pieces = [p if isinstance(p, str) else p[0] for p in box_pieces([(thing.box, thing.name)], SIZE)]
        conversations.append(({"role": "user", "content": content}, reply(*pieces)))
    return Sample(blank, tuple(conversations))


@dataclass(frozen=True)
class ComparisonConfig:
    """How long each arm trains and how it is measured."""

    output: Path = Path("runs/comparison")
    seconds: float = 150.0  # CPU seconds of training per arm and seed
    seeds: tuple[int, ...] = (0, 1)
    items: int = 200
    learning_rate: float = 1.5e-3
    only: tuple[str, ...] = ()


def run_arm(name: str, arm: Arm, seed: int, config: ComparisonConfig) -> dict[str, Any]:
    """Train one arm under the CPU budget and measure it."""
    torch.set_num_threads(1)
    model = build_model(arm.model, seed)
    training = NanoTraining(model, arm.model, arm.guidance)
    encoder = Encoder(build_tokenizer(VOCABULARY), arm.model)
    folder = config.output / f"{name.replace(' ', '_')}-{seed}"
    used, steps = 0.0, 0
    for stage, share, guidance, make in _stages(arm):
        training.guidance = guidance
        model.model.visual.requires_grad_(not (arm.frozen and stage == "pictures"))
        result, seconds = _train_for(
            training, _batches(encoder, make, seed), share * config.seconds, folder / stage, config, seed
        )
        used, steps = used + seconds, steps + result
    values = _measure(model, arm.model, config.items)
    interval = bootstrap_mean(values)
    return {
        "arm": name,
        "seed": seed,
        "iou": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "n": len(values),
        "over_half": float(np.mean(np.array(values) > 0.5)),
        "cpu_seconds": used,
        "steps": steps,
    }


def _stages(arm: Arm) -> list[tuple[str, float, Guidance, Callable[[Generator], Sample]]]:
    """``(name, share of the budget, losses, samples)`` in order."""
    stages: list[tuple[str, float, Guidance, Callable[[Generator], Sample]]] = []
    if arm.warm_up:
        tower = replace(arm.guidance, answer=0.0, dense=1.0)
        stages.append(("tower", arm.warm_up, tower, lambda rng: grounding_sample(rng, MOST)))
    if arm.text_first:
        words = replace(arm.guidance, dense=0.0, attention=0.0)
        stages.append(("text", arm.text_first, words, lambda rng: text_sample(rng, MOST)))
    if arm.grow:
        stages.append(("one", arm.grow, arm.guidance, lambda rng: grounding_sample(rng, 1)))
    rest = 1.0 - sum(share for _, share, _, _ in stages)
    stages.append(("pictures", rest, arm.guidance, lambda rng: grounding_sample(rng, MOST)))
    return stages


def _batches(encoder: Encoder, make: Callable[[Generator], Sample], seed: int) -> Callable[[int], Batch]:
    def batch_at(step: int) -> Batch:
        rng = np.random.default_rng([1 << 33, seed, step])
        return encoder.batch([make(rng) for _ in range(IMAGES)])

    return batch_at


def _train_for(
    training: nn.Module,
    batch_at: Callable[[int], Batch],
    seconds: float,
    folder: Path,
    config: ComparisonConfig,
    seed: int,
) -> tuple[int, float]:
    """Train at a constant rate until the CPU seconds are used; returns steps and seconds."""
    stop, started = threading.Event(), time.process_time()

    def loss(module: nn.Module, batch: Batch) -> Any:
        if time.process_time() - started >= seconds:
            stop.set()
        return module(batch)

    loop = TrainingConfig(
        steps=STEPS,
        learning_rate=config.learning_rate,
        warmup_fraction=30 / STEPS,
        final_fraction=1.0,
        precision="fp32",
        seed=seed,
        checkpoint_minutes=600,
        keep=1,
        threads=1,
    )
    result = train(training, batch_at, loss, loop, folder, stop=stop)
    return result.steps, time.process_time() - started


def _measure(model: Any, config: NanoConfig, items: int) -> list[float]:
    rng = np.random.default_rng(HELD_OUT)
    asked = [grounding_sample(rng, MOST).conversations[0] for _ in range(items)]
    texts = generate(engine(model, config), asked)
    truth = ["".join(p["text"] for p in c[-1]["content"]) for c in asked]
    return [box_iou(first_box(t), first_box(a)) for t, a in zip(texts, truth, strict=True)]


def compare(config: ComparisonConfig) -> None:
    """Run every arm with every seed; finished ones are kept, so the command resumes."""
    config.output.mkdir(parents=True, exist_ok=True)
    path = config.output / "comparison.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.is_file() else []
    done = {(r["arm"], r["seed"]) for r in rows}
    console = Console(stderr=True)
    for seed in config.seeds:
        for name, arm in arms().items():
            if (name, seed) in done or (config.only and name not in config.only):
                continue
            rows.append(run_arm(name, arm, seed, config))
            console.print(f"{name}, seed {seed}: mean IoU {rows[-1]['iou']:.3f}")
            record = {"config": asdict(config), "rows": rows}
            path.write_text(json.dumps(record, indent=1, default=str))


if __name__ == "__main__":
    compare(tyro.cli(ComparisonConfig))
