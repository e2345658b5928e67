"""What stands on a page beside its words: pictures, drawings, signatures, stamps, boxes to tick, and ruled lines.

Ink is what differs from the paper. The paper's colour is fitted over the page, for a scan is darker at one edge. Words
are taken out of it, and so are straight lines that cross nothing (rules under headings, dotted leaders). What is left
is joined over small gaps; each connected piece is told by its size, its shape and its tones. Runs in the reading
process only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from docparse.documents.geometry import Corners
from docparse.documents.page import Look, Sight

SIDE = 1400  # pixels of the longer side of the picture that is looked at
CONTRAST = 36  # grey levels between ink and paper
RULE = 0.025  # of the longer side: a shorter straight line is a stroke
JOIN = 0.008  # of the longer side: ink closer than twice this is one piece
PARTS = 0.03  # the same between the parts of a drawing, such as bars
LEAST = 0.03  # of the longer side: a smaller piece is no picture or drawing
PANEL = 0.35  # of its area in words: a piece is a frame or a coloured bar with a text, nothing to be seen
CELLS = 0.02  # the same where lines go all through it: a table
LINES_ALONE = 0.006  # solid ink of a box up to which there is nothing but lines and words in it
FLAT = 8.0  # standard deviation of the grey levels up to which a piece is of one colour, grain smoothed away
GRAIN = 3  # pixels around which it is smoothed
THICK = 17  # pixels of a bar of a chart, at least
BARS = 1.2  # of their thickness: bars of a chart are no further apart
DASHES = 7  # pixels up to which the gaps of a broken line are closed
Mask = NDArray[np.uint8]  # (H, W) 0 or 1
Pixels = tuple[int, int, int, int]  # x0, y0, x1, y1
Straight = tuple[NDArray[np.float64], NDArray[np.float64]]  # boxes (n, 4) of horizontal and of vertical lines


@dataclass(frozen=True)
class Piece:
    """A connected piece of ink: box in pixels of the picture looked at, and what it is made of."""

    box: Pixels
    fill: float  # ink in its box
    solid: float  # ink that is no line, in its box
    words: float  # words in its box
    tones: float  # standard deviation of the grey levels of its solid ink
    colour: float  # share of its ink that has a colour
    square: float  # how much of the box's four edges is inked, the least of the four
    through: int  # lines that go all through it, from side to side or from top to bottom

    @property
    def width(self) -> int:
        """In pixels."""
        return self.box[2] - self.box[0]

    @property
    def height(self) -> int:
        """In pixels."""
        return self.box[3] - self.box[1]


def find_sights(image: Image, words: NDArray[np.float64]) -> tuple[list[Sight], NDArray[np.float64]]:
    """Pieces that are something to be seen, and ruled lines (n, 4), both in pixels of ``image``.

    Args:
        image: uint8 (H, W, 3) RGB; seconds are saved if it is no larger than `SIDE`.
        words: (n, 4) boxes of the page's words in its pixels.
    """
    factor = min(1.0, SIDE / max(image.shape[:2]))
    if factor < 1:
        size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    boxes = np.asarray(words, np.float64).reshape(-1, 4) * factor
    ink = ink_of(image)
    letters = _filled(ink.shape, boxes)
    bare = np.asarray(ink * (1 - letters), np.uint8)
    lines, loose = ruled(bare)
    sides = boxes[:, 2:] - boxes[:, :2]  # of a page that lies on its side words are higher than wide
    median = float(np.median(sides, 0).min()) if len(boxes) else 0.01 * max(image.shape[:2])
    ticks = tick_boxes(bare, median)
    rest = np.asarray(bare * (1 - _grown(loose, 1)), np.uint8)
    for x0, y0, x1, y1 in ticks:
        rest[y0:y1, x0:x1] = 0
    straight = _boxes_of(lines[0]), _boxes_of(lines[1])
    pieces = _pieces(image, rest, _grown(_both(lines), 1), letters, straight)
    found: list[tuple[Pixels, Look]] = [(box, "box") for box in ticks]
    found += [(piece.box, look) for piece in pieces if (look := look_of(piece, median, max(image.shape[:2])))]
    sights = [Sight(_scaled(box, 1 / factor), look) for box, look in found]
    return sights, np.concatenate(straight) / factor


def ink_of(image: Image) -> Mask:
    """Which pixels (H, W) are ink: those that differ from the paper."""
    small = np.asarray(cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA), np.float32).reshape(-1, 3)
    coarse = (small // 16).astype(np.int64) @ np.array([256, 16, 1])
    values, counts = np.unique(coarse, return_counts=True)
    usual = small[coarse == values[counts.argmax()]].mean(0)
    paper = np.abs(small - usual).max(1) < 48
    y, x = (axis.reshape(-1) for axis in np.mgrid[0:64, 0:64].astype(np.float32) / 63)
    terms = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y, x**3, y**3], 1)
    for _ in range(2):  # the second time without what turned out to be no paper
        fit, *_ = np.linalg.lstsq(terms[paper], small[paper], rcond=None)
        paper = np.abs(small - terms @ fit).max(1) < 16
        if paper.sum() < 64:
            return np.zeros(image.shape[:2], np.uint8)
    plane = np.clip(terms @ fit, 0, 255).reshape(64, 64, 3).astype(np.uint8)
    ground = cv2.resize(plane, (image.shape[1], image.shape[0]), interpolation=cv2.INTER_LINEAR)
    smooth = _most(cv2.absdiff(cv2.blur(image, (3, 3)), ground))  # against grain, but a pixel wider than the ink
    sharp = _most(cv2.absdiff(image, ground))
    return np.asarray((smooth > CONTRAST) & (sharp > CONTRAST), np.uint8)


def ruled(ink: Mask) -> tuple[tuple[Mask, Mask], Mask]:
    """Horizontal and vertical straight thin lines of the ink, and those among them that meet no other and no area."""
    long = max(3, round(RULE * max(ink.shape)))
    block = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((9, 9), np.uint8))
    thin = np.asarray(ink * (1 - _grown(block, 2)), np.uint8)
    lines = []
    for shape, gap in (((1, long), (1, DASHES)), ((long, 1), (DASHES, 1))):
        whole = cv2.morphologyEx(thin, cv2.MORPH_CLOSE, np.ones(gap, np.uint8))
        lines.append(np.asarray(cv2.morphologyEx(whole, cv2.MORPH_OPEN, np.ones(shape, np.uint8)), np.uint8))
    across, along = lines
    count, found = cv2.connectedComponents(_grown(_both((across, along)), 2))
    label = np.asarray(found)
    # a frame has two lines of each direction at least; the strokes of a signature cross one rule
    crossed = np.minimum(_number_in(across, label, count), _number_in(along, label, count)) > 1
    bars = cv2.morphologyEx(block, cv2.MORPH_OPEN, np.ones((THICK, THICK), np.uint8))  # no writing is so thick
    crossed[np.unique(label[_grown(bars, 3) > 0])] = True  # the foot of a chart's bars
    crossed[0] = False
    loose = np.asarray(_both((across, along)) * ~crossed[label], np.uint8)
    return (across, along), loose


def _number_in(lines: Mask, label: NDArray[Any], count: int) -> NDArray[np.int64]:
    """(count,) how many lines lie in each group of a labelled picture (H, W)."""
    number, own = cv2.connectedComponents(lines)
    at = lines > 0
    group = np.zeros(number, np.int64)
    group[own[at]] = label[at]
    return np.bincount(group[1:], minlength=count)


def tick_boxes(ink: Mask, word: float) -> list[Pixels]:
    """Small outlined squares, empty or ticked, about as high as a word (``word`` pixels)."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink)
    x, y, w, h, _ = stats[1:].T
    fit = (np.minimum(w, h) >= max(5.0, 0.5 * word)) & (np.maximum(w, h) <= 2.2 * word) & (abs(w - h) <= 2 + 0.15 * w)
    found = []
    for i in np.flatnonzero(fit).tolist():
        part = ink[y[i] : y[i] + h[i], x[i] : x[i] + w[i]]
        if _least_edge(part) > 0.8 and part.mean() < 0.9:
            found.append((int(x[i]), int(y[i]), int(x[i] + w[i]), int(y[i] + h[i])))
    return found


