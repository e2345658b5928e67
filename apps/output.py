"""Where a command writes: people's text through rich, or with ``--json`` one JSON value on stdout and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console


class Output:
    """``console`` is for people: stdout, or stderr when stdout is reserved for JSON."""

    def __init__(self, as_json: bool, stdout: TextIO | None = None) -> None:
        """Write to ``stdout``, by default the process's own; ``as_json`` reserves it for `json`."""
        self.as_json = as_json
        self._stdout = stdout or sys.stdout
        self.console = Console(file=sys.stderr if as_json else self._stdout, highlight=False, soft_wrap=True)

    def json(self, value: Mapping[str, Any]) -> None:
        """Write the result as JSON on stdout if it was asked for; NaN and infinities are refused by `json.dumps`."""
        if self.as_json:
            self._stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
            self._stdout.flush()
