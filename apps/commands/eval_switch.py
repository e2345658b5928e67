"""``fovea eval switch``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from apps.output import Output
from backbone.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Command:
    """Calibrate when a robot should think: the fastest threshold on its probability of obs that keeps a stated risk.

    Needs evaluations (`fovea eval navigation`) of the same validation episodes: one with --strategy always, and one
    with --strategy threshold for each value tried. With confidence 1 - delta at most the share alpha of the episodes
    that always thinking solves is lost. Two more evaluations, of held-out homes, tell what is lost there.
    """

    always: Path  # output directory of the evaluation that always thinks
    runs: tuple[str, ...]  # THRESHOLD=DIR for every value tried
    alpha: float = 0.05  # share of losses allowed
    delta: float = 0.05  # how often the statement may be wrong
    held_out_always: Path | None = None  # the same two on other homes: always,
    held_out: Path | None = None  # and the chosen threshold
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Calibrate and print; exit code 1 if no threshold can be trusted."""
        from navigation.calibrate import from_runs, held_out, least_episodes
        from navigation.evaluate import read_rows

        folders = self.folders()
        _check(self.always, {"strategy": "always"})
        for threshold, folder in folders.items():
            _check(folder, {"strategy": "threshold", "threshold": threshold})
        runs = {threshold: read_rows(folder) for threshold, folder in folders.items()}
        found = from_runs(read_rows(self.always), runs, alpha=self.alpha, delta=self.delta)
        kept = None
        if self.held_out_always is not None and self.held_out is not None:
            kept = held_out(found, read_rows(self.held_out_always), read_rows(self.held_out))
        if not output.as_json:
            table = Table("threshold", "lost", "95 % interval", "p", "seconds", "passed")
            for row in found.candidates:
                risk = f"{row.risk.low:.3f} to {row.risk.high:.3f}"
                cells = (f"{row.threshold:g}", f"{row.risk.estimate:.3f}", risk, f"{row.p:.2g}", f"{row.seconds:.1f}")
                table.add_row(*cells, "yes" if row.passed else "no")
            table.caption = f"{found.n} episodes that always thinking solves in {found.always_seconds:.1f} s on average"
            output.console.print(table)
            output.console.print(
                f"threshold {found.threshold:g}: {found.seconds:.1f} s an episode"
                if found.threshold is not None
                else f"no threshold passed: think always (at least {least_episodes(self.alpha, self.delta)} solved "
                "episodes are needed for one to pass)"
            )
            if kept is not None:
                output.console.print(f"on held-out homes: lost {kept.risk}, seconds saved {kept.seconds}")
        output.json({**asdict(found), "held_out": asdict(kept) if kept is not None else None})
        return 0 if found.threshold is not None else 1

    def folders(self) -> dict[float, Path]:
        """The evaluation of each threshold; `ConfigError` for anything but different ``NUMBER=DIR``."""
        if (self.held_out is None) != (self.held_out_always is None):
            raise ConfigError("--held-out and --held-out-always go together: the chosen threshold, and always thinking")
        found: dict[float, Path] = {}
        for entry in self.runs:
            value, _, folder = entry.partition("=")
            try:
                threshold = float(value)
            except ValueError:
                raise ConfigError(f"--runs takes THRESHOLD=DIR, got {entry!r}") from None
            if not folder or threshold in found:
                raise ConfigError(f"--runs takes a different THRESHOLD=DIR each time, got {entry!r}")
            found[threshold] = Path(folder)
        return found


def _check(folder: Path, wanted: Mapping[str, str | float]) -> None:
    """Raise `ConfigError` if the agent of an evaluation did not decide by the rule it is said to."""
    file = folder / "config.json"
    if not file.is_file():
        raise ConfigError(f"{folder} holds no config.json; give the output directory of an evaluation")
    agent = json.loads(file.read_text("utf-8")).get("agent", {})
    for name, value in wanted.items():
        if agent.get(name) != value:
            raise ConfigError(
                f"the agent of {folder} had {name} {agent.get(name)!r}, not {value!r}; name the right run"
            )
