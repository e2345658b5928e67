"""Records, training and evaluation of the reader on the command line: made, gone on with, scored, compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from apps import cli
from apps.commands import train_docparse
from backbone.training import TrainingResult
from docparse.benchmarks import load_benchmark
from docparse.config import presets
from docparse.data import load_document
from docparse.documents import Limits, TextEmbedder
from docparse.item_reader import ItemReader, evaluate_items
from docparse.pipeline import DocumentAnswer, DocumentReader, DocumentSession
from docparse.results import compared, make_result, read_rows
from docparse.scoring import Prediction, Row
from tests.docparse.untrained import untrained_folder, untrained_reader


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for split, n in (("train", 3), ("held_out", 2)):
        assert cli.main(["data", "records", "--split", split, "--n", str(n), "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_folder(tmp_path_factory.mktemp("weights"))


def run_json(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    got = cli.main([*map(str, words), "--json"])
    printed = capsys.readouterr()
    assert got == code, printed.err
    return json.loads(printed.out)


def test_records_are_made_once_and_gone_on_with(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train-0000001.npz").write_bytes((records / "train-0000001.npz").read_bytes())
    made = run_json(capsys, "data", "records", "--n", 2, "--seed", 0, "--output", tmp_path)
    assert (made["records"], made["new"]) == (2, 1)
    one, other = (load_document(folder / "train-0000000.npz") for folder in (records, tmp_path))
    assert [e.question for e in one] == [e.question for e in other]
    assert cli.main(["data", "records", "--n", "0"]) == cli.USAGE


def test_training_leaves_a_reader_and_goes_on(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["train", "docparse", "--records", records, "--output", tmp_path / "run", "--questions-per-step", 2]
    line += ["--most-words", 5000, "--threads", 1]
    first = run_json(capsys, *line, "--steps", 2)
    assert first["result"]["steps"] == 2
    weights = Path(first["model"]) / "network.safetensors"
    before = weights.read_bytes()
    assert run_json(capsys, *line, "--steps", 3)["result"]["steps"] == 3
    assert weights.read_bytes() != before
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert "resume" in log
    assert DocumentReader.load(Path(first["model"])).config.flow.levels == (8, 16, 32, 64)
    capsys.readouterr()
    for other in (["--preset", "kl"], ["--method", "detector"]):
        assert cli.main([str(word) for word in (*line, "--steps", 3, *other)]) == cli.USAGE
        assert "has a training of another reader" in " ".join(capsys.readouterr().err.split())
    assert DocumentReader.load(Path(first["model"])).config.flow.geometry == "wasserstein"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--records", "nowhere"], "no such folder"),
        (["--records", "HERE", "--preset", "kl", "--reader.settled", "0.4"], "exclude each other"),
        (["--records", "HERE", "--steps", "0"], "must be positive"),
        (["--preset", "kl"], "--records"),
    ],
)
def test_impossible_trainings_are_wrong_usage(
    line: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", "docparse", *[str(tmp_path) if w == "HERE" else w for w in line]]) == cli.USAGE
    assert words in capsys.readouterr().err


def test_a_preset_is_the_rival_that_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def train(config: Any) -> TrainingResult:
        seen.append(config)
        return TrainingResult(3, 1.5, {"loss": 0.25}, tmp_path / "step-3", "SIGINT")

    monkeypatch.setattr(train_docparse, "train_reader", train)
    line = ["train", "docparse", "--records", tmp_path, "--preset", "one-step", "--output", tmp_path / "run"]
    record = run_json(capsys, *line, code=130)
    assert seen[0].reader.flow.levels == (64,)
    assert record["config"]["reader"]["flow"]["levels"] == [64]
    assert record["result"]["stopped"] == "SIGINT"


def test_records_are_scored_with_settings_summary_and_rows(
    records: Path, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["eval", "docparse", records, "--weights", weights, "--output", tmp_path, "--resamples", 200]
    result = run_json(capsys, *line)
    questions = sum(len(load_document(path)) for path in records.glob("held_out-*.npz"))
    assert result["summary"]["n"] == {"expected": questions, "scored": questions, "failed": 0, "missing": 0}
    assert len(result["rows"]) == questions
    assert {"iou", "anls", "page", "abstained"} <= result["summary"]["metrics"].keys()
    assert result["reader"]["config"]["flow"]["levels"] == [8, 16, 32, 64]
    assert len(result["weights"]["sha256"]) == 64
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert [row.to_dict() for row in read_rows(tmp_path / "result.json")] == [
        {**row, "regions": _places(row["regions"]), "truth": _places(row["truth"]), "scores": tuple(row["scores"])}
        for row in result["rows"]
    ]
    part = run_json(capsys, *line, "--limit", 3, "--distances")
    assert {"w2_0", "w2_3"} <= part["summary"]["metrics"].keys()
    assert part["summary"]["n"]["expected"] == 3
    whole = {row["id"]: row["answer"] for row in result["rows"]}
    assert all(whole[row["id"]] == row["answer"] for row in part["rows"])


def _places(values: list[Any]) -> tuple[Any, ...]:
    return tuple((page, tuple(box)) for page, box in values)


def test_runs_are_compared_question_by_question(
    records: Path, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["eval", "docparse", records, "--resamples", 200, "--limit", 6]
    match = run_json(capsys, *line, "--method", "match", "--output", tmp_path / "match")
    assert "weights" not in match
    against = tmp_path / "match" / "result.json"
    flow = [*line, "--weights", weights, "--output", tmp_path / "flow", "--against", against]
    result = run_json(capsys, *flow)["against"]
    written = json.loads((tmp_path / "flow" / "result.json").read_text())
    own = {row["id"]: row["values"]["anls"] for row in written["rows"]}
    other = {row["id"]: row["values"]["anls"] for row in match["rows"]}
    assert result["n"] == 6
    assert result["all"]["anls"]["estimate"] == pytest.approx(np.mean([own[key] - other[key] for key in own]))
    assert cli.main([*map(str, flow)]) == 0
    printed = capsys.readouterr().out
    assert "minus" in printed
    assert "exact_match" in printed


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["nowhere"], cli.USAGE, "neither a folder of records nor a benchmark"),
        (["docvqa"], cli.USAGE, "--path"),
        (["docvqa", "--path", "x", "--method", "match"], cli.USAGE, "need a folder of records"),
        (["RECORDS", "--path", "x"], cli.USAGE, "belongs to a benchmark"),
        (["RECORDS", "--limit", "0"], cli.USAGE, "--limit"),
        (["RECORDS", "--budget", "0"], cli.USAGE, "--budget needs 1 particle"),
        (["docvqa", "--path", "x", "--budget", "9"], cli.USAGE, "--budget need a folder of records"),
        (["RECORDS", "--weights", "nowhere"], cli.USAGE, "holds no config.json"),
        (["RECORDS", "--against", "nowhere.json", "--method", "match"], cli.FAILED, "cannot be read"),
        (["RECORDS", "--against", "BROKEN", "--method", "match"], cli.FAILED, "is no result of"),
        (["EMPTY", "--method", "match"], cli.FAILED, "holds no records"),
    ],
)
def test_impossible_evaluations_say_why(
    line: list[str], code: int, words: str, records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.json").write_text("[]")
    (tmp_path / "empty").mkdir()
    names = {"RECORDS": records, "BROKEN": tmp_path / "broken.json", "EMPTY": tmp_path / "empty"}
    given = [str(names.get(word, word)) for word in line]
    assert cli.main(["eval", "docparse", *given, "--output", str(tmp_path / "out")]) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out" / "result.json").exists()


# benchmarks --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    line = ["data", "documents", "--n", "1", "--seed", "17", "--scan", "none", "--pages", "1", "--output", str(folder)]
    assert cli.main(line) == 0
    return folder


def test_a_benchmark_is_scored_through_its_own_files(
    generated: Path, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["eval", "docparse", "generated", "--path", generated, "--weights", weights, "--output", tmp_path]
    result = run_json(capsys, *line, "--resamples", 200)
    count = result["summary"]["n"]
    assert count["scored"] == count["expected"] > 3
    assert result["limits"]["pages"] == 200
    assert {"iou", "pointing", "mass", "anls"} <= result["summary"]["metrics"].keys()
    assert result["skipped"] == []


def test_boxes_come_back_in_the_pixels_of_the_benchmark(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader sees the PDF at 150 dpi; an answer on all words of the truth must overlap the truth's own box."""
    benchmark = load_benchmark("generated", generated)
    item = next(i for i in benchmark.items if i.evidence and len(i.evidence) == 1)
    truth = item.truth()
    assert truth.evidence is not None
    reader = ItemReader(untrained_reader())
    session = reader._session(item)
    page = session.pages[0]
    width, height = truth.sizes[0]
    assert abs(page.width / width - 1) > 0.02, "the test needs pages of another resolution"
    _, (x0, y0, x1, y1) = truth.evidence[0]
    sx, sy = page.width / width, page.height / height
    asked: list[str] = []

    def ask(self: DocumentSession, question: str, **_: Any) -> DocumentAnswer:
        asked.append(question)
        honest = honest_ask(self, question)
        box = replace(honest.evidence[0].box, x0=x0 * sx, y0=y0 * sy, x1=x1 * sx, y1=y1 * sy)
        return replace(honest, evidence=(replace(honest.evidence[0], page=0, box=box),))

    honest_ask = DocumentSession.ask
    monkeypatch.setattr(DocumentSession, "ask", ask)
    row = evaluate_items(reader, [item])[0]
    assert asked == [item.question]
    assert row.values["iou"] == pytest.approx(1.0, abs=1e-6)
    prediction = reader(item, truth)
    assert prediction.law is not None
    shown = honest_ask(session, item.question).steps[-1].boxes  # in pixels of the page as read
    np.testing.assert_allclose(prediction.law[1] * (sx, sy, sx, sy), shown, atol=1e-6)


