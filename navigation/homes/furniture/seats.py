"""Things to sit and lie on: chairs, stools, sofas, armchairs, benches, beds, and what lies on them."""

from __future__ import annotations

from navigation.homes.parts import Parts


def chair(p: Parts, w: float, h: float, d: float) -> None:
    """A seat at 0.45 m with a back; four-legged, cantilevered slats, or on an office star. Frame, seat."""
    seat, style = 0.45, p.random.choice(("solid", "slats", "office"))
    p.block((0, seat - 0.05, 0), (w, 0.06, d), 1)
    if style == "office":
        p.rod((0, 0.06, 0), 0.03, seat - 0.1, 0)
        for yaw in (0, 60, 120):
            p.block((0, 0.02, 0), (w, 0.05, 0.06), 0, turn=(0, yaw, 0))
        p.block((0, seat + 0.08, -d / 2 + 0.04), (w * 0.9, h - seat - 0.08, 0.05), 1, turn=(-8, 0, 0))
        for side in (-1, 1):
            p.block((side * (w / 2 - 0.03), seat + 0.18, 0), (0.05, 0.03, d * 0.6), 0)
            p.block((side * (w / 2 - 0.03), seat, 0), (0.03, 0.18, 0.05), 0)
        return
    p.legs((w, 0, d), 0.045, seat - 0.05)
    for side in (-1, 1):
        p.block((side * (w / 2 - 0.025), seat, -d / 2 + 0.025), (0.045, h - seat, 0.045))
    if style == "solid":
        p.block((0, seat + (h - seat) * 0.3, -d / 2 + 0.03), (w - 0.09, (h - seat) * 0.65, 0.03), 1)
    else:
        for i in range(3):
            p.block((0, seat + (h - seat) * (0.25 + 0.25 * i), -d / 2 + 0.03), (w - 0.09, 0.06, 0.025))


def stool(p: Parts, w: float, h: float, d: float) -> None:
    """A seat without a back, round or square, on legs with a ring. Frame, seat."""
    if p.random.random() < 0.6:
        p.body((0, h - 0.06, 0), ((w / 2, 0), (w / 2, 0.06)), 1, sides=12)
    else:
        p.block((0, h - 0.06, 0), (w * 0.95, 0.06, d * 0.95), 1)
    p.legs((w * 0.8, 0, d * 0.8), 0.035, h - 0.06)
    for side in (-1, 1):
        p.block((side * w * 0.37, h * 0.35, 0), (0.025, 0.025, d * 0.75))
        p.block((0, h * 0.35, side * d * 0.37), (w * 0.75, 0.025, 0.025))


def _upholstered(p: Parts, w: float, h: float, d: float, places: int) -> None:
    arm, seat, back = 0.16, 0.42, 0.2
    p.block((0, 0.06, 0), (w, 0.22, d), 0)
    p.block((0, 0.06, -d / 2 + back / 2), (w, h - 0.06, back), 0)
    for side in (-1, 1):
        p.block((side * (w / 2 - arm / 2), 0.06, 0.0), (arm, min(0.58, h - 0.12), d), 0)
    inner = (w - 2 * arm) / places
    for i in range(places):
        x = (i - (places - 1) / 2) * inner
        p.block((x, 0.28, back / 2), (inner - 0.02, seat - 0.28, d - back), 1)
        p.block((x, seat, -d / 2 + back + 0.06), (inner - 0.03, (h - seat) * 0.85, 0.12), 1, turn=(-10, 0, 0))
    for sx in (-1, 1):
        for sz in (-1, 1):
            p.block((sx * (w / 2 - 0.08), 0, sz * (d / 2 - 0.08)), (0.06, 0.06, 0.06), 2)


def sofa(p: Parts, w: float, h: float, d: float) -> None:
    """Two or three places between arms. Cover, cushions, feet."""
    _upholstered(p, w, h, d, 3 if w > 1.9 else 2)


def seating(p: Parts, w: float, h: float, d: float) -> None:
    """An armchair, or for wide ones a padded bench without a back. Cover, cushion, feet."""
    if w <= 1.0:
        _upholstered(p, w, h, d, 1)
        return
    p.legs((w, 0, d), 0.06, 0.3, 2, 0.04)
    p.block((0, 0.3, 0), (w, 0.06, d), 2)
    p.block((0, 0.36, 0), (w, h - 0.36, d), 0)


def bed(p: Parts, w: float, h: float, d: float) -> None:
    """A mattress in a frame, a head board at the back, pillows, a blanket. Frame, sheet, blanket."""
    top = 0.5
    p.block((0, 0.08, 0.0), (w, 0.22, d), 0)
    p.legs((w, 0, d), 0.08, 0.08, 0, 0.02)
    p.block((0, 0.3, 0.02), (w - 0.06, top - 0.3, d - 0.1), 1)
    p.block((0, 0.0, -d / 2 + 0.04), (w, h, 0.08), 0)
    if p.random.random() < 0.5:
        p.block((0, 0.0, d / 2 - 0.03), (w, 0.55, 0.06), 0)
    length = d * p.random.uniform(0.5, 0.66)
    p.block((0, 0.29, d / 2 - 0.05 - length / 2), (w - 0.02, top - 0.27, length - 0.02), 2, repeat=0.6)
    count = 2 if w > 1.2 else 1
    for i in range(count):
        x = (i - (count - 1) / 2) * w * 0.46
        p.block((x, top, -d / 2 + 0.32), (min(0.62, w * 0.42), 0.12, 0.4), 1, turn=(-12, 0, 0))


def cushion(p: Parts, w: float, h: float, d: float) -> None:
    """A small pillow that leans back. Cover."""
    p.block((0, 0.02, 0), (w, h * 0.92, d * 0.5), 0, turn=(-20, 0, 0))
    p.block((0, h * 0.18, 0), (w * 0.7, h * 0.62, d), 0, turn=(-20, 0, 0))


def clothes(p: Parts, w: float, h: float, d: float) -> None:
    """A folded heap; taller ones hang from a rail on two posts. Three cloths, rail."""
    if h < 0.5:
        level = 0.0
        for i in range(3):
            high = h / 3
            shrink = 1 - 0.12 * i
            p.block((p.random.uniform(-0.02, 0.02), level, 0), (w * shrink, high, d * shrink), i)
            level += high
        return
    for side in (-1, 1):
        p.block((side * (w / 2 - 0.03), 0, 0), (0.05, h, 0.05), 3)
        p.block((side * (w / 2 - 0.03), 0, 0), (0.06, 0.26, d), 3)
    p.block((0, h - 0.08, 0), (w, 0.04, 0.04), 3)
    p.block((0, 0.2, 0), (w - 0.06, 0.06, d * 0.8), 3)
    count = max(int(w / 0.13), 3)
    for i in range(count):
        x = -w / 2 + (i + 0.5) * w / count
        long = p.random.uniform(0.6, h - 0.45)
        wide = p.random.uniform(0.8, 1.0) * d
        p.block((x, h - 0.1 - long, 0), (w / count * 0.6, long, wide), i % 3)
        p.block((x, h - 0.1, 0), (0.02, 0.03, 0.1), 3)
