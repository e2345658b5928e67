"""Training the reader on records of documents, through the shared loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from backbone.checkpoints import list_checkpoints, read_state
from backbone.errors import ConfigError, DataError
from backbone.training import LossFunction, TrainingConfig, TrainingResult, train
from docparse.config import DocparseConfig
from docparse.data import Example, load_document
from docparse.evidence import ask, ask_words, run_evidence, within_budget
from docparse.losses import LossWeights, reader_loss
from docparse.model import RECALL, EvidenceNetwork
from docparse.patch_data import with_patches
from docparse.rivals import DetectorNetwork, detector_loss
from docparse.weights import NETWORKS, load_network, save_reader

QUESTIONS_OF_ONE = 4  # questions of one document in a batch: reading a record costs more than computing with it


@dataclass(frozen=True)
class ReaderTraining:
    """One training of the evidence network."""

    records: Path  # folder of `docparse.data.make_records`
    output: Path = Path("runs/docparse")
    method: Literal["flow", "detector"] = "flow"  # detector: the rival that regresses the box at once
    reader: DocparseConfig = field(default_factory=DocparseConfig)
    weights: LossWeights = field(default_factory=LossWeights)
    steps: int = 4000
    questions_per_step: int = 16
    learning_rate: float = 1.5e-3
    initial: Path | None = None  # weights to begin with, such as those of a reader of words for one of both
    particles: int = 320  # most particles of a step in training; evaluation may take more
    budget: bool = False  # begin on grids that fit `particles`, as an evaluation with a budget does
    most_words: int = 900  # longer documents are left out of training
    checkpoint_minutes: float = 3.0
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.questions_per_step, self.particles, self.most_words) < 1:
            raise ConfigError(f"training of the reader: counts must be positive, got {self}")


@dataclass(frozen=True)
class Record:
    """Where a document's record is, how many words and questions it has."""

    path: Path
    words: int
    questions: int


def index_records(folder: Path) -> list[Record]:
    """All records of a folder with their sizes, which are kept in ``index.json`` beside them."""
    paths = sorted(folder.glob("*-*.npz"))
    if not paths:
        raise DataError(f"{folder} holds no records; make some with: fovea data records --output {folder}")
    store = folder / "index.json"
    known: dict[str, list[int]] = json.loads(store.read_text()) if store.is_file() else {}
    fresh = [path for path in paths if path.name not in known]
    for path in fresh:
        examples = load_document(path)
        known[path.name] = [len(examples[0].words) if examples else 0, len(examples)]
    if fresh:
        store.write_text(json.dumps(known))
    return [Record(path, *known[path.name]) for path in paths]


