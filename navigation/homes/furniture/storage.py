"""Tables, cabinets, drawers, counters, shelves and kitchen machines."""

from __future__ import annotations

from navigation.homes.parts import Parts


def table(p: Parts, w: float, h: float, d: float) -> None:
    """A top on four legs, on two trestles, or, when square enough, round on one foot. Top, legs."""
    style = p.random.choice(("legs", "trestle", "round" if abs(w - d) < 0.25 else "legs"))
    if style == "round":
        r = min(w, d) / 2
        p.body((0, h - 0.04, 0), ((r, 0), (r, 0.04)), 0, sides=16)
        p.rod((0, 0.03, 0), 0.05, h - 0.07, 1, 8)
        p.body((0, 0, 0), ((r * 0.55, 0), (0.06, 0.05)), 1, sides=12)
        return
    p.block((0, h - 0.04, 0), (w, 0.04, d), 0)
    if style == "legs":
        p.legs((w, 0, d), 0.06, h - 0.04, 1, 0.03)
        for side in (-1, 1):
            p.block((0, h - 0.1, side * (d / 2 - 0.06)), (w - 0.15, 0.06, 0.03), 1)
            p.block((side * (w / 2 - 0.06), h - 0.1, 0), (0.03, 0.06, d - 0.15), 1)
        return
    for side in (-1, 1):
        x = side * (w / 2 - 0.12)
        p.block((x, 0.04, 0), (0.06, h - 0.08, 0.12), 1)
        p.block((x, 0, 0), (0.08, 0.05, d * 0.8), 1)
    p.block((0, h * 0.35, 0), (w - 0.24, 0.08, 0.04), 1)


def _fronts(p: Parts, w: float, low: float, high: float, z: float, rows: int, columns: int, doors: bool) -> None:
    """Front panels with handles, ``rows`` x ``columns`` of them. Material 1 for panels, 2 for handles."""
    tall, wide = (high - low) / rows, w / columns
    for i in range(rows):
        for j in range(columns):
            x, y = (j - (columns - 1) / 2) * wide, low + i * tall
            p.block((x, y + 0.01, z), (wide - 0.02, tall - 0.02, 0.02), 1)
            if doors:
                side = 1 if j % 2 == 0 else -1
                p.block(
                    (x + side * (wide / 2 - 0.05), y + tall * 0.4, z + 0.02), (0.02, min(0.16, tall * 0.3), 0.02), 2
                )
            else:
                p.block((x, y + tall * 0.5, z + 0.02), (min(0.14, wide * 0.4), 0.02, 0.02), 2)


def cabinet(p: Parts, w: float, h: float, d: float) -> None:
    """A cupboard with doors, tall as a wardrobe or low as a side board. Carcass, doors, handles."""
    p.block((0, 0.0, -0.02), (w, h, d - 0.06), 0)
    _fronts(
        p, w - 0.04, 0.08, h - 0.03, d / 2 - 0.04, 2 if h > 1.7 and p.random.random() < 0.4 else 1, _columns(w), True
    )
    p.block((0, h - 0.03, -0.01), (w, 0.03, d - 0.02), 0)


def _columns(w: float) -> int:
    return max(2, round(w / 0.45))


def chest_of_drawers(p: Parts, w: float, h: float, d: float) -> None:
    """Two to five rows of drawers on short feet. Carcass, fronts, handles."""
    p.legs((w, 0, d - 0.04), 0.05, 0.1, 0, 0.01)
    p.block((0, 0.1, -0.02), (w, h - 0.1, d - 0.05), 0)
    _fronts(p, w - 0.04, 0.13, h - 0.04, d / 2 - 0.035, max(2, round((h - 0.1) / 0.21)), 2 if w > 0.9 else 1, False)
    p.block((0, h - 0.03, -0.01), (w, 0.03, d - 0.02), 0)


