"""Constrained output: how a request asks for one of several strings, and how an answer is read when it cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backbone.errors import ConfigError, RemoteError

_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()/-])")
_ENDS = ".,;:)"  # what may follow a choice in an unconstrained answer, besides white space


def check_choices(choices: Sequence[str]) -> None:
    """Raise `ConfigError` for no choices, an empty one, or two that are equal when stripped."""
    if isinstance(choices, str) or not choices or any(not isinstance(c, str) or not c.strip() for c in choices):
        raise ConfigError(f"choices: expected non-empty strings, got {choices!r}")
    if len({c.strip() for c in choices}) != len(choices):
        raise ConfigError(f"choices: two of them are equal: {list(choices)}")


def constraint(choices: Sequence[str], server: str) -> dict[str, Any]:
    """The request fields by which a kind of server (its models' ``owned_by``) constrains output to ``choices``.

    vLLM has read ``structured_outputs`` since 0.10.2 and ``guided_choice`` until 0.11; each version ignores the other.
    SGLang takes a regular expression. Nothing is known to constrain any other server: its answer is matched instead.
    """
    if server == "vllm":
        return {"structured_outputs": {"choice": list(choices)}, "guided_choice": list(choices)}
    if server == "sglang":
        return {"regex": "(" + "|".join(_SPECIAL.sub(r"\\\1", choice) for choice in choices) + ")"}
    return {}


def match(text: str, choices: Sequence[str], where: str) -> str:
    """The choice that an answer names: it equals one but for white space, or begins with one set off by punctuation.

    ``B.``, ``B) a dog`` and ``B`` name B; ``A dog`` does not name A. Of several that fit, the longest counts.

    Raises:
        RemoteError: the answer is none of the choices.
    """
    answer = text.strip()
    for choice in sorted(choices, key=len, reverse=True):
        rest = answer.removeprefix(choice.strip())
        if answer.startswith(choice.strip()) and (not rest or rest[0] in _ENDS or rest[0] == "\n"):
            return choice
    raise RemoteError(
        f"{where}: the answer {text[:200]!r} is none of the choices {list(choices)}; serve the model with an engine "
        "that constrains output (vLLM, SGLang), or ask without choices"
    )
