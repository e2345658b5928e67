"""The network of the flow: evidence potentials of particles, one set of weights for all steps.

Words are encoded once per question; a particle (a cell of a page, or a word) pools the words in it. At step k the
potential of particle i sees its own features, what the law holds so far (``E_rho[h]``), its own mass, and the step:

    V_k(i) = - u_k(i) eps_k / tau_k,     u_k = MLP([h_i, E_rho_k[h], h_i * E_rho_k[h], log(N rho_k(i)), k])

``u`` is bounded. The scale makes ``tau V / eps = u``, so that the same network speaks to every step of the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from backbone.errors import ConfigError

PLACE = 9  # numbers that tell where a particle is and how large
SIGNS = 6  # numbers that tell how a flow ended
RECALL = 13  # numbers that tell how a word stands to what was found so far, see `docparse.recall`


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of `EvidenceNetwork`. All of them OUR CHOICE."""

    width: int = 96
    hops: int = 2  # rounds in which words hear from their neighbours, before the flow begins
    word_vector: int = 24  # features made of a word's embedding
    question_vector: int = 24
    patch_width: int = 0  # width of the backbone's patch features; 0: words alone
    words: bool = True  # False: patches alone
    bound: float = 15.0  # |u| stays below
    steps: int = 8  # most steps that have an embedding of their own
    dropout: float = 0.1
    recall: bool = False  # potentials also see the fields of what was found so far

    def __post_init__(self) -> None:
        if min(self.width, self.steps, self.word_vector, self.question_vector) < 1 or self.hops < 0:
            raise ConfigError(f"evidence network: sizes must be positive, got {self}")
        if not self.words and not self.patch_width:
            raise ConfigError("evidence network: neither words nor patches; give words=True or a patch_width")
        if not self.bound > 0 or not 0 <= self.dropout < 1:
            raise ConfigError(f"evidence network: bound > 0 and 0 <= dropout < 1, got {self.bound}, {self.dropout}")


@dataclass(frozen=True, eq=False)
class WordInputs:
    """What the network reads of the n words of a batch of B questions, one after the other."""

    fields: Tensor  # (n, F) question's fields, geometry, kinds
    vectors: Tensor  # (n, D) embeddings
    question: Tensor  # (B, Q)
    owner: Tensor  # (n,) which question each word belongs to
    neighbours: Tensor  # (4, n) indices left, right, above, below; -1 for none
    groups: Tensor  # (2, n) numbers of each word's segment and line, apart between questions

    @classmethod
    def join(cls, items: Sequence[WordInputs]) -> WordInputs:
        """Several batches as one."""
        starts = _starts([len(item.fields) for item in items])
        first = _starts([len(item.question) for item in items])
        groups, offset = [], torch.zeros(2, 1, dtype=torch.long)
        for item in items:
            groups.append(item.groups + offset)
            if item.groups.shape[1]:
                offset = groups[-1].amax(1, keepdim=True) + 1
        near = [torch.where(i.neighbours < 0, -1, i.neighbours + at) for i, at in zip(items, starts, strict=True)]
        return cls(
            torch.cat([item.fields for item in items]),
            torch.cat([item.vectors for item in items]),
            torch.cat([item.question for item in items]),
            torch.cat([item.owner + at for item, at in zip(items, first, strict=True)]),
            torch.cat(near, 1),
            torch.cat(groups, 1),
        )


@dataclass(frozen=True, eq=False)
class Particles:
    """N particles of one step of a batch: the words they hold, where they are, and patch features if there are any."""

    holder: Tensor  # (n,) index of the particle that holds each word, -1 for none
    owner: Tensor  # (N,) which question each particle belongs to
    place: Tensor  # (N, PLACE)
    patches: Tensor | None = None  # (N, P)


