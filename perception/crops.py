"""From what the model wrote to close-ups of the original: which regions to cut out, and how large to show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backbone.contracts import Box, Image
from backbone.errors import DataError
from backbone.vlm import VLM
from perception.config import PerceptionConfig
from perception.parsing import Region
from perception.prompts import crop_tag
from perception.views import LargeImage, View, close_up, valid_region


@dataclass(frozen=True)
class Crop:
    """A close-up: its region in the original, the text shown before it, and its pixels."""

    box: Box
    tag: str
    image: Image = field(repr=False, compare=False)


def decode_regions(
    regions: Sequence[Region], view: View, vlm: VLM, config: PerceptionConfig
) -> tuple[list[Box], list[str]]:
    """Boxes of the original for the regions written about ``view``, and notes on those that are dropped."""
    boxes: list[Box] = []
    notes: list[str] = []
    width, height = view.original
    point_side = config.point_side_fraction * min(width, height)
    for region in regions:
        try:
            box = view.decode(region, vlm, max(point_side, 1.0))
        except DataError as error:
            notes.append(f"dropped a region: {error}")
            continue
        if box.area < config.min_area_fraction * width * height:
            notes.append(f"dropped a region of {box.width:.1f} x {box.height:.1f} pixels: too small to be meant")
            continue
        boxes.append(box)
    return boxes, notes


def widened(box: Box, original: tuple[int, int], config: PerceptionConfig) -> Box:
    """The region to cut out for ``box``: expanded about its centre, clipped, and at least of the minimum side.

    A region at the border is moved inside rather than cut below the minimum; an image smaller than the minimum is
    shown whole in that direction.
    """
    least = max(config.min_side, config.min_side_fraction * max(original))
    x0, x1 = _widened_side(box.x0, box.x1, original[0], config.box_expand, least)
    y0, y1 = _widened_side(box.y0, box.y1, original[1], config.box_expand, least)
    return valid_region(Box(x0, y0, x1, y1, box.label, box.score), original)


def _widened_side(low: float, high: float, limit: int, expand: float, least: float) -> tuple[float, float]:
    centre, half = (low + high) / 2, (high - low) / 2 * expand
    low, high = max(0.0, centre - half), min(float(limit), centre + half)
    side = min(least, limit)
    if high - low >= side:
        return low, high
    low = min(max(0.0, (low + high - side) / 2), limit - side)
    return low, low + side


def choose_regions(
    boxes: Sequence[Box], original: tuple[int, int], config: PerceptionConfig
) -> tuple[list[Box], list[str]]:
    """The regions to look at, best first: widened, without repetitions, at most ``max_crops``."""
    notes: list[str] = []
    chosen: list[Box] = []
    for box in sorted(boxes, key=lambda box: (-box.score, -box.area, box.corners)):
        region = widened(box, original, config)
        if any(region.iou(other) > config.duplicate_iou for other in chosen):
            continue
        chosen.append(region)
    if len(chosen) > config.max_crops:
        notes.append(f"looked at {config.max_crops} of {len(chosen)} regions")
    return chosen[: config.max_crops], notes


def cut(image: LargeImage, regions: Sequence[Box], shown: View, vlm: VLM, config: PerceptionConfig) -> list[Crop]:
    """A close-up of the original for every region, tagged with its place in the global view that the model sees."""
    crops = []
    for region in regions:
        view = close_up(image, region, config.crop_cap, config.crop_shortest)
        tag = crop_tag(region.label or "region", shown.encode(region, vlm))
        crops.append(Crop(replace(region), tag, view.image))
    return crops
