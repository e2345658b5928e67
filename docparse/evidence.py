"""Fields, network and flow together: from words and a question to the law of every step, and what it says.

All tensors of a call live in the call; the network holds weights only, so documents and users never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backbone.errors import DataError
from docparse.config import DocparseConfig
from docparse.fields.matching import WordFields
from docparse.fields.patches import PatchField
from docparse.fields.words import DocumentWords
from docparse.flow.flow import FlowResult, run_flows
from docparse.flow.grids import Grid, Support, locate, page_grid, word_support
from docparse.model import RECALL, EvidenceNetwork, Particles, WordInputs
from docparse.recall import Places, focused, recalled


@dataclass(frozen=True, eq=False)
class Asked:
    """A document and a question, as tensors."""

    words: WordInputs
    support: Support  # all words
    sizes: tuple[tuple[float, float], ...]  # of the pages, in page units
    covered: Tensor  # (n,) how much of the question each word's surroundings answer to, for the settled head
    same: Tensor  # (n,) number of each word's text
    patches: PatchField | None = None  # what the pages look like to the question


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the flow came to for one question."""

    flow: FlowResult
    word_mass: Tensor  # (n,) mass of each word under the last law
    answer: Tensor  # (n,) logits that a word belongs to the answer
    settled: Tensor  # () logit that there is an answer


def ask(words: DocumentWords, fields: WordFields, config: DocparseConfig, patches: PatchField | None = None) -> Asked:
    """Tensors for a reader of the configuration: with patches if it sees them, without words if it sees nothing else.

    Raises:
        DataError: the reader sees patches and there are none.
    """
    if config.patches is None:
        return ask_words(words, fields)
    if patches is None:
        raise DataError(f"the reader sees {config.fields}, and there are no patch fields of the question")
    if config.network.words:
        extents = [(float(w), float(h)) for w, h in words.sizes]
        return replace(ask_words(words, fields), patches=patches.without(words.boxes, words.page, extents))
    sizes = tuple((float(w), float(h)) for w, h in words.sizes)
    nothing, none = torch.zeros(0, 1), torch.zeros(0, dtype=torch.long)
    inputs = WordInputs(
        nothing, nothing, torch.from_numpy(fields.question)[None], none, none.expand(4, 0), none.expand(2, 0)
    )
    support = word_support(Grid(sizes, 1, 1), torch.zeros(0, 4), none)
    return Asked(inputs, support, sizes, torch.zeros(0), none, patches)


def ask_words(words: DocumentWords, fields: WordFields) -> Asked:
    """Tensors of a document with at least one word."""
    inputs = WordInputs(
        torch.from_numpy(np.concatenate([fields.matched, words.fixed], 1)),
        torch.from_numpy(words.vectors[words.which]),
        torch.from_numpy(fields.question)[None],
        torch.zeros(len(words), dtype=torch.long),
        torch.from_numpy(np.stack([words.left, words.right, words.above, words.below])),
        torch.from_numpy(np.stack([words.segment, words.line])),
    )
    sizes = tuple((float(w), float(h)) for w, h in words.sizes)
    grid = Grid(sizes, 1, 1)
    support = word_support(grid, torch.from_numpy(words.boxes), torch.from_numpy(words.page))
    return Asked(inputs, support, sizes, torch.from_numpy(fields.matched[:, -2]), torch.from_numpy(words.which))


def run_evidence(
    network: EvidenceNetwork,
    config: DocparseConfig,
    asked: Sequence[Asked],
    chosen: Sequence[Tensor] | None = None,
) -> list[Outcome]:
    """Flow the evidence of a batch of questions. All documents must start at the same level; see `start_level`.

    ``chosen`` (m,) indices for each question: the only words that may carry mass; all are still heard.
    """
    words = WordInputs.join([a.words for a in asked])
    reads = network.config.words
    if reads:
        states, questions = network.encode(words)
    else:
        states, questions = words.fields.new_zeros(0, network.config.width), network.question_vector(words.question)
    sees = network.patch is not None
    places = _places(asked) if network.config.recall else None

    def potential_fn(k: int, supports: Sequence[Support], laws: Sequence[Tensor]) -> list[Tensor]:
        scale = 1 / config.flow.tau_at(k)
        if config.flow.geometry == "wasserstein":
            scale *= config.flow.epsilon_at(k)
        particles = _particles(supports, asked, sees)
        h, law = network.particles(states, particles), torch.cat(list(laws))
        found = None if places is None else _recalled(law, particles, words, places)
        u = network.logits(h, questions, law, particles.owner, k, found)
        return list(torch.split(-scale * u, [len(s) for s in supports]))

    def weight_fn(k: int, i: int, children: Support) -> Tensor:
        return holds_content(children, carrying[i], sees)

    supports = [a.support if chosen is None else a.support.select(chosen[i]) for i, a in enumerate(asked)]
    carrying = [replace(a, support=support) for a, support in zip(asked, supports, strict=True)]
    starts = [_start(a, config, sees) for a in carrying]
    results = run_flows(starts, potential_fn, config.flow, words=supports, weight_fn=weight_fn)
    if not reads:
        return _seen(network, results, asked, questions)
    masses = [_word_mass(result, a.support) for result, a in zip(results, asked, strict=True)]
    law = torch.cat(masses)
    answers = torch.split(network.answer_logits(states, questions, law, words.owner), [len(m) for m in masses])
    signs = torch.stack([_signs(r, m, a.covered) for r, m, a in zip(results, masses, asked, strict=True)])
    settled = network.settled_logits(states, questions, law, words.owner, signs)
    return [Outcome(*parts) for parts in zip(results, masses, answers, settled, strict=True)]


