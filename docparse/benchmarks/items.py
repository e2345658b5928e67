"""What every benchmark of documents gives: questions with answers, evidence where it is known, and pages to load."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from backbone.errors import DataError
from backbone.images import SourceImage
from docparse.areas import Corners, Place
from docparse.scoring import Truth

Unit: TypeAlias = Literal["pixels", "thousandths"]
SLACK = 1.5  # a box may pass the page's edge by this many pixels (rounding in the sources); it is clipped


@dataclass(frozen=True)
class PageFile:
    """One page: ``load`` decodes it, ``size`` reads ``(width, height)`` in pixels without decoding."""

    load: Callable[[], SourceImage] = field(repr=False, compare=False)
    size: Callable[[], tuple[int, int]] = field(repr=False, compare=False)
    name: str = ""


@dataclass(frozen=True)
class Item:
    """One question on one document.

    ``answers`` are those accepted, empty where the document has none. ``evidence`` is in ``unit`` of its page (pixels
    of the picture, or thousandths of its width and height) and None where the benchmark gives no boxes;
    ``evidence_pages`` where it gives pages (from 0). ``path`` is the document as one file, where there is one.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    pages: tuple[PageFile, ...]
    evidence: tuple[Place, ...] | None = None
    unit: Unit = "pixels"
    evidence_pages: tuple[int, ...] | None = None
    kind: str = ""
    document: str = ""
    path: Path | None = None

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise DataError(f"item {self.id}: the question is empty")
        if not self.pages:
            raise DataError(f"item {self.id}: no pages")
        named = [page for page, _ in self.evidence or ()] + list(self.evidence_pages or ())
        wrong = sorted({page + 1 for page in named if not 0 <= page < len(self.pages)})
        if wrong:
            raise DataError(f"item {self.id}: evidence on page {wrong[0]} of a document of {len(self.pages)} pages")

    def truth(self) -> Truth:
        """What is right, with evidence in pixels of its page; reads the sizes of all pages, decodes none.

        Raises:
            DataError: a box lies outside its page, which says that its unit is another, or a page is broken.
        """
        sizes = {index: page.size() for index, page in enumerate(self.pages)}
        evidence = None
        if self.evidence is not None:
            evidence = tuple((page, self._in_pixels(box, sizes[page], page)) for page, box in self.evidence)
        known = self.evidence_pages
        if known is None and evidence:
            known = tuple(sorted({page for page, _ in evidence}))
        shown = {index: (float(width), float(height)) for index, (width, height) in sizes.items()}
        return Truth(self.id, self.answers, evidence, shown, known, self.kind)

    def _in_pixels(self, box: Corners, size: tuple[int, int], page: int) -> Corners:
        width, height = size
        sx, sy = (width / 1000, height / 1000) if self.unit == "thousandths" else (1.0, 1.0)
        x0, y0, x1, y1 = box[0] * sx, box[1] * sy, box[2] * sx, box[3] * sy
        if min(x0, y0) < -SLACK or x1 > width + SLACK or y1 > height + SLACK:
            raise DataError(
                f"item {self.id}, page {page + 1}: box {box} in {self.unit} leaves the picture of {width} x {height} "
                "pixels; the pictures are of another size than those the boxes were drawn on, or the unit is another"
            )
        x0, y0, x1, y1 = max(0.0, x0), max(0.0, y0), min(float(width), x1), min(float(height), y1)
        if not (x0 < x1 and y0 < y1):
            raise DataError(f"item {self.id}, page {page + 1}: box {box} is empty")
        return x0, y0, x1, y1


@dataclass(frozen=True)
class Benchmark:
    """Items of one split. ``expected`` counts the questions in the files; ``skipped`` says which are out, and why."""

    name: str
    split: str
    items: tuple[Item, ...]
    expected: int
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.items:
            reasons = "; ".join(self.skipped[:3])
            raise DataError(
                f"benchmark {self.name}, split {self.split!r}: no usable item of {self.expected} ({reasons})"
            )
        if len(self.items) + len(self.skipped) != self.expected:
            raise DataError(
                f"benchmark {self.name}: {len(self.items)} items and {len(self.skipped)} skipped of {self.expected}"
            )
        ids = {item.id for item in self.items}
        if len(ids) != len(self.items):
            raise DataError(f"benchmark {self.name}: {len(self.items)} items have only {len(ids)} different ids")

    @property
    def counts(self) -> dict[str, int]:
        """Questions expected, loaded and skipped."""
        return {"expected": self.expected, "loaded": len(self.items), "skipped": len(self.skipped)}


def collect(name: str, split: str, makers: Iterable[Callable[[], Item]]) -> Benchmark:
    """The benchmark of all items that can be made; a `DataError` of one skips that one and is listed."""
    items: list[Item] = []
    skipped: list[str] = []
    for maker in makers:
        try:
            items.append(maker())
        except DataError as error:
            skipped.append(str(error))
    return Benchmark(name, split, tuple(items), len(items) + len(skipped), tuple(skipped))


def refuse_without_answers(name: str, split: str, with_answers: int, total: int) -> None:
    """Raise `DataError` for a split of which no question has an answer: what is published for a challenge's server."""
    if total and not with_answers:
        raise DataError(
            f"{name}, split {split!r}: none of {total} questions has an answer; this split cannot be scored here, use "
            "one that is published with answers (train or validation)"
        )
