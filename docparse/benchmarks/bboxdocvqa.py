"""BBox-DocVQA, now SciEGQA (arXiv 2511.15090): questions on pages of papers with boxes around the evidence.

Layout: ``BBox_DocVQA_Bench.jsonl`` or ``SciEGQA-Bench.jsonl`` with ``query`` (or ``question``), ``answer``,
``doc_name``, ``category``, ``evidence_page`` (the numbers in the pictures' names), ``bbox``, ``subimg_type`` and, in
part of the releases, ``images`` (paths) and ``rel_bbox``. Pictures are ``{category}/{doc_name}/{doc_name}_{page}.png``,
in the newer release under ``Images``. ``bbox`` has a list of ``[x0, y0, x1, y1]`` for each evidence page, **in pixels
of the published pictures**; ``rel_bbox`` the same in thousandths of width and height. Where both are given they must
agree within 2 pixels; a picture of another size is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from backbone.errors import ConfigError, DataError
from docparse.areas import Corners, Place
from docparse.benchmarks.files import corners, first_that_exists, found_file, page_file, read_lines, text_of, texts
from docparse.benchmarks.items import Benchmark, Item, collect, refuse_without_answers

FILES = ("BBox_DocVQA_Bench.jsonl", "SciEGQA-Bench.jsonl", "*.jsonl")
AGREEMENT = 2.0  # pixels that bbox and rel_bbox may differ by


def load(path: Path, pages: Literal["evidence", "document"] = "evidence") -> Benchmark:
    """All questions, each on its evidence pages (as published figures are) or on all pages of its document.

    Raises:
        DataError: no such file or another layout, or no picture at all.
        ConfigError: ``pages`` is neither.
    """
    if pages not in ("evidence", "document"):
        raise ConfigError(f"pages must be 'evidence' or 'document', got {pages!r}")
    file = found_file(path, FILES, "BBox-DocVQA")
    rows = list(read_lines(file))
    refuse_without_answers(
        "BBox-DocVQA", "test", sum(bool(str(r.get("answer", "")).strip()) for _, r in rows), len(rows)
    )
    makers = [functools.partial(_item, r, where, i, file.parent, pages) for i, (where, r) in enumerate(rows)]
    return collect("bboxdocvqa", "test", makers)


def _item(record: dict[str, Any], where: str, index: int, root: Path, pages: str) -> Item:
    numbers = record.get("evidence_page")
    if not isinstance(numbers, list) or not numbers or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise DataError(f"{where}: evidence_page must be a list of page numbers, got {numbers!r}")
    evidence_files = _pictures(record, where, numbers, root)
    groups = _groups(record.get("bbox"), len(numbers), where, "bbox")
    _check_relative(record, evidence_files, groups, where)
    files = evidence_files if pages == "evidence" else _document(evidence_files[0])
    at = [files.index(p) for p in evidence_files]
    evidence: list[Place] = [(page, box) for page, group in zip(at, groups, strict=True) for box in group]
    answers = texts(record.get("answer"), where)
    if not answers:
        raise DataError(f"{where}: no answer")
    groups_of_kinds = record.get("subimg_type") or []
    kinds = sorted({str(k) for g in groups_of_kinds for k in ([g] if isinstance(g, str) else g)})
    return Item(
        id=f"bboxdocvqa-{index}",
        question=text_of(record, ("query", "question"), where),
        answers=answers,
        pages=tuple(page_file(p) for p in files),
        evidence=tuple(evidence),
        kind="+".join(kinds),
        document=text_of(record, ("doc_name",), where),
    )


def _pictures(record: dict[str, Any], where: str, numbers: Sequence[int], root: Path) -> list[Path]:
    """The files of the evidence pages: as ``images`` gives them, else by document and page number."""
    given = record.get("images") or record.get("image_paths")
    if isinstance(given, list) and given:
        if len(given) != len(numbers):
            raise DataError(f"{where}: {len(given)} images for {len(numbers)} evidence pages")
        return [first_that_exists([root / str(g), root / "Images" / str(g)], where) for g in given]
    document = text_of(record, ("doc_name",), where)
    folder = Path(text_of(record, ("category",), where)) / document
    names = [folder / f"{document}_{number}.png" for number in numbers]
    return [first_that_exists([root / "Images" / name, root / name], where) for name in names]


def _document(page: Path) -> list[Path]:
    """All pages of the document one of whose pages this is, in order of their numbers."""

    def number(path: Path) -> int:
        found = re.search(r"_(\d+)$", path.stem)
        return int(found.group(1)) if found else 0

    return sorted((p for p in page.parent.glob("*.png")), key=number)


def _groups(value: Any, pages: int, where: str, key: str) -> list[list[Corners]]:
    """Boxes of each evidence page. A flat list is taken for one page only: for more it cannot be told apart."""
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: {key} must be a list of boxes for each evidence page, got {value!r}")
    if all(isinstance(entry, list) and entry and not isinstance(entry[0], list) for entry in value):
        if pages != 1:
            raise DataError(f"{where}: {key} is a flat list of {len(value)} boxes for {pages} pages; whose is not said")
        value = [value]
    if len(value) != pages:
        raise DataError(f"{where}: {key} has boxes of {len(value)} pages, evidence_page names {pages}")
    return [[corners(box, f"{where}, {key}") for box in group] for group in value]


def _check_relative(record: dict[str, Any], files: Sequence[Path], groups: list[list[Corners]], where: str) -> None:
    """That ``rel_bbox``, where it is given, says the same of the pictures that lie here."""
    if not record.get("rel_bbox"):
        return
    relative = _groups(record["rel_bbox"], len(files), where, "rel_bbox")
    for file, boxes, shares in zip(files, groups, relative, strict=True):
        width, height = page_file(file).size()
        for box, share in zip(boxes, shares, strict=True):
            scaled = (
                share[0] * width / 1000,
                share[1] * height / 1000,
                share[2] * width / 1000,
                share[3] * height / 1000,
            )
            if max(abs(a - b) for a, b in zip(box, scaled, strict=True)) > AGREEMENT:
                raise DataError(
                    f"{where}: bbox {box} and rel_bbox {share} differ on {file.name} of {width} x {height} pixels; the "
                    "picture is not of the published size"
                )
