"""Reproducing claims: each can fail, runs are shared and continued, and the result says where it was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps import claims, cli
from apps.claims import searching
from apps.claims.answering import easy_vqa as easy_vqa_claim
from apps.claims.claim import Claim, Finding, Workbench, circumstances
from apps.claims.costs import shared_samples
from apps.commands.common import ModelOptions
from backbone.contracts import Stage
from backbone.vlm import VLM, Generation
from tests.apps.fakes import ScriptedVLM

GENERATION = Generation(("",), ((1,),), ((0.0,),), (True,), Stage("generate"))


def compared(difference: float, ratio: float | None = 0.5) -> dict[str, Any]:
    estimate = {"estimate": difference, "low": difference - 0.1, "high": difference + 0.1, "n": 9}
    accuracy = {"a": 0.5 + difference, "b": 0.5, "n": 9, "mcnemar_p": 0.03, "difference": estimate}
    return {"accuracy": accuracy, "costs": {"tokens": {"ratio": ratio}}}


class Bench(Workbench):
    """A workbench whose runs are made up."""

    def run(self, method: str, regime: Any, rollouts: int = 1, sizes: tuple[int, ...] = ()) -> tuple[Path, Any]:
        spent = 300.0 if method == "sparc" else 4000.0
        return Path(f"{method}-{regime}-{rollouts}"), {"tokens": {"visual_tokens": spent}}

    @property
    def vlm(self) -> VLM:  # type: ignore[override]
        return ScriptedVLM(step_s=0.0)


BENCH = Bench(ModelOptions(), Path("runs"), 2)


def test_native_and_samples_claims_hold_and_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    for difference, holds in ((0.2, True), (0.19, False)):
        monkeypatch.setattr(searching, "_compared", lambda a, b, d=difference: compared(d))
        finding = searching.beats_native(BENCH, 256, 20.0)
        assert finding.holds is holds
        assert "n = 9" in finding.measured
    monkeypatch.setattr(searching, "_compared", lambda a, b: compared(-0.01 if "-8" in a.name else 0.1))
    assert not searching.samples_help(BENCH).holds


@pytest.mark.parametrize(("difference", "ratio", "holds"), [(0.1, 0.9, True), (0.0, 0.9, False), (0.1, 1.0, False)])
def test_zoom_claim_needs_both_accuracy_and_tokens(
    difference: float, ratio: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_compared", lambda a, b: compared(difference, ratio))
    assert searching.beats_zoom(BENCH).holds is holds


def test_token_claim_counts_the_tokens_of_the_full_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_compared", lambda a, b: compared(0.0))
    finding = searching.few_tokens(BENCH)
    assert finding.numbers["visual_tokens_full"] <= (8192 // 32) ** 2
    assert finding.holds == (finding.numbers["visual_tokens_full"] >= 100 * 300.0)
    monkeypatch.setattr(searching, "_compared", lambda a, b: compared(-0.01))
    assert not searching.few_tokens(BENCH).holds


def test_the_time_of_samples_is_measured_and_can_fail() -> None:
    class Slow(ScriptedVLM):
        def generate(self, prompt: Any, *, n: int = 1, **rest: Any) -> Any:
            import time

            time.sleep(0.01 * n)
            return super().generate(prompt, n=n, **rest)

    bench = Workbench(ModelOptions(), Path("runs"), 2)
    bench.__dict__["vlm"] = Slow(step_s=0.0)
    finding = shared_samples(bench)
    assert not finding.holds
    assert len(finding.numbers["seconds"]["8"]) == 5


@pytest.mark.parametrize(("answer", "holds"), [("yes", False), (None, True)])
def test_easy_vqa_is_scored_over_every_question(
    answer: str | None, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backbone.curriculum import easy_vqa

    asked = tuple(easy_vqa.EasyQuestion(f"{i}?", "yes" if i % 2 else "circle", i) for i in range(130))
    monkeypatch.setattr(easy_vqa, "questions", lambda split: asked if split == "test" else ())
    monkeypatch.setattr(easy_vqa, "picture", lambda split, number: np.zeros((8, 8, 3), np.uint8))
    truth = {question.question: question.answer for question in asked}

    class Batching(ScriptedVLM):
        def generate_batch(self, prompts: Any, **_: Any) -> Any:
            said = [part["text"] for (message,) in prompts for part in message["content"] if part["type"] == "text"]
            return [replace(GENERATION, texts=((answer or truth[text]).capitalize(),)) for text in said]

    bench = Workbench(ModelOptions(), Path("runs"), 2)
    bench.__dict__["vlm"] = Batching(step_s=0.0)
    finding = easy_vqa_claim(bench)
    assert finding.holds is holds
    assert (finding.numbers["n"], finding.numbers["estimate"]) == (130, 1.0 if holds else 0.5)


def test_runs_are_continued(tmp_path: Path) -> None:
    bench = Workbench(ModelOptions(), tmp_path, 2, progress=False)
    vlm = ScriptedVLM(step_s=0.0)
    bench.__dict__["vlm"] = vlm
    folder, first = bench.run("sparc", 256, 1, sizes=(256,))
    vlm.answer = "something else"
    assert bench.run("sparc", 256, 1, sizes=(256,)) == (folder, first)
    assert first["n"]["scored"] == 2


def test_reproduce_prints_writes_and_fails_with_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {
        name: Claim(name, f"{name} is so", ">= 1", lambda _, good=good: Finding(good, "measured 2 (1 to 3)", {"x": 2}))
        for name, good in (("good", True), ("bad", False))
    }
    monkeypatch.setattr(claims, "CLAIMS", made)
    assert cli.main(["reproduce", "good", "--output", str(tmp_path)]) == 0
    assert "holds  good: good is so (>= 1)" in capsys.readouterr().out
    assert cli.main(["reproduce", "--output", str(tmp_path), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "results.json").read_text()) == record
    assert [record["claims"][name]["holds"] for name in ("good", "bad")] == [True, False]
    assert cli.main(["reproduce", "goud"]) == 2
    assert "did you mean 'good'?" in capsys.readouterr().err


def test_circumstances_name_the_machine() -> None:
    found = circumstances()
    assert "cores" in found["processor"]
    assert found["torch"]
    assert found["commit"]