def batch_maker(config: ReaderTraining, records: list[Record]) -> Callable[[int], list[Example]]:
    """``batch_at(step)``: questions of documents of about one length, so that little of a batch is padding."""
    fit = sorted(
        (r for r in records if r.questions and 0 < r.words <= config.most_words), key=lambda r: (r.words, r.path.name)
    )
    if not fit:
        raise DataError(f"none of {len(records)} documents has between 1 and {config.most_words} words and a question")

    def batch_at(step: int) -> list[Example]:
        rng = np.random.default_rng([config.seed, 71, step])
        centre = int(rng.integers(len(fit)))
        documents = max(1, config.questions_per_step // QUESTIONS_OF_ONE)
        near = np.clip(centre + rng.integers(-40, 41, documents), 0, len(fit) - 1)
        batch: list[Example] = []
        for index in near.tolist():
            examples = load_document(fit[index].path)
            chosen = rng.permutation(len(examples))[: -(-(config.questions_per_step - len(batch)) // documents)]
            batch += with_patches([examples[int(i)] for i in chosen], config.records, config.reader.patches)
            documents -= 1
        return batch

    return batch_at


def make_network(
    config: DocparseConfig, example: Example, kind: type[EvidenceNetwork] = EvidenceNetwork
) -> EvidenceNetwork:
    """A network with the widths of the records' fields."""
    asked = ask_words(example.words, example.fields).words
    return kind(config.network, asked.fields.shape[1], asked.vectors.shape[1], asked.question.shape[1])


def begin_with(network: EvidenceNetwork, folder: Path) -> None:
    """Take over the weights of a reader; what it did not see (patches, what was found so far) counts nothing at first.

    Raises:
        ModelError: the folder holds no reader.
        ConfigError: a network of another kind or other sizes.
    """
    known, _ = load_network(folder)
    state, fresh = known.state_dict(), {}
    if network.patch is not None and known.patch is None:
        fresh = {f"patch.{name}": torch.zeros_like(value) for name, value in network.patch.named_parameters()}
    first = "potential.0.weight"  # its last columns read what was found so far
    if network.config.recall and not known.config.recall and first in state and first in network.state_dict():
        fresh[first] = functional.pad(state[first], (0, RECALL))
    try:
        network.load_state_dict(state | fresh)
    except RuntimeError as error:
        raise ConfigError(f"{folder}: its weights do not fit the network to be trained: {error}") from error


def train_reader(config: ReaderTraining) -> TrainingResult:
    """Train (or go on) and leave ``output/model``: network.safetensors and config.json.

    Raises:
        ConfigError: the output folder has a training of another method or reader.
        DataError: there are no records.
    """
    record: dict[str, Any] = json.loads(json.dumps({"docparse": asdict(config)}, default=str))
    _check_resumed(config.output, record["docparse"])
    records = index_records(config.records)
    torch.manual_seed(config.seed)
    network = make_network(config.reader, load_document(records[0].path)[0], NETWORKS[config.method])
    if config.initial is not None:
        begin_with(network, config.initial)
    loop = TrainingConfig(
        steps=config.steps,
        learning_rate=config.learning_rate,
        precision="fp32",
        seed=config.seed,
        checkpoint_minutes=config.checkpoint_minutes,
        threads=config.threads,
    )
    batches, loss = batch_maker(config, records), loss_function(network, config)
    result = train(network, batches, loss, loop, config.output, config_record=record)
    save_reader(network, config.reader, config.output / "model")
    return result


def _check_resumed(output: Path, now: dict[str, Any]) -> None:
    """What decides answers must be as it was, or weights would be kept under the name of a reader they are not."""
    found = list_checkpoints(output / "checkpoints")
    if not found:
        return
    before = read_state(found[-1])["config"].get("docparse", {})
    pairs = [({"method": before.get("method")}, {"method": now["method"]})]
    pairs += [(before.get("reader", {}).get(k) or {}, now["reader"][k] or {}) for k in ("flow", "network", "patches")]
    changed = [
        f"{key} = {new[key]} (was {old[key]})"
        for old, new in pairs
        for key in sorted(old.keys() & new.keys())
        if old[key] != new[key]
    ]
    if changed:
        raise ConfigError(
            f"{output} has a training of another reader: {', '.join(changed)}; give another --output, with "
            f"--initial {output / 'model'} to begin with its weights"
        )


def loss_function(network: EvidenceNetwork, config: ReaderTraining) -> LossFunction:
    """The loss of a batch of examples under the method that is trained."""
    flow = replace(config.reader.flow, max_particles=min(config.particles, config.reader.flow.max_particles))
    reader = replace(config.reader, flow=flow)

    def loss(module: nn.Module, batch: list[Example]) -> tuple[Tensor, dict[str, float | Tensor]]:
        asked = [ask(e.words, e.fields, reader, e.patches) for e in batch]
        if isinstance(network, DetectorNetwork):
            total, parts = detector_loss(network.detect(asked), asked, batch)
        else:
            fitted = within_budget([e.words for e in batch], reader, config.particles) if config.budget else reader
            total, parts = reader_loss(run_evidence(network, fitted, asked), batch, fitted, config.weights)
        return total, dict(parts)

    return loss
