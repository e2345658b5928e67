"""The claims about many pages and two looks: each follows from the rows, and can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.claims import long_documents as claims
from apps.claims.claim import Workbench
from apps.commands.common import ModelOptions
from docparse.scoring import Row

BENCH = Workbench(ModelOptions(), Path("runs"), 2)


def rows(iou: float, kinds: tuple[str, ...] = ("value",), took: tuple[float, float] = (5.0, 100.0)) -> list[Row]:
    values = {"iou": iou, "milliseconds": took[0], "particles": took[1]}
    return [Row(f"d{d}/{k}", kind, "<0.5 %", "scored", dict(values)) for d in range(6) for k, kind in enumerate(kinds)]


@pytest.mark.parametrize(("cells", "match", "holds"), [(0.1, 0.65, True), (0.62, 0.1, False), (0.1, 0.7, False)])
def test_the_budget_claim_needs_both_rivals_beaten_and_the_grid_by_ten_points(
    cells: float, match: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"flow": rows(0.7), "one-step": rows(cells), "one-step+match": rows(match)}
    monkeypatch.setattr(claims, "_long", lambda name, folder: made[name])
    finding = claims.beats_within_budget(BENCH)
    assert finding.holds is holds
    assert "n = 6" in finding.measured


@pytest.mark.parametrize(("all_words", "holds"), [(0.5, True), (0.6, False), (0.7, False)])
def test_the_free_claim_names_what_a_rival_takes(
    all_words: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: rows(0.6) for name in ("flow", "kl", "detector")}
    made["one-step-all"] = rows(all_words, took=(800.0, 7000.0))
    monkeypatch.setattr(claims, "_long", lambda name, folder: made[name])
    finding = claims.beats_all_words(BENCH)
    assert finding.holds is holds
    assert "800 ms, 2e+02 MB" in finding.measured
    assert finding.numbers["one-step-all"]["particles"] == 7000


@pytest.mark.parametrize(("rival", "holds"), [(0.2, True), (0.65, False)])
def test_the_claim_of_two_looks_is_about_links(rival: float, holds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("link", "row_near", "record", "value")
    monkeypatch.setattr(claims, "_hops", lambda name, folder: rows(0.7 if name == "looks" else rival, kinds))
    finding = claims.takes_two_looks(BENCH)
    assert finding.holds is holds
    assert finding.numbers["looks/detector"]["other"]["estimate"] == pytest.approx(0.7 - rival)


def test_long_examples_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LONG_DOCUMENTS", 2)
    examples = claims._long_examples(tmp_path)
    assert len({e.name.split("/")[0] for e in examples}) == 2
    assert all(len(e.words.sizes) >= claims.FEWEST_PAGES and e.truth.answers for e in examples)