def _places(asked: Sequence[Asked]) -> Places:
    texts = torch.tensor([0, *(int(a.same.max()) + 1 if len(a.same) else 0 for a in asked)]).cumsum(0)
    pages = torch.tensor([0, *(len(a.sizes) for a in asked)]).cumsum(0)
    return Places(
        torch.cat([a.same + at for a, at in zip(asked, texts.tolist(), strict=False)]),
        torch.cat([a.support.pages + at for a, at in zip(asked, pages.tolist(), strict=False)]),
        torch.cat([a.support.points for a in asked]),
    )


def _recalled(law: Tensor, particles: Particles, words: WordInputs, places: Places) -> Tensor:
    """(N, RECALL) of particles: the largest of the words they hold."""
    focus = focused(law, particles.holder, words.owner, len(words.question))
    found = recalled(focus, words, places)
    held = particles.holder >= 0
    index = particles.holder[held][:, None].expand(-1, RECALL)
    empty = law.new_zeros(len(law), RECALL)
    return empty.scatter_reduce(0, index, found[held], "amax", include_self=False)


def _seen(
    network: EvidenceNetwork, results: Sequence[FlowResult], asked: Sequence[Asked], questions: Tensor
) -> list[Outcome]:
    """Outcomes of a network that sees no words: whether there is an answer is told from the last law's cells."""
    last = _particles([r.support for r in results], asked, True)
    h = network.particles(questions.new_zeros(0, network.config.width), last)
    rho = torch.cat([r.rho for r in results])
    signs = torch.stack([_signs(r, r.rho, r.rho.new_zeros(len(r.rho))) for r in results])
    settled = network.settled_logits(h, questions, rho, last.owner, signs)
    nothing = rho.new_zeros(0)
    return [Outcome(result, nothing, nothing, value) for result, value in zip(results, settled, strict=True)]


def holds_content(children: Support, asked: Asked, sees: bool) -> Tensor:
    """(M,) 1 where a particle holds a word, or is one, or, for who ``sees``, is a cell with ink that is no word."""
    held = holds_words(children, asked.support)
    if not sees or asked.patches is None:
        return held
    return torch.where(children.cells >= 0, torch.maximum(held, asked.patches.inked(children).float()), held)


def holds_words(children: Support, words: Support) -> Tensor:
    """(M,) 1 where a particle holds a word, or is one; others get no mass."""
    held = torch.zeros(int(children.grid.offsets()[-1]), dtype=torch.bool)
    held[locate(children.grid, words.points, words.pages)] = True
    own = torch.where(children.cells >= 0, held[children.cells.clamp(min=0)], children.words >= 0)
    return own.float()


def _start(asked: Asked, config: DocparseConfig, sees: bool) -> Support:
    first = config.flow.levels[0]
    support = page_grid(asked.sizes, first)
    held = holds_content(support, asked, sees) > 0
    if sees and asked.patches is not None and not bool(held.any()):  # bare paper: nothing tells its cells apart
        held = torch.tensor([int(page) in asked.patches.pages for page in support.pages])
    return support.select(held)


def _particles(supports: Sequence[Support], asked: Sequence[Asked], sees: bool) -> Particles:
    """Which word each particle of a batch holds, where those are, and, for who ``sees``, what they look like."""
    words = [a.support for a in asked]
    holders, places, owners, start = [], [], [], 0
    for i, (support, own) in enumerate(zip(supports, words, strict=True)):
        holder = _holder(support, own)
        holders.append(torch.where(holder < 0, -1, holder + start))
        places.append(place_of(support, len(support.grid.sizes)))
        owners.append(torch.full((len(support),), i))
        start += len(support)
    patches = torch.cat([_patches(s, a) for s, a in zip(supports, asked, strict=True)]) if sees else None
    return Particles(torch.cat(holders), torch.cat(owners), torch.cat(places), patches)


