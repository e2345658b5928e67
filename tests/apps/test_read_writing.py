"""`fovea read --model`: a served model words the answer; nano, which cannot read, is refused early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps import cli
from docparse import pipeline
from tests.backbone.chat_server import MODEL, serving
from tests.docparse.making_documents import pdf, write
from tests.docparse.untrained import untrained_folder

QUESTION = "What is the total amount?"


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    path = tmp_path / "invoice.pdf"
    path.write_bytes(pdf(lambda canvas: write(canvas, "Total amount $12.50", 40, 200) and None))
    return path


def test_a_served_model_words_the_answer(invoice: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = untrained_folder(tmp_path / "weights")
    with serving(reply="twelve fifty") as server:
        model = f"{server.url}#{MODEL}"
        code = cli.main(["read", str(invoice), QUESTION, "--weights", str(weights), "--model", model, "--json"])
        assert len(server.images) >= 1
    printed = capsys.readouterr()
    assert code == 0, printed.err
    record = json.loads(printed.out)
    assert (record["answer"], record["found"]) == ("twelve fifty", True)
    assert record["config"]["model"] == model
    assert record["config"]["reader"]["answerer"] == "generative"
    assert record["ledger"]["stages"][-1]["name"] == "writing"


@pytest.mark.parametrize(
    ("given", "words"),
    [(["--model", "nano"], "nano cannot read"), (["--model", "x/y", "--device", "abacus"], "unknown device 'abacus'")],
)
def test_a_model_that_cannot_do_it_is_told_early(
    given: list[str], words: str, invoice: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.DocumentReader, "load", lambda *_: pytest.fail("the reader was loaded"))
    assert cli.main(["read", str(invoice), QUESTION, *given]) == cli.USAGE
    assert words in capsys.readouterr().err
