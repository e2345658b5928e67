"""Two rivals of the flow on the same words and fields: matching strings, and regressing the box at once.

The others are configurations of the reader itself (`docparse.config.presets`): one step, and the Kullback-Leibler
geometry instead of Wasserstein's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from docparse.data import Example
from docparse.evidence import Asked, ask_words, place_of
from docparse.fields.matching import PLACES, UNIONS, WordFields
from docparse.fields.text import KINDS
from docparse.fields.words import GEOMETRY, DocumentWords
from docparse.losses import answer_loss_of, giou
from docparse.model import PLACE, SIGNS, EvidenceNetwork, NetworkConfig, WordInputs
from docparse.scoring import Prediction

LEAST_COVERED = 0.35  # of the question by the places around a word: below, string matching finds nothing
NAMES = (*PLACES, *("+".join(union) for union in UNIONS), "self")


def match_reader(example: Example) -> Prediction:
    """String matching: what follows the labels (left, above, heading) that have most of the question's words.

    No learning. Words that stand in the question are labels themselves and are no answer.
    """
    words, fields = example.words, example.fields
    score = matched_words(words, fields)
    if not len(score) or score.max() < LEAST_COVERED:
        return Prediction(None)
    best = int(score.argmax())
    chosen = np.flatnonzero((words.segment == words.segment[best]) & (score > 0.5 * score[best]))
    box = (*words.boxes[chosen, :2].min(0).tolist(), *words.boxes[chosen, 2:].max(0).tolist())
    text = " ".join(words.texts[i] for i in chosen.tolist()).strip(" ,;:")
    return Prediction(text, ((int(words.page[best]), box),), (1.0,))


def matched_words(words: DocumentWords, fields: WordFields) -> NDArray[np.float64]:
    """(n,) coverage of the question by each word's labels, less what the word itself covers."""
    letters = fields.matched[:, len(NAMES) :].astype(np.float64)
    column = {name: letters[:, i] for i, name in enumerate(NAMES)}
    labels = column["left+above"] + 0.3 * column["heading"]
    digits = words.fixed[:, GEOMETRY + KINDS.index("digits")]
    ties = 0.05 * column["beside"] + 0.04 * column["line"] + 0.02 * digits  # nearer labels and figures come first
    own = fields.matched[:, len(NAMES) - 1] > 0.8
    return np.where(own, 0.0, labels + ties * (labels > 0))


class DetectorNetwork(EvidenceNetwork):
    """The same encoder, then one query that attends to all words and regresses page and box in a single pass."""

    def __init__(self, config: NetworkConfig, fields: int, vectors: int, question: int) -> None:
        """As `EvidenceNetwork`, whose flow heads give way to heads of about the same size."""
        super().__init__(config, fields, vectors, question)
        width, asked = config.width, config.question_vector
        del self.place, self.pool, self.step, self.potential
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(asked, width)
        self.where = nn.Linear(PLACE, width)
        inside = 2 * width + asked
        self.box = nn.Sequential(
            nn.Linear(inside, 3 * width), nn.GELU(), nn.Linear(3 * width, width), nn.GELU(), nn.Linear(width, 4)
        )

    def detect(self, asked: Sequence[Asked]) -> list[Detection]:
        """One detection for each question."""
        words = WordInputs.join([a.words for a in asked])
        h, question = self.encode(words)
        place = torch.cat([place_of(a.support, len(a.sizes)) for a in asked])
        h = h + self.where(place)
        score = (self.key(h) * self.query(question)[words.owner]).sum(-1) / h.shape[1] ** 0.5
        counts = [len(a.support) for a in asked]
        laws = [s.softmax(0) for s in torch.split(score, counts)]
        law = torch.cat(laws)
        answers = torch.split(self.answer_logits(h, question, law, words.owner), counts)
        parts = torch.split(h, counts)
        pooled = torch.stack([r @ x for r, x in zip(laws, parts, strict=True)])
        most = torch.stack([x[int(r.argmax())] for r, x in zip(laws, parts, strict=True)])
        raw = self.box(torch.cat([pooled, most, question], -1)).sigmoid()
        low, size = raw[:, :2], raw[:, 2:] + 1e-4
        boxes = torch.cat([low, low + size], -1)
        signs = raw.new_zeros(len(asked), SIGNS)
        settled = self.settled_logits(h, question, law, words.owner, signs)
        return [Detection(*row) for row in zip(boxes, laws, answers, settled, strict=True)]


@dataclass(frozen=True, eq=False)
class Detection:
    """A regressed box (4,) in page units, the attention (n,) that tells its page, answer logits (n,), settled ()."""

    box: Tensor
    law: Tensor
    answer: Tensor
    settled: Tensor


def detector_loss(
    detections: Sequence[Detection], asked: Sequence[Asked], examples: Sequence[Example]
) -> tuple[Tensor, dict[str, Tensor]]:
    """L1 + GIoU to the first evidence box, cross entropy of its page, and the reader's answer and settled terms."""
    has = torch.tensor([bool(e.truth.answers) for e in examples], dtype=torch.float32)
    settled = torch.stack([d.settled for d in detections])
    parts = {"settled": 0.5 * functional.binary_cross_entropy_with_logits(settled, has)}
    boxes, pages, answers = [], [], []
    for found, a, example in zip(detections, asked, examples, strict=True):
        truth = example.truth
        if not truth.answers:
            continue
        wanted = torch.from_numpy(truth.boxes[0])
        boxes.append(5 * (found.box - wanted).abs().sum() + 2 * (1 - giou(found.box, wanted)))
        on_page = a.support.pages == int(truth.pages[0])
        pages.append(-(found.law * on_page).sum().clamp(min=1e-6).log())
        answers.append(answer_loss_of(found.answer, found.law, truth))
    for name, values in (("box", boxes), ("page", pages), ("answer", answers)):
        if values:
            parts[name] = torch.stack(values).mean()
    return torch.stack(list(parts.values())).sum(), {name: value.detach() for name, value in parts.items()}


def detect(network: DetectorNetwork, example: Example, settled: float = 0.5) -> Prediction:
    """The detector's answer: its box, and the words in it that belong to the answer."""
    words = example.words
    with torch.inference_mode():
        found = network.detect([ask_words(words, example.fields)])[0]
    if float(found.settled.sigmoid()) < settled:
        return Prediction(None)
    law = found.law.double().numpy()
    page = int(np.bincount(words.page, law).argmax())
    box = tuple(found.box.double().tolist())
    centre = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2
    inside = (words.page == page) & (centre >= box[:2]).all(1) & (centre <= box[2:]).all(1)
    chosen = np.flatnonzero(inside & (found.answer.numpy() > 0))
    if not len(chosen):
        chosen = np.flatnonzero(inside)
    text = " ".join(words.texts[i] for i in chosen.tolist()).strip(" ,;:")
    return Prediction(text, ((page, box),), (1.0,))