def counter(p: Parts, w: float, h: float, d: float) -> None:
    """A kitchen block: plinth, doors and drawers, a stone top. Carcass, fronts, handles, top."""
    p.block((0, 0, -0.04), (w, 0.1, d - 0.08), 2)
    p.block((0, 0.1, -0.02), (w, h - 0.14, d - 0.06), 0)
    columns = max(1, round(w / 0.5))
    _fronts(p, w - 0.02, 0.12, h - 0.22, d / 2 - 0.045, 1, columns, True)
    _fronts(p, w - 0.02, h - 0.21, h - 0.05, d / 2 - 0.045, 1, columns, False)
    p.block((0, h - 0.04, 0), (w, 0.04, d), 3, repeat=1.0)


def shelf(p: Parts, w: float, h: float, d: float) -> None:
    """A book case. Frame, books, a second row of books."""
    p.block((0, 0, -d / 2 + 0.01), (w, h, 0.02), 0)
    for side in (-1, 1):
        p.block((side * (w / 2 - 0.015), 0, 0), (0.03, h, d), 0)
    rows = max(2, round(h / 0.36))
    tall = (h - 0.03) / rows
    for i in range(rows + 1):
        p.block((0, i * tall, 0), (w - 0.06, 0.03, d), 0)
        if i < rows and p.random.random() < 0.85:
            share = p.random.uniform(0.55, 1.0)
            wide = (w - 0.06) * share
            x = p.random.choice((-1, 1)) * (w - 0.06 - wide) / 2
            p.block((x, i * tall + 0.03, -0.02), (wide, tall * p.random.uniform(0.6, 0.85), d * 0.7), 1 + i % 2)


def refrigerator(p: Parts, w: float, h: float, d: float) -> None:
    """Two doors with long handles. Body, handles."""
    split = h * p.random.choice((0.35, 0.62))
    p.block((0, 0, -0.03), (w, h, d - 0.06), 0)
    for low, high in ((0.04, split - 0.01), (split + 0.01, h - 0.01)):
        p.block((0, low, d / 2 - 0.05), (w - 0.01, high - low, 0.04), 0)
        p.block((-w / 2 + 0.06, low + (high - low) * 0.3, d / 2 - 0.01), (0.03, (high - low) * 0.4, 0.03), 1)


def stove(p: Parts, w: float, h: float, d: float) -> None:
    """An oven with a hob on top. Body, hob, window, handle."""
    p.block((0, 0, -0.02), (w, h - 0.02, d - 0.06), 0)
    p.block((0, h - 0.02, -0.01), (w, 0.02, d - 0.02), 0, top=1)
    p.block((0, 0.18, d / 2 - 0.05), (w * 0.86, h * 0.5, 0.03), 2)
    p.block((0, 0.18 + h * 0.52, d / 2 - 0.03), (w * 0.7, 0.025, 0.04), 3)
    for i in range(4):
        p.block(((i - 1.5) * w * 0.2, h - 0.11, d / 2 - 0.05), (0.04, 0.04, 0.04), 2)


def fireplace(p: Parts, w: float, h: float, d: float) -> None:
    """A brick surround with a mantel, a fire inside, a chimney breast above. Bricks, mantel, fire."""
    side = w * 0.22
    for s in (-1, 1):
        p.block((s * (w / 2 - side / 2), 0, 0), (side, 0.85, d), 0, repeat=1.0)
    p.block((0, 0.7, 0), (w - 2 * side, 0.15, d), 0, repeat=1.0)
    p.block((0, 0, -d / 2 + 0.06), (w - 2 * side, 0.7, 0.1), 2)
    p.block((0, 0, 0.02), (w - 2 * side, 0.26, d * 0.5), 2)
    p.block((0, 0.85, 0.0), (w * 1.0, 0.08, d), 1)
    p.block((0, 0.93, -d * 0.2), (w * 0.72, h - 0.93, d * 0.6), 0, repeat=1.0)
