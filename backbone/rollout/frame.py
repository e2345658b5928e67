"""One frame of an episode's film: the cameras side by side, the map, and a strip that says what is going on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

from backbone.contracts import ActionSpec, Image

PANEL_HEIGHT = 256
GAP = 8
MIN_WIDTH = 640
STRIP_HEIGHT = 168
LINE = 20
THOUGHT_LINES = 2
BACKGROUND, PANEL, TEXT, QUIET = (18, 20, 24), (34, 38, 45), (236, 238, 241), (150, 157, 168)
BLUE, GREEN, RED, AMBER = (92, 156, 255), (88, 196, 120), (235, 96, 92), (238, 178, 72)
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Caption:
    """What the strip says beside the pictures."""

    title: str  # world, episode, agent
    instruction: str = ""
    step: int = 0
    max_steps: int = 0
    spec: ActionSpec | None = None
    action: Sequence[float] | None = None  # (A,)
    status: str = ""
    reasoned: bool = False
    thought: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)  # a few measures, for example a distance
    outcome: str = ""  # at the end: what came of it
    success: bool = False


class Layout:
    """Fixed sizes of all panels, taken from an episode's first pictures, so that every frame has the same even size."""

    def __init__(self, pictures: Mapping[str, Image]) -> None:
        """``pictures`` by name, in the order in which they stand side by side."""
        self.panels = {name: (_even(_width(picture)), PANEL_HEIGHT) for name, picture in pictures.items()}
        row = sum(width for width, _ in self.panels.values()) + GAP * (len(self.panels) + 1)
        self.width = _even(max(MIN_WIDTH, row))
        self.height = _even(PANEL_HEIGHT + 2 * GAP + STRIP_HEIGHT)
        self._left = (self.width - row) // 2 + GAP

    def compose(self, pictures: Mapping[str, Image], caption: Caption) -> Image:
        """A frame uint8 (height, width, 3)."""
        canvas = Pictures.new("RGB", (self.width, self.height), BACKGROUND)
        draw = ImageDraw.Draw(canvas)
        left = self._left
        for name, (width, height) in self.panels.items():
            box = (left, GAP, left + width, GAP + height)
            draw.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=PANEL)
            if name in pictures:
                _paste(canvas, pictures[name], box)
            _tag(draw, (left + 4, GAP + 4), name)
            left += width + GAP
        _strip(draw, (GAP, PANEL_HEIGHT + 2 * GAP), self.width - 2 * GAP, caption)
        return np.asarray(canvas)


def _strip(draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, caption: Caption) -> None:
    x, y = corner
    right = x + width
    progress = f"step {caption.step} / {caption.max_steps}" if caption.max_steps else f"step {caption.step}"
    badge, colour = _badge(caption)
    badge_width = _length(badge, 14) + 16
    draw.rounded_rectangle((right - badge_width, y, right, y + LINE), 5, fill=colour)
    draw.text((right - badge_width + 8, y + 2), badge, BACKGROUND, _font(14))
    end = right - badge_width - 10 - _length(progress, 14)
    draw.text((end, y + 2), progress, TEXT, _font(14))
    draw.text((x, y + 2), _shortened(caption.title, 14, end - x - 12), QUIET, _font(14))
    y += LINE + 4
    numbers = "   ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in caption.numbers.items())
    end = right - _length(numbers, 13)
    draw.text((end, y), numbers, QUIET, _font(13))
    draw.text((x, y), _shortened(caption.instruction, 15, end - x - 12), TEXT, _font(15))
    y += LINE + 4
    _actions(draw, (x, y), width, caption)
    y += 2 * LINE + 8
    _thought(draw, (x, y), width, caption)


def _badge(caption: Caption) -> tuple[str, Colour]:
    if caption.outcome:
        return caption.outcome, GREEN if caption.success else RED
    return ("success", GREEN) if caption.success else ("running", QUIET)


