"""Names that a user gave and nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from backbone.errors import ConfigError


def no_such(kind: str, name: str, known: Iterable[str], others: str = "") -> ConfigError:
    """The error for ``name``, with all that are ``known`` and the closest of them; ``others`` says what else may be."""
    names = [*known]
    close = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ConfigError(f"no {kind} {name!r}; there are: {', '.join(names)}{'; ' if others else ''}{others}{hint}")
