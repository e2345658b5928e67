"""Short rendered text: letters, digits and words on plain or photographic grounds, to be read and found."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.random import Generator

from backbone.contracts import Image
from backbone.curriculum.photos import training_photos
from backbone.curriculum.sample import Message, Sample, ask, box_pieces, source
from backbone.curriculum.scenes import SYMBOLS, ground
from backbone.curriculum.shapes import lettered

WORDS = ("stop", "exit", "open", "shut", "push", "pull", "sale", "door", "lamp", "book", "cup", "total", "date", "name")
FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX, cv2.FONT_HERSHEY_COMPLEX)
QUESTIONS_PER_IMAGE = 4


@source("text", weight=1.0)
def short_text(rng: Generator, size: tuple[int, int]) -> Sample:
    """One to three short texts at different heights; read one, locate one, choose one."""
    width, height = size
    image = ground(rng, width, height, training_photos())
    count = int(rng.integers(1, 4))
    bands = np.linspace(0, height, count + 1)
    placed: list[tuple[str, tuple[float, float, float, float]]] = []
    for i in range(count):
        text = random_text(rng)
        box = draw_text(rng, image, text, (0.0, float(bands[i]), float(width), float(bands[i + 1])))
        if text not in [t for t, _ in placed]:
            placed.append((text, box))
    conversations = [question(rng, image, placed) for _ in range(QUESTIONS_PER_IMAGE)]
    return Sample(image, tuple(conversations))


def random_text(rng: Generator) -> str:
    """A symbol, a code of two to five symbols, or a word."""
    kind = rng.random()
    if kind < 0.3:
        return SYMBOLS[int(rng.integers(len(SYMBOLS)))]
    if kind < 0.65:
        return "".join(SYMBOLS[int(i)] for i in rng.integers(len(SYMBOLS), size=int(rng.integers(2, 6))))
    word = WORDS[int(rng.integers(len(WORDS)))]
    return word.upper() if rng.random() < 0.5 else word


def draw_text(
    rng: Generator, image: Image, text: str, band: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Write ``text`` somewhere in a band on a solid plate; returns the plate's box in pixels."""
    x0, y0, x1, y1 = band
    font, thickness = FONTS[int(rng.integers(len(FONTS)))], int(rng.integers(1, 4))
    (w, h), base = cv2.getTextSize(text, font, 1.0, thickness)
    room = min((x1 - x0) * 0.9 / (w + 8), (y1 - y0) * 0.9 / (h + base + 8))
    scale = room * rng.uniform(0.55, 1.0)
    (w, h), base = cv2.getTextSize(text, font, scale, thickness)
    pad = int(rng.integers(2, 7))
    left = int(rng.uniform(x0 + pad, max(x0 + pad + 1, x1 - w - pad)))
    top = int(rng.uniform(y0 + pad, max(y0 + pad + 1, y1 - h - base - pad)))
    box = (max(0, left - pad), max(0, top - pad), min(image.shape[1], left + w + pad), top + h + base + pad)
    box = (*box[:3], min(image.shape[0], box[3]))
    dark = bool(rng.random() < 0.5)
    plate, ink = (rng.integers(0, 70, 3), rng.integers(190, 256, 3))[:: 1 if dark else -1]
    cv2.rectangle(image, box[:2], box[2:], plate.tolist(), -1)
    cv2.putText(image, text, (left, top + h), font, scale, ink.tolist(), thickness, cv2.LINE_AA)
    return tuple(float(v) for v in box)  # type: ignore[return-value]


def question(
    rng: Generator, image: Image, placed: list[tuple[str, tuple[float, float, float, float]]]
) -> tuple[Message, ...]:
    """Read, locate, or choose among options."""
    text, box = placed[int(rng.integers(len(placed)))]
    kind = rng.random()
    size = image.shape[1], image.shape[0]
    if kind < 0.3:
        return ask(image, f'Locate the text "{text}".', *box_pieces([(box, text)], size))
    if kind < 0.6 and len(placed) == 1:
        pool = [random_text(rng) for _ in range(6)]
        asked, letter = lettered(rng, "What does the text say?", text, pool)
        return ask(image, asked, (letter, box))
    if len(placed) == 1:
        return ask(image, "What does the text say?", (text, box))
    numbers = [round(v * 1000 / size[i % 2]) for i, v in enumerate(box)]
    return ask(image, f"Read the text at [{', '.join(map(str, numbers))}].", (text, box))
