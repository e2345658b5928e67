"""Words of a picture by RapidOCR, whose models come with its package. Runs in the reading process only."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from docparse.documents.characters import RawWords, on_page
from docparse.documents.geometry import Corners

DETECTION_SIDE = 1760  # pixels in which lines are looked for: an A4 page at 150 dpi is not shrunk
LEAST_SIDE = 8  # pixels: nothing smaller is read
TURNED = 0.9  # score from which a line votes for a page that is upside down
NEVER = 2.0  # no line is turned alone: on upright pages the engine errs in one line of twenty, which is lost then
CONTRAST = 30  # grey levels between ink and paper from which boxes are fitted to the ink
RULE = 0.9  # of a line's width: a row of ink so long is a rule, not text
Gray = NDArray[np.uint8]

_engine: Any = None


def load() -> None:
    """Load the engine (about a second). Raises `ImportError` where RapidOCR is not installed."""
    global _engine
    if _engine is None:
        from rapidocr import RapidOCR

        threads = int(os.environ.get("OMP_NUM_THREADS") or 0) or len(os.sched_getaffinity(0))
        _engine = RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.return_word_box": True,
                "Cls.cls_thresh": NEVER,
                "Det.limit_type": "max",  # by default small pictures are enlarged, at six times the cost
                "Det.limit_side_len": DETECTION_SIDE,
                "Rec.rec_batch_num": 1,  # on one thread lines one by one take a fifth less than six padded alike
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
        for name in ("_load_det_model", "_load_cls_model", "_load_rec_model"):  # which the engine puts off otherwise
            getattr(_engine, name, lambda: None)()


def loaded() -> bool:
    """Whether the engine is loaded."""
    return _engine is not None


def has_ink(image: Image) -> bool:
    """Whether the picture is anything else than one colour."""
    small = cv2.resize(image, (min(256, image.shape[1]), min(256, image.shape[0])), interpolation=cv2.INTER_AREA)
    return bool(np.ptp(small.reshape(-1, 3).astype(np.int16), axis=0).max() > 12)


def read_words(image: Image) -> RawWords:
    """The words of a picture uint8 (H, W, 3) RGB with their boxes in its pixels; no order is promised."""
    height, width = image.shape[:2]
    if min(height, width) < LEAST_SIDE or not has_ink(image):
        return RawWords.none()
    load()
    result, upside_down = _recognised(image)
    if upside_down:
        turned = np.ascontiguousarray(image[::-1, ::-1])
        return _turned_back(_words(turned, _recognised(turned)[0]), width, height)
    return _words(image, result)


def _recognised(image: Image) -> tuple[Any, bool]:
    """What the engine finds on a picture, and whether it took most of the lines for upside down."""
    picture = np.ascontiguousarray(image[:, :, ::-1])
    prepared, record = _engine.preprocess_img(picture)
    lines, turns, texts, crops = _engine.run_ocr_steps(prepared, record)
    votes = [("180" in label and score > TURNED) for label, score in turns.cls_res or ()]
    result = _engine.build_final_output(picture, lines, turns, texts, crops, record)
    return result, sum(votes) > len(votes) / 2


def _turned_back(words: RawWords, width: int, height: int) -> RawWords:
    """Words of a page that was turned by 180 degrees to be read, where they are on the page as shown."""
    x0, y0, x1, y1 = words.boxes.T
    boxes = np.stack([width - x1, height - y1, width - x0, height - y0], axis=1)
    return replace(words, boxes=boxes, directions=(words.directions + 180) % 360)


def _words(image: Image, result: Any) -> RawWords:
    height, width = image.shape[:2]
    gray = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    texts: list[str] = []
    boxes: list[Corners] = []
    directions: list[int] = []
    scores: list[float] = []
    strings: list[int] = []
    for number, (line, quad) in enumerate(_lines(result)):
        words = [(str(text).strip(), float(score), _upright(box)) for text, score, box in line]
        words = [word for word in words if word[0] and word[2] is not None]
        corners = np.asarray(quad, np.float64)
        tall = bool(np.ptp(corners[:, 1]) >= 1.5 * np.ptp(corners[:, 0])) and sum(len(w[0]) for w in words) > 2
        placed = [box for _, _, box in words if box is not None]
        if not tall and _is_level(corners):
            placed = _to_ink(gray, placed, corners)
        texts += [text for text, _, _ in words]
        boxes += placed
        directions += [90 if tall else 0] * len(words)
        strings += [number] * len(words)
        scores += [min(max(score, 0.0), 1.0) for _, score, _ in words]
    if not texts:
        return RawWords.none()
    numbers = np.array(directions, np.int64), np.array(scores), np.array(strings, np.int64)
    return on_page(RawWords(texts, np.array(boxes, np.float64), *numbers), width, height)


def _lines(result: Any) -> list[tuple[list[tuple[Any, Any, Any]], Any]]:
    """The lines found: each its words as (text, score, corners (4, 2)) and its corners (4, 2)."""
    quads, texts = getattr(result, "boxes", None), getattr(result, "txts", None)
    if quads is None or not texts:
        return []
    words = result.word_results or ()
    if len(words) == len(quads) and all(line and all(map(_has_place, line)) for line in words):
        return list(zip(words, quads, strict=True))
    # without a single place in one line the engine gives none for any: words are then spread evenly over their lines
    return [
        (_spread(text, score, np.asarray(quad, np.float64)), quad)
        for text, score, quad in zip(texts, result.scores, quads, strict=True)
    ]


def _has_place(word: Any) -> bool:
    return len(word) == 3 and np.shape(word[2]) == (4, 2)


def _spread(text: str, score: float, quad: NDArray[np.float64]) -> list[tuple[Any, Any, Any]]:
    """The words of a line, each with the part of its corners (4, 2) that its letters take if all are equally wide."""
    words: list[tuple[Any, Any, Any]] = []
    for match in re.finditer(r"\S+", text):
        start, end = match.start() / len(text), match.end() / len(text)
        upper, lower = quad[1] - quad[0], quad[2] - quad[3]
        corners = [quad[0] + start * upper, quad[0] + end * upper, quad[3] + end * lower, quad[3] + start * lower]
        words.append((match.group(), score, np.array(corners)))
    return words


def _upright(box: Any) -> Corners | None:
    points = np.asarray(box, np.float64).reshape(-1, 2)
    (x0, y0), (x1, y1) = points.min(0).tolist(), points.max(0).tolist()
    return (x0, y0, x1, y1) if x1 - x0 >= 0.5 and y1 - y0 >= 0.5 else None


def _is_level(corners: NDArray[np.float64]) -> bool:
    """Whether the upper side of a line's box (4, 2) rises by less than a tenth of a line's height over its length."""
    rise, height = abs(corners[1, 1] - corners[0, 1]), abs(corners[3, 1] - corners[0, 1])
    return bool(rise <= 0.1 * height + 1)


def _to_ink(gray: Gray, boxes: list[Corners], line: NDArray[np.float64]) -> list[Corners]:
    """The boxes of a level line's words, from left to right, parted at the white between words and cut to the ink."""
    if not boxes or any(a[0] > b[0] for a, b in pairwise(boxes)):
        return boxes
    limits = np.concatenate([np.reshape(boxes, (-1, 2)), line])  # the line's own box (4, 2) may reach further
    left, top = np.maximum(np.floor(limits.min(0)), 0).astype(int).tolist()
    right, bottom = np.ceil(limits.max(0)).astype(int).tolist()
    ink = _ink(gray[top:bottom, left:right])
    if ink is None:
        return boxes
    filled = np.asarray(ink.any(0), bool)
    cuts = [0]
    for before, after in pairwise(boxes):
        cuts.append(_cut(filled, before, after, left, bottom - top))
    cuts.append(ink.shape[1])
    result: list[Corners] = []
    for box, start, end in zip(boxes, cuts, cuts[1:], strict=False):
        part = ink[:, start:end]
        columns, rows = np.flatnonzero(part.any(0)), np.flatnonzero(part.any(1))
        if not len(columns) or len(columns) < 0.3 * (box[2] - box[0]) or len(rows) < 2:
            result.append(box)  # not to be believed: a frame, a photograph, a word of dots
            continue
        x, y = left + start, top
        result.append((float(x + columns[0]), float(y + rows[0]), float(x + columns[-1] + 1), float(y + rows[-1] + 1)))
    return result


