"""The settings of a generation, checked, and the request that asks a given kind of server for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backbone.errors import ConfigError
from backbone.remote.choices import check_choices, constraint

# Servers that apply a model's own generation_config.json (top_k, repetition penalty) unless told otherwise.
OWN_SAMPLING = ("vllm", "sglang")


@dataclass(frozen=True)
class Request:
    """What `backbone.vlm.VLM.generate` is asked for, without prompt and call-backs."""

    n: int = 1
    temperature: float = 0.0
    max_new_tokens: int = 128
    stop: Sequence[str] = ()
    choices: Sequence[str] | None = None
    adapter: str | None = None
    seed: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.n < 1 or self.max_new_tokens < 1:
            raise ConfigError(
                f"generate: n and max_new_tokens must be at least 1, got {self.n} and {self.max_new_tokens}"
            )
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ConfigError(f"generate: temperature must be finite and not negative, got {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"generate: top_p must lie above 0 and at most at 1, got {self.top_p}")
        if isinstance(self.stop, str) or any(not isinstance(s, str) or not s for s in self.stop):
            raise ConfigError(f"generate: stop must be a list of non-empty strings, got {self.stop!r}")
        if self.choices is not None:
            check_choices(self.choices)
            if self.stop:
                raise ConfigError("generate: stop strings and choices contradict each other; give one of them")

    @property
    def asked(self) -> int:
        """Samples to ask the server for: greedy ones are all equal, and vLLM refuses more than one of them."""
        return self.n if self.temperature > 0 else 1

    def body(self, model: str, server: str) -> dict[str, Any]:
        """The chat completion request without its messages; ``server`` is what the model list calls ``owned_by``."""
        body: dict[str, Any] = {
            "model": model,
            "n": self.asked,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_new_tokens,
            "logprobs": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.temperature > 0:
            body["seed"] = self.seed
        if self.stop:
            body["stop"] = list(self.stop)
        if server in OWN_SAMPLING:  # plain sampling as with local weights, not the model's recommended mix
            body |= {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
        if server == "vllm":
            body["return_token_ids"] = True
        if self.choices is not None:
            body |= constraint(self.choices, server)
            # The answer is a whole choice: a token is at least one byte, and the end token comes after it.
            body["max_tokens"] = max(self.max_new_tokens, 1 + max(len(c.encode()) for c in self.choices))
        return body