def look_of(piece: Piece, word: float, side: int) -> Look | None:
    """What a piece is, None for nothing worth seeing; ``word`` is the height of the page's words in pixels."""
    small, large = min(piece.width, piece.height), max(piece.width, piece.height)
    ratio = piece.width / piece.height
    table = piece.through > 1 and piece.words > CELLS and piece.solid < LINES_ALONE
    if table or piece.words > PANEL or (piece.fill > 0.8 and piece.tones < FLAT):
        return None
    if small >= LEAST * side and piece.fill > 0.6 and piece.tones > FLAT and piece.solid > 0.5:
        return "photograph"
    if 0.7 < ratio < 1.4 and 2.5 * word < small and large < 0.25 * side and piece.colour > 0.5 and piece.words < 0.3:
        return "stamp"
    written = 0.8 * word < small < 8 * word and large > 1.1 * small and 2 * word < large < 0.4 * side
    if written and piece.fill < 0.55 and piece.words < 0.05 and piece.square < 0.3:
        return "signature"
    if small >= LEAST * side and piece.fill > 0.01:
        return "drawing"
    return None


def _pieces(image: Image, ink: Mask, lines: Mask, letters: Mask, straight: Straight) -> list[Piece]:
    side = max(ink.shape)
    reach = max(1, round(JOIN * side))
    count, label, stats, _ = cv2.connectedComponentsWithStats(_grown(ink, reach))
    grey = np.asarray(cv2.blur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (2 * GRAIN - 1, 2 * GRAIN - 1)), np.uint8)
    red, green, blue = cv2.split(image)
    least = cv2.min(cv2.min(red, green), blue)
    coloured = np.asarray(cv2.subtract(_most(image), least) > 50)
    boxes: list[Pixels] = []
    bars: list[Pixels] = []
    for number in range(1, count):
        x, y, w, h, _ = (int(v) for v in stats[number])
        inside = np.asarray(ink[y : y + h, x : x + w] * (label[y : y + h, x : x + w] == number), np.uint8)
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        if len(rows) < 4 or len(columns) < 4:
            continue
        box = x + int(columns[0]), y + int(rows[0]), x + int(columns[-1]) + 1, y + int(rows[-1]) + 1
        whole = inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        flat = whole.mean() > 0.9 and _tones(whole, grey[box[1] : box[3], box[0] : box[2]]) < FLAT
        (bars if flat else boxes).append(box)
    joined = _joined(_rows_of(bars) + boxes, round(PARTS * side), letters)
    return [_piece(box, grey, coloured, ink, lines, letters, _through(box, straight)) for box in joined]


