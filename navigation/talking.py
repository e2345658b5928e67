"""Conversations that grow turn by turn, several at once: what their agents ask of the model, and its answers.

An agent's step is a generator that yields requests and is sent answers, so that the steps of several episodes can be
driven together and requests of one kind share an inference. Over prefixes, where the engine keeps them, a turn encodes
what is new and nothing else; elsewhere all messages are sent at every turn. Both forms give the same tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from backbone.contracts import Stage
from backbone.local import LocalVLM
from backbone.vlm import VLM, Generation, Message, Prefix
from navigation.choosing import Choice, Chooser, Offer

T = TypeVar("T")


@dataclass(eq=False)
class Talk:
    """A conversation whose last turn waits for a reply: a prefix, or all of its messages."""

    prefix: Prefix | None = None
    messages: list[Message] = field(default_factory=list)
    length: int = 0  # tokens so far; over no prefix those at the last reply
    stages: list[Stage] = field(default_factory=list)

    def spent(self) -> tuple[Stage, ...]:
        """The stages since the last call."""
        stages, self.stages = tuple(self.stages), []
        return stages

    def note(self, stage: Stage) -> None:
        """Remember what was spent."""
        self.stages.append(stage)


@dataclass(frozen=True, eq=False)
class Begin:
    """A new conversation, whose last turn waits for a reply. The answer is a `Talk`."""

    messages: Sequence[Message]
    stage: str


@dataclass(frozen=True, eq=False)
class Add:
    """Further turns: the reply that was given, and a new turn that waits for one. No answer."""

    talk: Talk
    messages: Sequence[Message]
    stage: str


@dataclass(frozen=True, eq=False)
class Choose:
    """One of ``choices`` as the reply. The answer is a `Choice`, with log-probabilities as far as they are known."""

    talk: Talk
    choices: Sequence[str]
    temperature: float
    generator: np.random.Generator


@dataclass(frozen=True, eq=False)
class LogProbs:
    """The answer is a dict: log-probabilities among ``choices``, as far as they are known, without a reply."""

    talk: Talk
    choices: Sequence[str]


@dataclass(frozen=True, eq=False)
class Write:
    """A free reply of at most ``limit`` tokens. The answer is a `Generation`."""

    talk: Talk
    limit: int
    temperature: float
    seed: int
    on_text: Callable[[str], None] | None
    stage: str


Request = Begin | Add | Choose | LogProbs | Write
Asking = Generator[Request, Any, T]  # a step: it yields requests, is sent answers, and returns what it found


class Speaker:
    """A model that answers requests one by one, with all messages at every turn."""

    def __init__(self, vlm: VLM, adapter: str | None = None, cancel: threading.Event | None = None) -> None:
        """What every turn shares; ``cancel`` ends writing within one token."""
        self._vlm, self._adapter, self._cancel = vlm, adapter, cancel

    @staticmethod
    def of(vlm: VLM, adapter: str | None = None, cached: bool = True, cancel: threading.Event | None = None) -> Speaker:
        """The best form the engine allows; ``cached`` False encodes everything anew at every turn."""
        if isinstance(vlm, LocalVLM) and cached:
            return PrefixSpeaker(vlm, adapter, cancel)
        return Speaker(vlm, adapter, cancel)

    @property
    def knows_probabilities(self) -> bool:
        """Whether choices come with log-probabilities."""
        return False

    def drive(self, steps: Sequence[Asking[T]]) -> list[T]:
        """Carry out steps together, request by request; what each of them found.

        What a step raises is raised here, and the others are left where they are.
        """
        found: dict[int, T] = {}
        answers: dict[int, Any] = dict.fromkeys(range(len(steps)))
        while answers:
            asked: dict[int, Request] = {}
            for i, answer in answers.items():
                try:
                    asked[i] = steps[i].send(answer)
                except StopIteration as end:
                    found[i] = end.value
            answers = self._answers(asked)
        return [found[i] for i in range(len(steps))]

    def _answers(self, asked: dict[int, Request]) -> dict[int, Any]:
        groups: dict[tuple[Any, ...], dict[int, Any]] = {}
        for i, request in asked.items():
            groups.setdefault(_kind(request), {})[i] = request
        answers: dict[int, Any] = {}
        for group in groups.values():
            answers |= zip(group, self._answer(list(group.values())), strict=True)
        return {i: answers[i] for i in asked}

    def _answer(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Answers to requests of one kind."""
        ways: dict[type, Callable[[Sequence[Any]], Sequence[Any]]] = {
            Begin: self._begin,
            Add: self._add,
            Choose: self._choose,
            LogProbs: self._log_probs,
            Write: self._write,
        }
        return ways[type(requests[0])](requests)

    def _begin(self, asked: Sequence[Begin]) -> list[Talk]:
        return [Talk(messages=list(request.messages)) for request in asked]

    def _add(self, asked: Sequence[Add]) -> list[None]:
        for request in asked:
            request.talk.messages += request.messages
        return [None] * len(asked)

    def _choose(self, asked: Sequence[Choose]) -> list[Choice]:
        found = []
        for request in asked:
            seed = int(request.generator.integers(2**31)) if request.temperature > 0 else 0
            options = {"temperature": request.temperature, "seed": seed, "choices": tuple(request.choices)}
            generation = self._generate(request.talk, options, "choosing")
            found.append(Choice(generation.texts[0], {}, len(generation.token_ids[0]), generation.stage))
        return found

    def _log_probs(self, asked: Sequence[LogProbs]) -> list[dict[str, float]]:
        return [{} for _ in asked]

    def _write(self, asked: Sequence[Write]) -> list[Generation]:
        found = []
        for request in asked:
            tell = request.on_text
            options: dict[str, Any] = {"temperature": request.temperature, "max_new_tokens": request.limit}
            options |= {"seed": request.seed, "on_text": None if tell is None else _for_one(tell)}
            found.append(self._generate(request.talk, options, request.stage))
        return found

    def _generate(self, talk: Talk, options: dict[str, Any], stage: str) -> Generation:
        generation = self._vlm.generate(
            talk.messages, adapter=self._adapter, cancel=self._cancel, stage=stage, **options
        )
        talk.length = generation.stage.prompt_tokens + generation.stage.reused_tokens
        talk.note(generation.stage)
        return generation


