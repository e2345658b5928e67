"""Small documents made for the tests, whose words lie at known places."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pypdf import PdfReader, PdfWriter
from pypdf.generic import FloatObject, NameObject, RectangleObject
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

SIZE = (400.0, 300.0)  # points


@dataclass(frozen=True)
class Drawn:
    """A word as it was drawn: its advance box in points, from the baseline up to the capital height."""

    text: str
    left: float
    baseline: float
    right: float
    size: float


def pdf(draw: Callable[[Canvas], None], pages: int = 1, size: tuple[float, float] = SIZE, **options: object) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=size, invariant=1, **options)
    for _ in range(pages):
        canvas.setFont("Helvetica", 12)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def write(canvas: Canvas, text: str, x: float, y: float, size: float = 12, font: str = "Helvetica") -> list[Drawn]:
    """Draw one line; where each of its words stands."""
    canvas.setFont(font, size)
    canvas.drawString(x, y, text)
    found, place = [], x
    for word in text.split(" "):
        width = stringWidth(word, font, size)
        found.append(Drawn(word, place, y, place + width, size))
        place += width + stringWidth(" ", font, size)
    return found


def changed(
    data: bytes,
    *,
    rotate: int = 0,
    media: Sequence[float] | None = None,
    crop: Sequence[float] | None = None,
    unit: float | None = None,
    password: str | None = None,
) -> bytes:
    """The PDF with page boxes, a turn, a user unit, or a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    for page in writer.pages:
        if rotate:
            page.rotate(rotate)
        if media:
            page.mediabox = RectangleObject(tuple(media))
        if crop:
            page.cropbox = RectangleObject(tuple(crop))
        if unit:
            page[NameObject("/UserUnit")] = FloatObject(unit)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def picture_of(lines: Sequence[str], width: int = 900, height: int = 300, size: int = 28) -> tuple[Image.Image, list]:
    """Black lines on white, and (word, ink box) in order."""
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size)
    drawn = []
    for row, line in enumerate(lines):
        x, y = 40.0, 30.0 + row * 2 * size
        for word in line.split(" "):
            draw.text((x, y), word, font=font, fill="black")
            drawn.append((word, ink_of(word, x, y, font, (width, height))))
            x += draw.textlength(word + " ", font=font)
    return image, drawn


def ink_of(word: str, x: float, y: float, font: ImageFont.FreeTypeFont, size: tuple[int, int]) -> tuple[float, ...]:
    alone = Image.new("L", size, 255)
    ImageDraw.Draw(alone).text((x, y), word, font=font, fill=0)
    rows, columns = np.nonzero(np.asarray(alone) < 128)
    return float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1)


def file_of(image: Image.Image, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def scan_of(image: Image.Image, size: tuple[float, float] | None = None) -> bytes:
    """A PDF of one page that is nothing but the picture."""
    width, height = size or (image.width / 150 * 72, image.height / 150 * 72)
    return pdf(lambda canvas: canvas.drawImage(ImageReader(image), 0, 0, width, height) and None, size=(width, height))


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)