def _actions(draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, caption: Caption) -> None:
    """Every action's name and value with a bar from its rest to where it is; a discrete one by its choice's name."""
    x, y = corner
    spec, action = caption.spec, caption.action
    if spec is None or action is None:
        draw.text((x, y), "no action yet", QUIET, _font(13))
        return
    if spec.kind == "discrete":
        names = spec.choices or tuple(str(i) for i in range(round(spec.low[0]), round(spec.high[0]) + 1))
        chosen = round(action[0] - spec.low[0])
        _choices(draw, (x, y), width, names, chosen)
        return
    cell = min(150, width // len(spec.names))
    for number, (name, value, low, high) in enumerate(zip(spec.names, action, spec.low, spec.high, strict=True)):
        left = x + number * cell
        draw.text((left, y), _shortened(f"{name} {value:+.2f}", 12, cell - 8), TEXT, _font(12))
        end = left + cell - 10
        draw.rectangle((left, y + 18, end, y + 26), fill=PANEL)
        rest = min(max(0.0, low), high)
        a, b = (left + (end - left) * (min(max(v, low), high) - low) / (high - low) for v in (rest, value))
        draw.rectangle((min(a, b), y + 18, max(a, b, min(a, b) + 1), y + 26), fill=BLUE)


def _choices(draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, names: Sequence[str], chosen: int) -> None:
    x, y = corner
    limit = x + width
    for number, name in enumerate(names):
        size = _length(name, 13) + 14
        if x + size > limit:
            return
        draw.rounded_rectangle((x, y + 2, x + size, y + 24), 5, fill=BLUE if number == chosen else PANEL)
        draw.text((x + 7, y + 5), name, BACKGROUND if number == chosen else QUIET, _font(13))
        x += size + 6


def _thought(draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, caption: Caption) -> None:
    x, y = corner
    dot = AMBER if caption.reasoned else PANEL
    draw.ellipse((x, y + 4, x + 9, y + 13), fill=dot)
    state = "reasoned" if caption.reasoned else "acted at once"
    label = f"{state}, status {caption.status}" if caption.status else state
    draw.text((x + 15, y + 1), label, AMBER if caption.reasoned else QUIET, _font(13))
    for number, line in enumerate(wrapped(caption.thought, 13, width, THOUGHT_LINES), 1):
        draw.text((x, y + number * (LINE - 2) + 2), line, TEXT, _font(13))


def wrapped(text: str, size: int, width: int, lines: int) -> list[str]:
    """``text`` in at most ``lines`` lines of ``width`` pixels, the last one shortened with an ellipsis."""
    words = text.split()
    result: list[str] = []
    while words and len(result) < lines:
        if len(result) == lines - 1:
            result.append(_shortened(" ".join(words), size, width))
            break
        count = 1
        while count < len(words) and _length(" ".join(words[: count + 1]), size) <= width:
            count += 1
        result.append(_shortened(" ".join(words[:count]), size, width))
        words = words[count:]
    return result


def _shortened(text: str, size: int, width: float) -> str:
    text = " ".join(text.split())
    if _length(text, size) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _length(text[:middle] + "...", size) <= width else (low, middle - 1)
    return text[:low].rstrip() + "..." if low else ""


def _paste(canvas: Pictures.Image, picture: Image, box: tuple[int, int, int, int]) -> None:
    """Fit a picture into its panel, keeping its shape."""
    width, height = box[2] - box[0], box[3] - box[1]
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    fitted = Pictures.fromarray(picture).resize(
        size, Pictures.Resampling.BICUBIC if scale > 1 else Pictures.Resampling.BOX
    )
    canvas.paste(fitted, (box[0] + (width - size[0]) // 2, box[1] + (height - size[1]) // 2))


def _tag(draw: ImageDraw.ImageDraw, corner: tuple[int, int], name: str) -> None:
    x, y = corner
    draw.rounded_rectangle((x, y, x + _length(name, 11) + 8, y + 16), 4, fill=BACKGROUND)
    draw.text((x + 4, y + 2), name, QUIET, _font(11))


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    if size not in _FONTS:
        _FONTS[size] = ImageFont.load_default(size)
    return _FONTS[size]


_FONTS: dict[int, ImageFont.ImageFont | ImageFont.FreeTypeFont] = {}


def _length(text: str, size: int) -> int:
    return math.ceil(_font(size).getlength(text))


def _width(picture: Image) -> int:
    height, width = picture.shape[:2]
    return int(np.clip(round(width * PANEL_HEIGHT / height), 64, 3 * PANEL_HEIGHT))


def _even(value: int) -> int:
    return value + value % 2
