"""What a chat completion says, put together from its streamed events (or from one whole answer)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backbone.errors import RemoteError

STOPPED = "stop"


@dataclass
class Sample:
    """One continuation so far. ``pieces`` are the bytes of each token, with its log-probability, where given."""

    text: str = ""
    pieces: list[bytes] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    finish: str | None = None

    def content_tokens(self) -> int:
        """How many of the tokens make up the text: servers also list the end token, or those of a stop string."""
        count, text = len(self.pieces), self.text.encode()
        if not count:
            return len(self.token_ids)
        if self.finish != STOPPED:
            return count
        while count and b"".join(self.pieces[: count - 1]).startswith(text):
            count -= 1
        # Special tokens inside the text are not part of it, so that the rule above finds no match; the end token is.
        if (
            count == len(self.pieces)
            and count
            and self.pieces[-1].startswith(b"<|")
            and self.pieces[-1].endswith(b"|>")
        ):
            count -= 1
        return count


class Reply:
    """Collects one request's events into ``n`` samples and the server's token counts."""

    def __init__(self, n: int, error: Callable[[str], RemoteError]) -> None:
        """``error`` makes a RemoteError that names the server."""
        self.samples = tuple(Sample() for _ in range(n))
        self.usage: dict[str, Any] = {}
        self.first_token_ms = 0.0
        self._error = error

    def add(self, milliseconds: float, event: dict[str, Any]) -> list[tuple[int, str]]:
        """Take one event; returns the new text as ``(sample, piece)``. Raises `RemoteError` for a malformed one."""
        if isinstance(event.get("usage"), dict):
            self.usage = event["usage"]
        choices = event.get("choices", [])
        if not isinstance(choices, list):
            raise self._error(f"chat completion: expected a list of choices, got {type(choices).__name__}")
        return [piece for choice in choices for piece in self._add_choice(milliseconds, choice)]

    def check_complete(self) -> None:
        """Raise `RemoteError` unless every sample ended for a stated reason."""
        missing = [i for i, sample in enumerate(self.samples) if sample.finish is None]
        if missing:
            raise self._error(
                f"asked for n = {len(self.samples)} samples, got {len(self.samples) - len(missing)} finished ones "
                f"(missing {missing}); does this server support n?"
            )

    def count(self, key: str) -> int | None:
        """A token count of the server's usage record, or ``None`` where it gives none."""
        value = self.usage.get(key)
        return value if isinstance(value, int) and value >= 0 else None

    def cached_tokens(self) -> int:
        """Prompt tokens that the server took from its own prefix cache; 0 where it does not say."""
        details = self.usage.get("prompt_tokens_details")
        value = details.get("cached_tokens") if isinstance(details, dict) else 0
        return value if isinstance(value, int) and value > 0 else 0

    def _add_choice(self, milliseconds: float, choice: Any) -> list[tuple[int, str]]:
        index = choice.get("index", 0) if isinstance(choice, dict) else None
        delta = choice.get("delta", choice.get("message")) if isinstance(choice, dict) else None
        if not isinstance(index, int) or not isinstance(delta, dict):
            raise self._error(
                f"chat completion: a choice needs an index and a delta or message, got {str(choice)[:200]}"
            )
        if not 0 <= index < len(self.samples):
            raise self._error(f"asked for n = {len(self.samples)} samples, got one numbered {index}")
        sample = self.samples[index]
        piece = delta.get("content") or ""
        if not isinstance(piece, str):
            raise self._error(f"chat completion: expected text as content, got {type(piece).__name__}")
        self._add_tokens(sample, choice)
        sample.text += piece
        sample.finish = choice.get("finish_reason") or sample.finish
        if (piece or sample.pieces) and not self.first_token_ms:
            self.first_token_ms = milliseconds
        return [(index, piece)] if piece else []

    def _add_tokens(self, sample: Sample, choice: dict[str, Any]) -> None:
        log_probs = (choice.get("logprobs") or {}).get("content") or []
        try:
            for token in log_probs:
                raw = token.get("bytes")
                sample.pieces.append(token["token"].encode() if raw is None else bytes(raw))
                sample.log_probs.append(float(token["logprob"]))
            sample.token_ids += [int(i) for i in choice.get("token_ids") or []]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._error(f"chat completion: malformed logprobs or token_ids: {str(choice)[:200]}") from None