def _ink(line: Gray) -> NDArray[np.bool_] | None:
    """Which pixels (h, w) of a line are ink, or None where ink and paper cannot be told apart."""
    if line.size == 0:
        return None
    threshold, _ = cv2.threshold(line, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    dark = line <= threshold
    if not dark.any() or dark.all() or float(line[~dark].mean()) - float(line[dark].mean()) < CONTRAST:
        return None
    ink = dark if dark.mean() <= 0.5 else ~dark
    ink[ink.mean(1) > RULE] = False
    return np.asarray(ink, bool)


def _cut(filled: NDArray[np.bool_], before: Corners, after: Corners, left: int, height: int) -> int:
    """The column between two words: the middle of the white near to where the engine parts them."""
    guess = (before[2] + after[0]) / 2 - left
    low = max(0, round(max(guess - height, (before[0] + before[2]) / 2 - left)))
    high = min(len(filled), round(min(guess + height, (after[0] + after[2]) / 2 - left)))
    best, cut = 0.0, round(guess)
    edges = np.flatnonzero(np.diff(np.concatenate([[True], filled[low:high], [True]]).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=False):
        middle = low + (start + end) / 2
        worth = (end - start) - 0.3 * abs(middle - guess)
        if worth > best:
            best, cut = worth, round(middle)
    return min(max(cut, 0), len(filled))