def test_pictures_are_read_where_a_benchmark_has_no_file(generated: Path) -> None:
    item = replace(load_benchmark("generated", generated).items[0], path=None)
    reader = ItemReader(untrained_reader(), Limits(ocr=False))
    session = reader._session(item)
    assert (session.pages[0].width, session.pages[0].height) == item.pages[0].size()
    assert reader._session(replace(item, question="Another?")) is session, "the document is read again"
    row = evaluate_items(reader, [item])[0]
    assert row.status == "scored"
    assert row.answer is None


def test_an_item_that_fails_is_a_row(generated: Path) -> None:
    items = load_benchmark("generated", generated).items[:2]

    def read(item: Any, truth: Any) -> Prediction:
        if item is items[0]:
            raise ValueError("lost")
        return Prediction(None)

    rows = evaluate_items(read, items)
    assert [row.status for row in rows] == ["failed", "scored"]
    assert rows[0].error == "ValueError: lost"
    few = ItemReader(untrained_reader(), Limits(pages=1))
    pages = items[0].pages * 2
    assert "more than the limit of 1" in evaluate_items(few, [replace(items[0], path=None, pages=pages)])[0].error


def test_comparing_other_questions_is_refused(tmp_path: Path) -> None:
    rows = [Row("a", "", "", "scored", {"anls": 1.0})]
    (tmp_path / "r.json").write_text(json.dumps(make_result(rows, 1, {}, 100)))
    assert compared(rows, tmp_path / "r.json", 100)["all"]["anls"]["estimate"] == 0
    with pytest.raises(ValueError, match="different items"):
        compared([replace(rows[0], id="b")], tmp_path / "r.json", 100)


def test_the_embedder_of_records_is_the_readers(weights: Path) -> None:
    assert isinstance(DocumentReader.load(weights).embedder, TextEmbedder)


def test_every_preset_can_be_trained_by_name() -> None:
    assert set(get_args(train_docparse.Preset)) == set(presets())


def test_patches_are_asked_for_by_fields_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "docparse", "--help"]) == cli.DONE
    assert "reader.patches:" not in capsys.readouterr().out


def test_a_folder_without_records_names_the_command_that_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    line = ["train", "docparse", "--records", str(tmp_path / "empty"), "--output", str(tmp_path / "run")]
    assert cli.main(line) == cli.FAILED
    assert f"fovea data records --output {tmp_path / 'empty'}" in " ".join(capsys.readouterr().err.split())
