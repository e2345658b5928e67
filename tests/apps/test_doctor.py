"""The doctor: states are what they claim, remedies are one line, and only a broken core fails."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import assets
from apps import cli, doctor
from apps.doctor import OPTIONAL, Check, OptionalPart, examine, nano_files, optional_part
from backbone.errors import ModelError
from backbone.vlm import VLM
from tests.apps.fakes import ScriptedVLM


def test_nano_files_are_compared_with_their_checksums(tmp_path: Path) -> None:
    assert nano_files(tmp_path).state == "missing"
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{digest}  model.safetensors\n")
    assert nano_files(tmp_path).state == "ok"
    (tmp_path / "model.safetensors").write_bytes(b"wrong")
    assert nano_files(tmp_path).state == "broken"
    (tmp_path / "model.safetensors").unlink()
    assert nano_files(tmp_path).state == "missing"


def test_optional_parts_present_absent_and_crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = optional_part(OptionalPart("no_such_package", "nothing", "pip install it"), deep=True)
    assert (absent.state, absent.remedy) == ("missing", "pip install it")
    (tmp_path / "crashes.py").write_text("raise OSError('libGL.so.1: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    part = OptionalPart("crashes", "nothing", "apt-get install it")
    assert optional_part(part, deep=False).state == "ok"  # looked up, never imported
    broken = optional_part(part, deep=True)
    assert (broken.state, broken.detail) == ("broken", "OSError: libGL.so.1: cannot open")
    assert optional_part(OptionalPart("json", "", ""), deep=True).state == "ok"


def test_remedies_are_one_line() -> None:
    assert all("\n" not in part.remedy and part.remedy for part in OPTIONAL)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VLM, "load", staticmethod(lambda *_, **__: ScriptedVLM()))


@pytest.mark.usefixtures("loads")
def test_the_core_is_examined_by_using_it() -> None:
    found = {check.name: check for check in examine("scripted")}
    for name in ("Python", "torch", "transformers", "Qwen-VL processors", "model scripted"):
        assert found[name].core
        assert found[name].state == "ok"
    assert not found["vllm"].core
    assert "computes on" in found["torch"].detail


def test_a_model_that_does_not_load_breaks_the_core(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> VLM:
        raise ModelError("missing weights: lm_head\nand more")

    monkeypatch.setattr(VLM, "load", staticmethod(refuse))
    assert cli.main(["doctor", "--model", "hopeless", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["core_works"]
    (check,) = [c for c in report["checks"] if c["name"] == "model hopeless"]
    assert (check["state"], check["detail"]) == ("broken", "missing weights: lm_head")


def test_what_is_optional_never_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def checks(*_: object, **__: object) -> Iterator[Check]:
        yield Check("torch", "ok", "computes", core=True)
        yield Check("habitat_sim", "missing", "for navigation", "build it")
        yield Check("metadrive", "broken", "no display", "apt-get install xvfb")

    monkeypatch.setattr("apps.commands.doctor.examine", checks)
    assert cli.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "the core works" in printed
    assert "-> build it" in printed


def test_shipped_nano_has_its_checksums() -> None:
    check = doctor.nano_files(assets.NANO)
    assert check.state == "ok", check.detail