def _tones(ink: NDArray[Any], grey: Mask) -> float:
    """Standard deviation of the grey levels inside of ink (h, w), away from its edges."""
    size = 2 * GRAIN + 1
    deep = cv2.erode(
        np.asarray(ink, np.uint8), np.ones((size, size), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0
    )
    return float(grey[deep > 0].std()) if deep.any() else 0.0


def _rows_of(bars: list[Pixels]) -> list[Pixels]:
    """Bars with a common foot, at the left or at the bottom, and little between them, made one."""
    out: list[Pixels] = []
    for bar in sorted(bars):
        for i, other in enumerate(out):
            foot = abs(bar[3] - other[3]) <= GRAIN and bar[0] - other[2] <= BARS * (bar[2] - bar[0])
            side = abs(bar[0] - other[0]) <= GRAIN and bar[1] - other[3] <= BARS * (bar[3] - bar[1])
            if foot or (side and bar[1] >= other[3]):
                out[i] = min(bar[0], other[0]), min(bar[1], other[1]), max(bar[2], other[2]), max(bar[3], other[3])
                break
        else:
            out.append(bar)
    return out


def _joined(boxes: list[Pixels], reach: int, letters: Mask) -> list[Pixels]:
    """Boxes whose gap is small and free of lines of text, made one, until none is left; boxes in boxes go too."""
    boxes = list(boxes)
    merged = True
    while merged:
        merged = False
        for i in range(len(boxes)):
            for j in range(i + 1, len(boxes)):
                if _belong(boxes[i], boxes[j], reach, letters):
                    a, b = boxes[i], boxes.pop(j)
                    boxes[i] = (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
                    merged = True
                    break
            if merged:
                break
    return boxes


def _belong(a: Pixels, b: Pixels, reach: int, letters: Mask) -> bool:
    across, along = max(a[0], b[0]) - min(a[2], b[2]), max(a[1], b[1]) - min(a[3], b[3])
    if across < 0 and along < 0:
        return True
    shared = -across if across < 0 else -along
    least = min(a[2] - a[0], b[2] - b[0]) if across < 0 else min(a[3] - a[1], b[3] - b[1])
    if max(across, along) > reach or min(across, along) >= 0 or shared < 0.5 * least or least < reach / 3:
        return False
    if along >= 0:  # one above the other: a line of text between keeps them apart
        between = letters[min(a[3], b[3]) : max(a[1], b[1]), max(a[0], b[0]) : min(a[2], b[2])]
    else:
        between = letters[max(a[1], b[1]) : min(a[3], b[3]), min(a[2], b[2]) : max(a[0], b[0])]
    return not between.size or float(between.mean(1 if along >= 0 else 0).max()) < 0.12


def _piece(
    box: Pixels, grey: Mask, coloured: NDArray[np.bool_], ink: Mask, lines: Mask, letters: Mask, through: int
) -> Piece:
    x0, y0, x1, y1 = box
    here = np.s_[y0:y1, x0:x1]
    part = ink[here] > 0
    solid = part & (lines[here] == 0)
    amount = max(int(part.sum()), 1)
    return Piece(
        box,
        float(part.mean()),
        float(solid.mean()),
        float(letters[here].mean()),
        _tones(solid, grey[here]),
        float((coloured[here] & part).sum()) / amount,
        _least_edge(part),
        through,
    )


def _least_edge(part: NDArray[Any]) -> float:
    """How much of the four edges of a piece (h, w) is inked, the least of the four."""
    edge = max(1, min(3, part.shape[0] // 5, part.shape[1] // 5))
    edges = (part[:edge].any(0), part[-edge:].any(0), part[:, :edge].any(1), part[:, -edge:].any(1))
    return min(float(e.mean()) for e in edges)


def _through(box: Pixels, straight: Straight) -> int:
    """How many lines run along almost all of a box's width or height."""
    x0, y0, x1, y1 = box
    across, along = straight
    wide = np.minimum(across[:, 2], x1) - np.maximum(across[:, 0], x0) > 0.8 * (x1 - x0)
    tall = np.minimum(along[:, 3], y1) - np.maximum(along[:, 1], y0) > 0.8 * (y1 - y0)
    level = (across[:, 1] >= y0 - 2) & (across[:, 3] <= y1 + 2)
    beside = (along[:, 0] >= x0 - 2) & (along[:, 2] <= x1 + 2)
    return int((wide & level).sum() + (tall & beside).sum())


def _filled(shape: tuple[int, ...], boxes: NDArray[np.float64]) -> Mask:
    """1 where a word is, with a little around it."""
    mask = np.zeros(shape[:2], np.uint8)
    for x0, y0, x1, y1 in boxes.tolist():
        pad = max(2.0, 0.15 * (y1 - y0))
        left, top = max(0, round(x0 - pad)), max(0, round(y0 - pad))
        mask[top : max(0, round(y1 + pad)), left : max(0, round(x1 + pad))] = 1
    return mask


def _most(image: Any) -> Mask:
    """The largest of the three channels (H, W)."""
    red, green, blue = cv2.split(image)
    return np.asarray(cv2.max(cv2.max(red, green), blue), np.uint8)


def _grown(mask: Any, reach: int) -> Mask:
    return np.asarray(cv2.dilate(np.asarray(mask, np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)))


def _both(lines: Any) -> Mask:
    return np.asarray(np.maximum(lines[0], lines[1]), np.uint8)


def _boxes_of(mask: Mask) -> NDArray[np.float64]:
    """(n, 4) around the connected parts of a mask."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask)
    x, y, w, h = stats[1:, :4].astype(np.float64).T
    return np.stack([x, y, x + w, y + h], 1)


def _scaled(box: Pixels, factor: float) -> Corners:
    x0, y0, x1, y1 = (float(v) * factor for v in box)
    return x0, y0, x1, y1
