"""A question's fields over what pages look like: hidden states of a vision-language model at the patches of a page.

The question stands before the picture, so that under causal attention the states know what is asked for. Beside them
goes where there is ink: a place of bare paper is no evidence.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backbone.contracts import Image, check_image
from backbone.errors import ConfigError, DataError, ModelError
from backbone.vlm import VLM
from docparse.documents.ink import ink_of
from docparse.flow.grids import Support

FloatArray = NDArray[np.float32]
Mask = NDArray[np.bool_]
Boxes = NDArray[np.floating]  # (n, 4) in page units

# OUR CHOICE, all of them
PROMPT = "Locate what answers this question: {question}"
INK = 4  # pixels of the picture looked at along a block of the ink's map
INKED = 0.06  # of a block's pixels: with less, it is paper
KEPT = 128  # grids of pages and questions that a session keeps


@dataclass(frozen=True)
class PatchConfig:
    """How pages are looked at. All numbers OUR CHOICE."""

    backbone: str = "nano"  # nano, a hub id or a directory: whatever VLM.load takes and has hidden states
    longest: int = 1024  # pixels of a page's longer side, as the backbone sees it; smaller pages stay as they are
    layer: int = -1  # whose hidden states; -1: the last one's after the norm
    width: int = 160  # numbers a patch: those of a wider backbone are projected
    pages: int = 8  # most pages looked at for a question
    fingerprint: str = ""  # of the backbone's weights, once known

    def __post_init__(self) -> None:
        if not self.backbone or self.longest < 32 or self.width < 1 or self.pages < 1:
            raise ConfigError(f"patches: a backbone, longest >= 32, width >= 1 and pages >= 1 are needed, got {self}")


@dataclass(frozen=True, eq=False)
class PagePatches:
    """What one page looks like to one question: ``values`` (R, C, D) of patches that tile the page, and its ``ink``."""

    values: FloatArray
    ink: Mask  # (H, W) blocks that tile the page as well

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.ink.ndim != 2 or not self.values.size or not self.ink.size:
            raise DataError(f"patches: (R, C, D) and ink (H, W) expected, got {self.values.shape}, {self.ink.shape}")


@dataclass(frozen=True, eq=False)
class PatchField:
    """The pages of a document that were looked at for a question, by index; all of one width."""

    pages: Mapping[int, PagePatches]
    width: int
    _sums: dict[int, Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        widths = {page.values.shape[2] for page in self.pages.values()}
        if widths - {self.width}:
            raise DataError(f"patches: pages of {sorted(widths)} numbers a patch, expected {self.width}")

    def pooled(self, support: Support) -> Tensor:
        """(N, width + 1) the area-weighted mean of the patches under each particle, then 1; zeros on pages not seen."""
        out = torch.zeros(len(support), self.width + 1)
        for index, page in self.pages.items():
            here = (support.pages == index).nonzero()[:, 0]
            if not len(here):
                continue
            if index not in self._sums:
                self._sums[index] = _sums(torch.from_numpy(page.values))
            boxes = _within(support, here, index)
            out[here, :-1] = _means(self._sums[index], boxes)
            out[here, -1] = 1
        return out

    def inked(self, support: Support) -> Tensor:
        """(N,) bool: whether there is ink in any block that a particle's box touches; False on pages not seen."""
        out = torch.zeros(len(support), dtype=torch.bool)
        for index, page in self.pages.items():
            here = (support.pages == index).nonzero()[:, 0]
            if not len(here):
                continue
            height, width = page.ink.shape
            total = torch.from_numpy(np.pad(page.ink.astype(np.int64), ((1, 0), (1, 0))).cumsum(0).cumsum(1))
            x0, y0, x1, y1 = (_within(support, here, index) * torch.tensor([width, height] * 2)).unbind(1)
            left, top = (v.add(1e-6).floor().long() for v in (x0, y0))
            right = x1.sub(1e-6).ceil().long().clamp(max=width)
            below = y1.sub(1e-6).ceil().long().clamp(max=height)
            count = total[below, right] - total[top, right] - total[below, left] + total[top, left]
            out[here] = count > 0
        return out

    def without(self, boxes: Boxes, pages: NDArray[np.integer], extents: Sequence[tuple[float, float]]) -> PatchField:
        """The same with the ink inside boxes (n, 4) of pages (n,) taken out: what is left is no word of those."""
        bare = {}
        for index, page in self.pages.items():
            ink = page.ink.copy()
            height, width = ink.shape
            scale = np.array([width / extents[index][0], height / extents[index][1]] * 2)
            for x0, y0, x1, y1 in boxes[pages == index] * scale:
                ink[max(0, math.floor(y0)) : math.ceil(y1), max(0, math.floor(x0)) : math.ceil(x1)] = False
            bare[index] = replace(page, ink=ink)
        return PatchField(bare, self.width, self._sums)

    def tight(self, page: int, box: Sequence[float], extent: tuple[float, float]) -> tuple[float, float, float, float]:
        """A box in page units, shrunk to the ink in it; as it was where there is none or the page was not seen."""
        x0, y0, x1, y1 = (float(v) for v in box)
        if page not in self.pages:
            return x0, y0, x1, y1
        ink = self.pages[page].ink
        sx, sy = ink.shape[1] / extent[0], ink.shape[0] / extent[1]
        left, top = max(0, round(x0 * sx)), max(0, round(y0 * sy))
        rows, columns = np.nonzero(ink[top : round(y1 * sy), left : round(x1 * sx)])
        if not len(rows):
            return x0, y0, x1, y1
        return (
            max(x0, (left + int(columns.min())) / sx),
            max(y0, (top + int(rows.min())) / sy),
            min(x1, (left + int(columns.max()) + 1) / sx),
            min(y1, (top + int(rows.max()) + 1) / sy),
        )


