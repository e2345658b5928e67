"""A conversation that grows turn by turn, over one prefix where the engine keeps prefixes, and plainly elsewhere.

Both forms give the same tokens. Over a prefix a turn encodes what is new and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from backbone.contracts import Stage
from backbone.local import LocalVLM
from backbone.vlm import VLM, Generation, Message, Prefix
from navigation.choosing import Choice, Chooser


@dataclass(frozen=True)
class Speaker:
    """A model with what every turn of it shares. ``cached`` False encodes everything anew at every turn."""

    vlm: VLM
    adapter: str | None = None
    cached: bool = True
    cancel: threading.Event | None = None
    chooser: Chooser | None = None

    @classmethod
    def of(
        cls, vlm: VLM, adapter: str | None = None, cached: bool = True, cancel: threading.Event | None = None
    ) -> Speaker:
        """The best form the engine allows."""
        return cls(vlm, adapter, cached, cancel, Chooser(vlm) if isinstance(vlm, LocalVLM) and cached else None)

    def begin(self, messages: Sequence[Message], stage: str) -> Talk:
        """A new conversation, whose last turn waits for a reply."""
        if self.chooser is not None:
            return PrefixTalk(self, self.chooser, messages, stage)
        return PlainTalk(self, messages, stage)


class Talk(Protocol):
    """A conversation whose last turn waits for a reply."""

    stages: list[Stage]  # what was spent since `spent` was last called

    @property
    def length(self) -> int:
        """Tokens so far; 0 where that is not known."""
        ...

    def add(self, messages: Sequence[Message], stage: str) -> None:
        """Add turns: the reply that was given, and a new turn that waits for one."""
        ...

    def choose(self, choices: Sequence[str], temperature: float, generator: np.random.Generator) -> Choice:
        """One of ``choices`` as the reply; log-probabilities as far as they are known."""
        ...

    def log_probs(self, choices: Sequence[str]) -> dict[str, float]:
        """Log-probabilities among ``choices``, as far as they are known, without a reply."""
        ...

    def write(
        self, limit: int, temperature: float, seed: int, on_text: Callable[[str], None] | None, stage: str
    ) -> Generation:
        """A free reply of at most ``limit`` tokens."""
        ...

    def spent(self) -> tuple[Stage, ...]:
        """The stages since the last call."""
        ...


class _Counting:
    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def spent(self) -> tuple[Stage, ...]:
        """The stages since the last call."""
        stages, self.stages = tuple(self.stages), []
        return stages


class PrefixTalk(_Counting):
    """Over one prefix, which grows."""

    def __init__(self, speaker: Speaker, chooser: Chooser, messages: Sequence[Message], stage: str) -> None:
        """Encode the first turns."""
        super().__init__()
        self._speaker, self._chooser = speaker, chooser
        self.prefix: Prefix = speaker.vlm.prefill(messages, adapter=speaker.adapter)
        self.stages.append(replace(self.prefix.stage, name=stage))

    @property
    def length(self) -> int:
        """Tokens so far."""
        return self.prefix.length

    def add(self, messages: Sequence[Message], stage: str) -> None:
        """See `Talk.add`."""
        self.prefix = self._speaker.vlm.extend(self.prefix, messages)
        self.stages.append(replace(self.prefix.stage, name=stage))

    def choose(self, choices: Sequence[str], temperature: float, generator: np.random.Generator) -> Choice:
        """See `Talk.choose`."""
        choice = self._chooser.choose(
            self.prefix, choices, temperature=temperature, generator=generator, stage="choosing"
        )
        self.stages.append(choice.stage)
        return choice

    def log_probs(self, choices: Sequence[str]) -> dict[str, float]:
        """See `Talk.log_probs`; costs one matrix product."""
        return self._chooser.log_probs(self.prefix, choices)

    def write(
        self, limit: int, temperature: float, seed: int, on_text: Callable[[str], None] | None, stage: str
    ) -> Generation:
        """See `Talk.write`."""
        return _write(self._speaker, self.prefix, self.stages, (limit, temperature, seed), on_text, stage)


class PlainTalk(_Counting):
    """All messages at every turn: for engines that keep no prefixes, and the yardstick of the other form."""

    def __init__(self, speaker: Speaker, messages: Sequence[Message], stage: str) -> None:
        """Nothing is encoded before a reply is asked for."""
        super().__init__()
        self._speaker, self._messages = speaker, list(messages)
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens at the last reply."""
        return self._length

    def add(self, messages: Sequence[Message], stage: str) -> None:
        """See `Talk.add`."""
        self._messages += messages

    def choose(self, choices: Sequence[str], temperature: float, generator: np.random.Generator) -> Choice:
        """See `Talk.choose`; no probabilities are known."""
        generation = self._speaker.vlm.generate(
            self._messages,
            temperature=temperature,
            seed=int(generator.integers(2**31)) if temperature > 0 else 0,
            choices=tuple(choices),
            adapter=self._speaker.adapter,
            cancel=self._speaker.cancel,
            stage="choosing",
        )
        self._note(generation.stage)
        return Choice(generation.texts[0], {}, len(generation.token_ids[0]), generation.stage)

    def log_probs(self, choices: Sequence[str]) -> dict[str, float]:
        """None are known."""
        return {}

    def write(
        self, limit: int, temperature: float, seed: int, on_text: Callable[[str], None] | None, stage: str
    ) -> Generation:
        """See `Talk.write`."""
        settings = (limit, temperature, seed)
        generation = _write(self._speaker, self._messages, [], settings, on_text, stage)
        self._note(generation.stage)
        return generation

    def _note(self, stage: Stage) -> None:
        self._length = stage.prompt_tokens + stage.reused_tokens
        self.stages.append(stage)


def _write(
    speaker: Speaker,
    prompt: Sequence[Message] | Prefix,
    stages: list[Stage],
    settings: tuple[int, float, int],
    on_text: Callable[[str], None] | None,
    stage: str,
) -> Generation:
    limit, temperature, seed = settings
    generation = speaker.vlm.generate(
        prompt,
        temperature=temperature,
        max_new_tokens=limit,
        seed=seed,
        adapter=speaker.adapter,
        cancel=speaker.cancel,
        on_text=None if on_text is None else lambda _, piece: on_text(piece),
        stage=stage,
    )
    stages.append(generation.stage)
    return generation
