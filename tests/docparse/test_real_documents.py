"""The list of real documents and how their files are had; packages are stood in for by archives made here."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from making_documents import changed, pdf, write

from backbone.errors import DataError
from docparse.benchmarks import load_benchmark, real
from docparse.documents import open_document

SHEET = changed(pdf(lambda canvas: write(canvas, "Total due 42.50", 60, 200) and None, 2), rotate=90)


def archive_of(name: str, data: bytes, mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for path, content in ((f"{name.split('/')[0]}/setup.py", b"raise SystemExit"), (name, data)):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def document(**changes):
    question = real.RealQuestion(1, "What is due?", "42.50", ((110.0, 195.0, 150.0, 212.0),))
    made = real.RealDocument(
        "pypi", "thing", "1.0", "tests/bill.pdf", hashlib.sha256(SHEET).hexdigest(), "bill", 2, "points", (question,)
    )
    return replace(made, **changes)


@pytest.fixture
def registry(monkeypatch):
    """pip and apt-get hand out an archive with the sheet in it; what they were asked is kept."""
    asked = []

    def run(command, wanted, folder):
        asked.append(command)
        if "pip" in command:
            top = f"{wanted.package}-{wanted.version}"
            Path(folder, f"{top}.tar.gz").write_bytes(archive_of(f"{top}/tests/bill.pdf", SHEET, "w:gz"))
        elif command[0] == "apt-get":
            Path(folder, f"{wanted.package}.deb").write_bytes(b"deb")
        else:
            return archive_of("./tests/bill.pdf", SHEET, "w")
        return b""

    monkeypatch.setattr(real, "_run", run)
    monkeypatch.setattr(real.shutil, "which", lambda name: f"/usr/bin/{name}")
    return asked


def test_the_list_names_enough_documents_with_checked_questions():
    documents = real.real_documents()
    assert len(documents) >= 12
    assert {entry.registry for entry in documents} == {"pypi", "debian"}
    assert len({entry.name for entry in documents}) == len(documents)
    for entry in documents:
        assert len(entry.questions) >= 5
        assert len(entry.sha256) == 64
        assert not entry.file.startswith("/")
        assert (entry.unit == "pixels") == (not entry.file.endswith(".pdf"))
        for question in entry.questions:
            assert 0 <= question.page < entry.pages
            assert question.question.strip()
            assert question.answer.strip()
            assert question.boxes
    asked = [(entry.name, question.question) for entry in documents for question in entry.questions]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("where", ["pypi", "debian"])
def test_a_file_comes_from_its_registry_once(where, registry, tmp_path):
    wanted = document(registry=where)
    first = real.fetch(wanted, tmp_path)
    assert first.read_bytes() == SHEET
    count = len(registry)
    assert "thing==1.0" in registry[0] if where == "pypi" else "thing=1.0" in registry[0]
    assert real.fetch(wanted, tmp_path) == first
    assert len(registry) == count
    first.write_bytes(b"spoilt")
    assert real.fetch(wanted, tmp_path).read_bytes() == SHEET
    assert len(registry) == 2 * count


def test_another_file_than_the_listed_one_is_refused(registry, tmp_path):
    with pytest.raises(DataError, match="sha256"):
        real.fetch(document(sha256="0" * 64), tmp_path)
    with pytest.raises(DataError, match="has no regular file"):
        real.fetch(document(file="tests/other.pdf"), tmp_path)
    assert not [*tmp_path.rglob("*.pdf")]


def test_a_failing_client_is_a_typed_error(tmp_path):
    with pytest.raises(DataError, match="failed"):
        real._run(["false"], document(), str(tmp_path))
    with pytest.raises(DataError, match="failed"):
        real._run(["no-such-program-here"], document(), str(tmp_path))


def test_debian_without_its_tools_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(real.shutil, "which", lambda name: None)
    with pytest.raises(DataError, match="ask for registry 'pypi'"):
        real.fetch(document(registry="debian"), tmp_path)


def test_boxes_in_points_are_pixels_of_the_page_as_shown():
    wanted = document()
    with open_document(SHEET) as opened:
        page = opened.page(1)
        (box,) = wanted.boxes_on(page, wanted.questions[0])
        inside = [w.text for w in page.words if box[0] <= w.box[0] < w.box[2] <= box[2] and box[1] <= w.box[1]]
        assert inside == ["42.50"]
        np.testing.assert_allclose(page.points(box), wanted.questions[0].boxes[0])
        with pytest.raises(DataError, match="page 2, asked for page 1"):
            wanted.boxes_on(opened.page(0), wanted.questions[0])


def test_they_are_a_benchmark_and_what_cannot_be_had_is_listed(registry, monkeypatch, tmp_path):
    lost = document(package="lost", sha256="0" * 64)
    monkeypatch.setattr(real, "real_documents", lambda: (document(), lost))
    loaded = load_benchmark("real", tmp_path)
    assert loaded.counts == {"expected": 2, "loaded": 1, "skipped": 1}
    assert "lost/bill.pdf" in loaded.skipped[0]
    (item,) = loaded.items
    truth = item.truth()
    assert truth.pages == (1,)
    assert item.pages[1].load().size == item.pages[1].size() == (625, 834)
    assert item.path is not None
    assert item.path.read_bytes() == SHEET


def test_a_broken_list_is_refused(monkeypatch, tmp_path):
    for text in ("{}", "not json", json.dumps({"documents": [{"questions": [{"page": 0}]}]})):
        place = tmp_path / "list.json"
        place.write_text(text)
        monkeypatch.setattr(real, "LIST", place)
        real.real_documents.cache_clear()
        with pytest.raises(DataError, match="not in its layout"):
            real.real_documents()
    real.real_documents.cache_clear()