class PrefixSpeaker(Speaker):
    """A model that keeps prefixes and answers requests of one kind together."""

    def __init__(self, vlm: LocalVLM, adapter: str | None = None, cancel: threading.Event | None = None) -> None:
        """See `Speaker`."""
        super().__init__(vlm, adapter, cancel)
        self._chooser = Chooser(vlm)

    @property
    def knows_probabilities(self) -> bool:
        """See `Speaker`."""
        return True

    def _begin(self, asked: Sequence[Begin]) -> list[Talk]:
        talks = [Talk() for _ in asked]
        prefixes = self._vlm.prefill_many([request.messages for request in asked], adapter=self._adapter)
        for talk, prefix, request in zip(talks, prefixes, asked, strict=True):
            _show(talk, prefix, request.stage)
        return talks

    def _add(self, asked: Sequence[Add]) -> list[None]:
        longer = self._vlm.extend_many(_prefixes(asked), [request.messages for request in asked])
        for prefix, request in zip(longer, asked, strict=True):
            _show(request.talk, prefix, request.stage)
        return [None] * len(asked)

    def _choose(self, asked: Sequence[Choose]) -> list[Choice]:
        offers = [Offer(request.choices, request.temperature, request.generator) for request in asked]
        found = self._chooser.choose_many(_prefixes(asked), offers, "choosing")
        for choice, request in zip(found, asked, strict=True):
            request.talk.note(choice.stage)
        return found

    def _log_probs(self, asked: Sequence[LogProbs]) -> list[dict[str, float]]:
        return self._chooser.log_probs_many(_prefixes(asked), [request.choices for request in asked])

    def _write(self, asked: Sequence[Write]) -> list[Generation]:
        first, tells = asked[0], [request.on_text for request in asked]

        def tell(i: int, piece: str) -> None:
            told = tells[i]
            if told is not None:
                told(piece)

        found = self._vlm.generate_many(
            _prefixes(asked),
            seeds=[request.seed for request in asked],
            temperature=first.temperature,
            max_new_tokens=first.limit,
            cancel=self._cancel,
            on_text=tell if any(tells) else None,
            stage=first.stage,
        )
        for generation, request in zip(found, asked, strict=True):
            request.talk.note(generation.stage)
        return found


def _kind(request: Request) -> tuple[Any, ...]:
    """Requests of one kind can be answered together."""
    if isinstance(request, Write):
        return Write, request.limit, request.temperature, request.stage
    return (type(request),)


def _for_one(tell: Callable[[str], None]) -> Callable[[int, str], None]:
    return lambda _, piece: tell(piece)


def _prefixes(asked: Sequence[Add | Choose | LogProbs | Write]) -> list[Prefix]:
    return [request.talk.prefix for request in asked if request.talk.prefix is not None]


def _show(talk: Talk, prefix: Prefix, stage: str) -> None:
    talk.prefix, talk.length = prefix, prefix.length
    talk.note(replace(prefix.stage, name=stage))
