"""What the reader is trained on: the flow's own loss, boxes, the answer's words, and whether there is an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from backbone.errors import ConfigError
from docparse.config import DocparseConfig
from docparse.data import Example, Truth
from docparse.evidence import Outcome
from docparse.flow.flow import FlowResult
from docparse.flow.losses import flow_loss
from docparse.flow.targets import Region, Target, step_targets

TAIL = 0.025  # a soft box runs from this quantile of the mass to its complement


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms. OUR CHOICE, as the paper's are not public."""

    flow: float = 1.0
    box: float = 1.0
    answer: float = 1.0
    settled: float = 0.5
    via: bool = True  # earlier steps should also find what the first of two looks finds, where it is known

    def __post_init__(self) -> None:
        if min(self.flow, self.box, self.answer, self.settled) < 0 or self.flow == 0:
            raise ConfigError(f"loss weights must be at least 0, that of the flow above 0; got {self}")


def reader_loss(
    outcomes: Sequence[Outcome], examples: Sequence[Example], config: DocparseConfig, weights: LossWeights
) -> tuple[Tensor, dict[str, Tensor]]:
    """Total loss () and its parts, averaged over the questions each part applies to."""
    known = [i for i, e in enumerate(examples) if e.truth.answers]
    has = torch.tensor([bool(e.truth.answers) for e in examples], dtype=torch.float32)
    parts = {"settled": functional.binary_cross_entropy_with_logits(torch.stack([o.settled for o in outcomes]), has)}
    if known:
        flows = [outcomes[i].flow for i in known]
        targets = [
            targets_of(flow, examples[i].truth, config, weights.via) for flow, i in zip(flows, known, strict=True)
        ]
        parts["flow"] = flow_loss(flows, targets, config.flow).total
        if weights.box > 0:
            made = [soft_box_loss(outcomes[i], examples[i].truth) for i in known]
            boxes = [b for b in made if b is not None]
            if boxes:
                parts["box"] = torch.stack(boxes).mean()
        parts["answer"] = torch.stack([answer_loss(outcomes[i], examples[i].truth) for i in known]).mean()
    total = torch.stack([getattr(weights, name) * value for name, value in parts.items()]).sum()
    return total, {name: value.detach() for name, value in parts.items()}


def targets_of(flow: FlowResult, truth: Truth, config: DocparseConfig, via: bool) -> list[Target]:
    """The law every step should reach; all but the last are shared by evidence and what is found on the way to it."""
    wanted = regions_of(truth)
    way = [Region(int(p), *box) for p, box in zip(truth.via_pages.tolist(), truth.via_boxes.tolist(), strict=True)]
    targets = step_targets(flow, wanted, config.flow)
    if not way or not via:
        return targets
    both = step_targets(flow, wanted + way, config.flow)
    return [*both[:-1], targets[-1]]


def regions_of(truth: Truth) -> list[Region]:
    """The evidence as regions of the flow."""
    rows = zip(truth.pages.tolist(), truth.boxes.tolist(), strict=True)
    return [Region(int(page), *box) for page, box in rows]


def answer_loss(outcome: Outcome, truth: Truth) -> Tensor:
    """Binary cross entropy of the answer's words, over words that carry mass or are evidence; 0 where none are read."""
    if not len(outcome.answer):
        return outcome.settled.detach() * 0
    return answer_loss_of(outcome.answer, outcome.word_mass, truth)


def answer_loss_of(logits: Tensor, mass: Tensor, truth: Truth) -> Tensor:
    """`answer_loss` of logits (n,) under the mass (n,) of the words."""
    wanted = torch.from_numpy(truth.answer_words.astype("float32"))
    counted = (mass.detach() > 1e-3) | torch.from_numpy(truth.evidence_words)
    if not bool(counted.any()):
        return logits.sum() * 0
    return functional.binary_cross_entropy_with_logits(logits[counted], wanted[counted])


def soft_box_loss(outcome: Outcome, truth: Truth) -> Tensor | None:
    """L1 + GIoU between the true box and the box between quantiles of the mass; for evidence of one region only."""
    if len(truth.boxes) != 1:
        return None
    support, rho = outcome.flow.support, outcome.flow.rho
    here = support.pages == int(truth.pages[0])
    mass = rho * here
    if float(mass.sum().detach()) < 1e-3:
        return None
    mass = mass / mass.sum()
    boxes = support.boxes.to(rho)
    box = torch.stack([
        soft_quantile(boxes[:, 0], mass, TAIL), soft_quantile(boxes[:, 1], mass, TAIL),
        soft_quantile(boxes[:, 2], mass, 1 - TAIL), soft_quantile(boxes[:, 3], mass, 1 - TAIL),
    ])  # fmt: skip
    wanted = torch.from_numpy(truth.boxes[0]).to(rho)
    return (box - wanted).abs().sum() + 1 - giou(box, wanted)


def soft_quantile(values: Tensor, mass: Tensor, level: float) -> Tensor:
    """Quantile () of a law on values (N,), linear between the middles of its shares; differentiable in mass."""
    order = values.argsort()
    x, m = values[order], mass[order]
    middle = m.cumsum(0) - m / 2
    above = int((middle < level).sum())
    if above == 0 or above == len(x):
        return x[min(above, len(x) - 1)]
    low, high = middle[above - 1], middle[above]
    share = ((level - low) / (high - low).clamp(min=1e-6)).clamp(0, 1)
    return x[above - 1] + share * (x[above] - x[above - 1])


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised intersection over union () of two boxes (4,)."""
    inter = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
    area_a, area_b = (a[2:] - a[:2]).clamp(min=0).prod(), (b[2:] - b[:2]).prod()
    union = area_a + area_b - inter
    hull = (torch.maximum(a[2:], b[2:]) - torch.minimum(a[:2], b[:2])).clamp(min=0).prod()
    return inter / union.clamp(min=1e-9) - (hull - union) / hull.clamp(min=1e-9)