def _patches(support: Support, asked: Asked) -> Tensor:
    if asked.patches is None:
        raise DataError("the network sees patches, and a question came without patch fields; see docparse.evidence.ask")
    return asked.patches.pooled(support)


def _holder(support: Support, words: Support) -> Tensor:
    """(n,) the particle that is, or whose cell contains, each word; -1 for none."""
    holder = torch.full((len(words),), -1, dtype=torch.long)
    is_word = support.words >= 0
    holder[support.words[is_word]] = is_word.nonzero()[:, 0]
    is_cell = support.cells >= 0
    if bool(is_cell.any()):
        of_cell = torch.full((int(support.grid.offsets()[-1]),), -1, dtype=torch.long)
        of_cell[support.cells[is_cell]] = is_cell.nonzero()[:, 0]
        there = of_cell[locate(support.grid, words.points, words.pages)]
        holder = torch.where(holder >= 0, holder, there)
    return holder


def place_of(support: Support, pages: int) -> Tensor:
    """(N, PLACE) where a particle lies and how large it is."""
    x, y = support.points.unbind(1)
    w, h = (support.boxes[:, 2:] - support.boxes[:, :2]).unbind(1)
    page = support.pages.float() / max(pages - 1, 1)
    turn = 2 * torch.pi
    columns = (2 * x - 1, 2 * y - 1, (turn * x).sin(), (turn * x).cos(), (turn * y).sin(), (turn * y).cos(),
               w.clamp(min=1e-4).log() / 4, h.clamp(min=1e-4).log() / 4, page)  # fmt: skip
    return torch.stack(columns, 1)


def _word_mass(result: FlowResult, words: Support) -> Tensor:
    """(n,) the last law's mass on each word; words of a cell share its mass."""
    support, rho = result.support, result.rho
    if not bool((support.cells >= 0).any()):
        is_word = support.words >= 0
        return rho.new_zeros(len(words)).index_add(0, support.words[is_word], rho[is_word])
    holder = _holder(support, words)
    held = holder >= 0
    count = torch.bincount(holder[held], minlength=len(support)).clamp(min=1)
    at = holder.clamp(min=0)
    return torch.where(held, rho[at] / count[at], 0.0)


def _signs(result: FlowResult, mass: Tensor, covered: Tensor) -> Tensor:
    """(SIGNS,) how concentrated the law is, and how much of the question is answered to where it lies and at best."""
    entropy = -(mass * mass.clamp(min=1e-9).log()).sum()
    top = mass.topk(min(5, len(mass))).values
    here = (mass * covered).sum()
    pages = result.support.page_mass(result.rho)
    return torch.stack([entropy / 4, mass.max(), top.sum(), here, pages.max(), covered.max() - here])


def start_level(words: DocumentWords, config: DocparseConfig) -> DocparseConfig:
    """The configuration with a first level that fits the document's size."""
    sizes = [(float(w), float(h)) for w, h in words.sizes]
    levels = [config.flow.levels[0] >> i for i in range(8) if config.flow.levels[0] >> i]
    counts = {level: int(Grid(tuple(sizes), level, level).offsets()[-1]) for level in levels}
    return config.for_cells(counts)


def within_budget(documents: Sequence[DocumentWords], config: DocparseConfig, most: int) -> DocparseConfig:
    """The configuration with at most ``most`` particles at every step, for documents that run together.

    A flow of several steps begins on the finest grid, from its own first level down, on which all places with words
    are particles, and refines from there what the budget holds. One step has nothing that could choose for it: it runs
    on words if all of them fit, and else on the finest grid that fits.

    Raises:
        DataError: more pages with words than particles.
    """
    flow = replace(config.flow, max_particles=most)
    once = config.flow.steps == 1
    if once and max(len(words) for words in documents) <= most:
        return replace(config, flow=flow)
    first = config.flow.levels[0]
    levels = [first >> i for i in range(first.bit_length())]
    for level in levels:
        if all(_occupied(words, level) <= most for words in documents):
            coarse = (level,) if once else (level, *config.flow.levels[1:])
            return replace(config, flow=replace(flow, levels=coarse, words=flow.words and not once))
    pages = max(_occupied(words, 1) for words in documents)
    raise DataError(f"{pages} pages with words do not fit {most} particles a step; allow at least as many")


def _occupied(words: DocumentWords, level: int) -> int:
    """How many cells of a grid hold a word."""
    grid = Grid(tuple((float(w), float(h)) for w, h in words.sizes), level, level)
    centres = torch.from_numpy(words.boxes[:, :2] + words.boxes[:, 2:]) / 2
    return len(np.unique(locate(grid, centres, torch.from_numpy(words.page)).numpy()))


def mass_of_words(mass: Tensor) -> NDArray[np.float64]:
    """A law over words as numpy, for the region finder."""
    return mass.detach().double().numpy()