class EvidenceNetwork(nn.Module):
    """Fields to potentials, and from the last law to the answer's words and to whether there is an answer."""

    def __init__(self, config: NetworkConfig, fields: int, vectors: int, question: int) -> None:
        """``fields``, ``vectors``, ``question``: widths F, D, Q of the inputs."""
        super().__init__()
        self.config = config
        self.widths = (fields, vectors, question)
        width, asked = config.width, config.question_vector
        self.word_vector = nn.Linear(vectors, config.word_vector)
        self.question_vector = nn.Linear(question, asked)
        self.meaning = nn.Linear(vectors, config.word_vector, bias=False)
        self.wanted = nn.Linear(question, config.word_vector, bias=False)
        inside = fields + 2 * config.word_vector + asked
        self.word = _mlp(inside, 2 * width, width, config.dropout)
        self.listen = _mlp(7 * width + asked, 2 * width, width, config.dropout)
        self.place = nn.Linear(PLACE, width)
        self.pool = nn.Linear(2 * width, width)
        self.patch = nn.Linear(config.patch_width, width) if config.patch_width else None
        self.step = nn.Embedding(config.steps, width)
        recalled = RECALL if config.recall else 0
        self.potential = _mlp(3 * width + 1 + asked + recalled, 2 * width, 1, config.dropout)
        self.answer = _mlp(2 * width + 2 + asked, 2 * width, 1, config.dropout)
        self.settled = _mlp(width + SIGNS + asked, width, 1, config.dropout)

    def encode(self, words: WordInputs) -> tuple[Tensor, Tensor]:
        """Words (n, width) as their question sees them, and the questions (B, question_vector)."""
        question = self.question_vector(words.question)
        asked = question[words.owner]
        alike = self.meaning(words.vectors) * self.wanted(words.question)[words.owner]  # learned, beside the cosine
        h = self.word(torch.cat([words.fields, self.word_vector(words.vectors), alike, asked], -1))
        for _ in range(self.config.hops):
            near = [_neighbour(h, index) for index in words.neighbours]
            around = [_group_mean(h, group) for group in words.groups]
            h = h + self.listen(torch.cat([h, *near, *around, asked], -1))
        return h, question

    def particles(self, h: Tensor, particles: Particles) -> Tensor:
        """Features (N, width) of particles from those of the words they hold, their place, and their patches."""
        count = len(particles.place)
        out: Tensor = self.place(particles.place)
        if self.config.words:
            held = (particles.holder >= 0).nonzero()[:, 0]
            holder, words = particles.holder[held], h[held]
            total = words.new_zeros(count, h.shape[1]).index_add(0, holder, words)
            number = words.new_zeros(count).index_add(0, holder, words.new_ones(len(words)))
            index = holder[:, None].expand_as(words)
            most = words.new_zeros(count, h.shape[1]).scatter_reduce(0, index, words, "amax", include_self=False)
            out = out + self.pool(torch.cat([total / number.clamp(min=1)[:, None], most], -1))
        if self.patch is not None and particles.patches is not None:
            out = out + self.patch(particles.patches)
        return out

    def logits(
        self, h: Tensor, question: Tensor, rho: Tensor, owner: Tensor, step: int, recalled: Tensor | None = None
    ) -> Tensor:
        """``u_k`` (N,) of particles with features (N, width) under the laws ``rho`` (N,), one law for each question.

        ``recalled`` (N, RECALL): the fields of what was found so far, if the network reads them.
        """
        mean = _expected(h, rho, owner, len(question))[owner]
        count = torch.bincount(owner, minlength=len(question))[owner]
        mass = (rho * count).clamp(min=1e-4).log()[:, None] / 4
        parts = [h + self.step.weight[step], mean, h * mean, mass, question[owner]]
        if recalled is not None:
            parts.append(recalled)
        bound = self.config.bound
        return bound * torch.tanh(self.potential(torch.cat(parts, -1)).squeeze(-1) / bound)

    def answer_logits(self, h: Tensor, question: Tensor, rho: Tensor, owner: Tensor) -> Tensor:
        """(n,) logits that each word belongs to the answer, from its features and its mass (n,) under the last law."""
        mean = _expected(h, rho, owner, len(question))[owner]
        peak = rho.new_zeros(len(question)).scatter_reduce(0, owner, rho, "amax")[owner].clamp(min=1e-9)
        masses = torch.stack([rho / peak, rho.clamp(min=1e-6).log() / 8], -1)
        return torch.as_tensor(self.answer(torch.cat([h, mean, masses, question[owner]], -1)).squeeze(-1))

    def settled_logits(self, h: Tensor, question: Tensor, rho: Tensor, owner: Tensor, signs: Tensor) -> Tensor:
        """(B,) logits that the mass has settled on an answer; ``signs`` (B, SIGNS) describe how the flow ended."""
        mean = _expected(h, rho, owner, len(question))
        return torch.as_tensor(self.settled(torch.cat([mean, signs, question], -1)).squeeze(-1))


def _mlp(inside: int, hidden: int, outside: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inside, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, outside))


def _starts(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:i]) for i in range(len(counts))]


def _expected(h: Tensor, rho: Tensor, owner: Tensor, count: int) -> Tensor:
    """(count, width): the mean of the features under each question's law."""
    return h.new_zeros(count, h.shape[1]).index_add(0, owner, rho[:, None] * h)


def _neighbour(h: Tensor, index: Tensor) -> Tensor:
    """Features of each word's neighbour, zeros where there is none."""
    return h[index.clamp(min=0)] * (index >= 0)[:, None]


def _group_mean(h: Tensor, group: Tensor) -> Tensor:
    """Mean of the features over each word's group; ``group`` (n,) counts from 0."""
    if not len(h):
        return h
    count = int(group.max()) + 1
    total = h.new_zeros(count, h.shape[1]).index_add(0, group, h)
    number = h.new_zeros(count).index_add(0, group, h.new_ones(len(h)))
    return (total / number[:, None])[group]