class PatchSeer:
    """A backbone that looks at pages with a question in mind; shareable, keeps nothing of a call."""

    def __init__(self, vlm: VLM, config: PatchConfig) -> None:
        """``vlm`` is the model that ``config`` names.

        Raises:
            UnsupportedError: an engine without hidden states, such as a server.
            ModelError: other weights than those with this fingerprint.
        """
        found = vlm.fingerprint()
        if config.fingerprint and found != config.fingerprint:
            raise ModelError(
                f"patches: the reader was trained on {config.backbone} with the fingerprint {config.fingerprint}, "
                f"{vlm.name} has {found}; load those weights, or make patches and train anew with these"
            )
        self.vlm, self.config = vlm, replace(config, fingerprint=found)

    @classmethod
    def load(cls, config: PatchConfig) -> PatchSeer:
        """The backbone by its name. Raises as `VLM.load` and the constructor."""
        return cls(VLM.load(config.backbone), config)

    def look(self, image: Image, question: str) -> PagePatches:
        """A page (H, W, 3) as one question sees it.

        Raises:
            DataError: no such layer, or what is no picture.
        """
        picture = shown(image, self.config.longest)
        content = [{"type": "text", "text": PROMPT.format(question=question)}, {"type": "image", "image": picture}]
        states = self.vlm.image_states([{"role": "user", "content": content}], layer=self.config.layer)[0]
        return PagePatches(reduced(states.cpu(), self.config.width).numpy(), ink_blocks(picture))

    def session(self) -> PatchSession:
        """For the questions to one document."""
        return PatchSession(self)


class PatchSession:
    """The grids of one document, kept by page and question (the last `KEPT`); no other document's."""

    def __init__(self, seer: PatchSeer) -> None:
        """Empty."""
        self.seer = seer
        self._known: OrderedDict[tuple[int, str], PagePatches] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, page: int, image: Image, question: str) -> PagePatches:
        """`PatchSeer.look` at page ``page``, once for each question."""
        key = page, question
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        made = self.seer.look(image, question)
        with self._lock:
            self._known[key] = made
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return made

    def known(self, page: int, question: str) -> bool:
        """Whether `look` would have to compute nothing."""
        with self._lock:
            return (page, question) in self._known


def shown(image: Image, longest: int) -> Image:
    """The page as the backbone sees it: its longer side at most ``longest`` pixels."""
    image = check_image(image, "page")
    factor = longest / max(image.shape[:2])
    if factor >= 1:
        return image
    size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
    return np.ascontiguousarray(np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8))


def ink_blocks(image: Image) -> Mask:
    """(H, W) which blocks of about `INK` pixels hold ink."""
    rows, columns = (max(1, round(side / INK)) for side in image.shape[:2])
    share = cv2.resize(ink_of(image).astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(share > INKED, np.bool_)


def reduced(states: Tensor, width: int) -> Tensor:
    """States (R, C, D) centred and scaled to unit variance patch by patch, in ``width`` numbers each.

    A wider state is projected by signs that are the same everywhere, so that distances keep their proportions
    about; a narrower one gets zeros.
    """
    states = torch.nn.functional.layer_norm(states.float(), states.shape[-1:])
    wide = states.shape[-1]
    if wide <= width:
        return torch.nn.functional.pad(states, (0, width - wide))
    signs = np.random.default_rng(wide).integers(0, 2, (wide, width), dtype=np.int8)
    return states @ (torch.from_numpy(signs).float() * 2 - 1) / math.sqrt(wide)


def _within(support: Support, index: Tensor, page: int) -> Tensor:
    """(n, 4) boxes of particles as shares of their page, float64, inside it and never without area."""
    width, height = support.grid.extent(page)
    boxes = support.boxes[index].double() / torch.tensor([width, height] * 2, dtype=torch.float64)
    low = boxes[:, :2].clamp(0, 1 - 1e-6)
    return torch.cat([low, torch.maximum(boxes[:, 2:].clamp(0, 1), low + 1e-6)], 1)


def _sums(values: Tensor) -> Tensor:
    """(R + 1, C + 1, D) float64 sums over all patches above and left of each corner."""
    total = values.double().cumsum(0).cumsum(1)
    return torch.nn.functional.pad(total, (0, 0, 1, 0, 1, 0))


def _means(sums: Tensor, boxes: Tensor) -> Tensor:
    """(n, D) means over boxes (n, 4) given as shares: the integral is linear between the corners of patches."""
    rows, columns = sums.shape[0] - 1, sums.shape[1] - 1
    x0, y0, x1, y1 = (boxes * torch.tensor([columns, rows] * 2)).unbind(1)
    total = _at(sums, x1, y1) - _at(sums, x0, y1) - _at(sums, x1, y0) + _at(sums, x0, y0)
    return (total / ((x1 - x0) * (y1 - y0))[:, None]).float()


def _at(sums: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(n, D) the integral up to points, between the four corners around each."""
    column = x.floor().long().clamp(max=sums.shape[1] - 2)
    row = y.floor().long().clamp(max=sums.shape[0] - 2)
    u, v = (x - column)[:, None], (y - row)[:, None]
    upper = (1 - u) * sums[row, column] + u * sums[row, column + 1]
    lower = (1 - u) * sums[row + 1, column] + u * sums[row + 1, column + 1]
    return (1 - v) * upper + v * lower
