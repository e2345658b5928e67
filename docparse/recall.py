"""Fields of what the flow has found so far: the gathers that a question has, made anew for the law of every step.

A question's fields say which words stand beside what the *question* names. A question that needs two looks ("the phone
of the department of X") asks for what stands beside something that only the first look finds. So before each step the
law is focused (its square, normalised: heavy words speak, a flat rest does not), and every word hears whether what was
found stands on its line or a line or two above or below, whether the same text stands there, and where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from docparse.model import WordInputs

REACH = 4.0  # of page units: how fast the distance to what was found saturates


@dataclass(frozen=True, eq=False)
class Places:
    """What `recalled` needs to know of the n words of a batch beside `WordInputs`."""

    same: Tensor  # (n,) number of each word's text, apart between questions
    page: Tensor  # (n,) number of each word's page, apart between questions
    points: Tensor  # (n, 2) centres in page units


def focused(rho: Tensor, holder: Tensor, owner: Tensor, questions: int) -> Tensor:
    """(n,) the law of particles (N,), shared among the words they hold, squared and normalised for each question."""
    held = holder >= 0
    at = holder.clamp(min=0)
    count = rho.new_zeros(len(rho)).index_add(0, at[held], rho.new_ones(int(held.sum())))
    mass = torch.where(held, rho[at] / count[at].clamp(min=1), 0.0)
    square = mass.square()
    total = rho.new_zeros(questions).index_add(0, owner, square)
    return square / total[owner].clamp(min=1e-30)


def recalled(focus: Tensor, words: WordInputs, places: Places) -> Tensor:
    """(n, RECALL) how each word stands to the words in focus (n,)."""
    segment, line = words.groups
    above, below = words.neighbours[2], words.neighbours[3]
    on_line = _sums(focus, line)
    rows = [on_line, *(_at(on_line, index) for index in (above, _twice(above), below, _twice(below)))]
    again = _sums(focus, places.same) - focus  # the same text elsewhere
    meant = words.vectors.new_zeros(len(words.question), words.vectors.shape[1])
    meant = torch.nn.functional.normalize(meant.index_add(0, words.owner, focus[:, None] * words.vectors), dim=-1)
    alike = (words.vectors * meant[words.owner]).sum(-1)
    here = _sums(focus, places.page)
    centre = torch.stack([_sums(focus * places.points[:, i], places.page) for i in (0, 1)], -1)
    offset = (places.points - centre / here.clamp(min=1e-6)[:, None]) * (here > 1e-3)[:, None]
    columns = [*rows, again, _sums(again, segment).clamp(max=1), _sums(again, line).clamp(max=1),
               alike, _most(alike, line), here, *torch.tanh(REACH * offset).unbind(-1)]  # fmt: skip
    return torch.stack(columns, -1)


def _sums(values: Tensor, group: Tensor) -> Tensor:
    """(n,) sum of the values over each word's group."""
    if not len(values):
        return values
    return values.new_zeros(int(group.max()) + 1).index_add(0, group, values)[group]


def _most(values: Tensor, group: Tensor) -> Tensor:
    """(n,) largest value in each word's group."""
    if not len(values):
        return values
    most = values.new_zeros(int(group.max()) + 1).scatter_reduce(0, group, values, "amax", include_self=False)
    return most[group]


def _at(values: Tensor, index: Tensor) -> Tensor:
    return torch.where(index >= 0, values[index.clamp(min=0)], 0.0)


def _twice(index: Tensor) -> Tensor:
    """The neighbour's neighbour, -1 for none."""
    return torch.where(index >= 0, index[index.clamp(min=0)], -1)
