"""Pictures, screens, plants, machines for exercise, and clutter."""

from __future__ import annotations

import math

from navigation.homes.parts import Parts


def picture(p: Parts, w: float, h: float, d: float) -> None:
    """A painting in a frame. Painting, frame."""
    rim = p.random.uniform(0.02, 0.05)
    p.block((0, rim, -d * 0.1), (w - 2 * rim, h - 2 * rim, d * 0.6), 0)
    for side in (-1, 1):
        p.block((side * (w - rim) / 2, 0, 0), (rim, h, d), 1)
    for low in (0.0, h - rim):
        p.block((0, low, 0), (w - 2 * rim, rim, d), 1)


def mirror(p: Parts, w: float, h: float, d: float) -> None:
    """A pane in a frame. Glass, frame."""
    picture(p, w, h, d)


def tv_monitor(p: Parts, w: float, h: float, d: float) -> None:
    """A flat screen, on a foot unless it hangs. Screen, case."""
    foot = 0.08 if d > 0.1 else 0.0
    p.block((0, foot, 0.0), (w, h - foot, 0.04), 1)
    p.block((0, foot + 0.01, 0.022), (w - 0.02, h - foot - 0.02, 0.01), 0)
    p.block((0, foot + (h - foot) * 0.2, -0.025), (w * 0.5, (h - foot) * 0.5, 0.03), 1)
    if foot:
        p.block((0, 0.015, -0.01), (0.06, foot, 0.03), 1)
        p.block((0, 0, 0), (w * 0.4, 0.015, d), 1)


def plant(p: Parts, w: float, h: float, d: float) -> None:
    """Leaves over a pot: a bush, a palm or upright blades. Leaves, pot, stem."""
    pot = min(0.34 * h, 0.36)
    r = w * 0.24
    p.body((0, 0, 0), ((r * 0.75, 0), (r, pot), (r * 0.85, pot), (r * 0.8, pot * 0.9)), 1, top=2, sides=10)
    style = p.random.choice(("bush", "palm", "blades"))
    rest = h - pot
    if style == "bush":
        p.rod((0, pot * 0.9, 0), 0.02, rest * 0.5, 2)
        for i in range(6):
            angle, far = i * 2.4, w * (0.1 + 0.12 * p.random.random())
            size = rest * p.random.uniform(0.36, 0.5)
            x, z, low = far * math.cos(angle), far * math.sin(angle), pot + (rest - size) * (0.15 + i * 0.17)
            radius = min(size / 2, w / 2 - far)
            ball = (
                (0.01, 0.0),
                (0.75 * radius, size * 0.2),
                (radius, size * 0.55),
                (0.6 * radius, size * 0.9),
                (0.01, size),
            )
            p.body((x, low, z), ball, 0, sides=7)
        return
    count = 9 if style == "palm" else 7
    if style == "palm":
        p.rod((0, pot * 0.9, 0), 0.025, rest * 0.55, 2)
    for i in range(count):
        yaw = 360 / count * i + p.random.uniform(-10, 10)
        lean = p.random.uniform(42, 66) if style == "palm" else p.random.uniform(6, 20)
        long = min(rest * (0.55 if style == "palm" else 0.9), w * 0.5 / max(math.sin(math.radians(lean)), 0.2))
        low = pot + (rest * 0.45 if style == "palm" else -0.02)
        out = long / 2 * math.sin(math.radians(lean))
        up = long / 2 * math.cos(math.radians(lean))
        x, z = out * math.sin(math.radians(yaw)), out * math.cos(math.radians(yaw))
        p.block((x, low + up - long / 2, z), (0.09 if style == "palm" else 0.06, long, 0.012), 0, turn=(lean, yaw, 0))


def gym_equipment(p: Parts, w: float, h: float, d: float) -> None:
    """A treadmill, an exercise bike or a weight bench with a barbell. Frame, pad, plates."""
    style = p.random.choice(("treadmill", "bike", "bench"))
    if style == "treadmill":
        p.block((0, 0, 0), (w, 0.25, d), 0)
        p.block((0, 0.25, 0.1), (w * 0.7, 0.01, d - 0.3), 1)
        for side in (-1, 1):
            p.block((side * (w / 2 - 0.04), 0.25, -d / 2 + 0.15), (0.06, h - 0.3, 0.08), 0)
            p.block((side * (w / 2 - 0.04), h * 0.72, -d / 2 + 0.4), (0.05, 0.05, 0.5), 2)
        p.block((0, h - 0.2, -d / 2 + 0.15), (w, 0.2, 0.08), 2, turn=(-15, 0, 0))
    elif style == "bike":
        for z in (-1, 1):
            p.block((0, 0, z * (d / 2 - 0.06)), (w * 0.8, 0.26, 0.1), 0)
        p.block((0, 0.1, 0), (0.1, 0.18, d - 0.1), 0)
        p.body(
            (0, 0.2, -d * 0.22), ((0.04, 0), (0.26, 0.02), (0.26, 0.16), (0.04, 0.18)), 2, sides=12, squash=(0.4, 1.0)
        )
        p.block((0, 0.2, d * 0.2), (0.06, 0.65, 0.06), 0)
        p.block((0, 0.85, d * 0.22), (0.24, 0.08, 0.28), 1)
        p.block((0, 0.2, -d * 0.35), (0.06, h - 0.25, 0.06), 0)
        p.block((0, h - 0.08, -d * 0.35), (w * 0.9, 0.05, 0.05), 2)
        p.block((0, h - 0.02, -d * 0.38), (0.2, 0.14, 0.04), 2, turn=(-20, 0, 0))
    else:
        p.block((0, 0.38, 0.1), (w * 0.3, 0.08, d - 0.3), 1)
        p.block((0, 0, d / 2 - 0.2), (w * 0.3, 0.38, 0.08), 0)
        p.block((0, 0, -0.1), (w * 0.3, 0.38, 0.08), 0)
        for side in (-1, 1):
            p.block((side * w * 0.25, 0, -d / 2 + 0.2), (0.07, 0.98, 0.07), 0)
            p.block((side * w * 0.42, 0.72, -d / 2 + 0.2), (0.08, 0.46, 0.46), 2)
        p.block((0, 0.93, -d / 2 + 0.2), (w, 0.04, 0.04), 0)


def rug(p: Parts, w: float, h: float, d: float) -> None:
    """A flat carpet. Weave."""
    p.block((0, 0, 0), (w, h, d), 0)


def lamp(p: Parts, w: float, h: float, d: float) -> None:
    """A standing or table lamp. Shade, stand."""
    shade = min(0.3, h * 0.4)
    p.body((0, 0, 0), ((w * 0.36, 0), (w * 0.3, 0.03)), 1, sides=10)
    p.rod((0, 0.03, 0), 0.018, h - shade, 1)
    p.body((0, h - shade, 0), ((w / 2, 0), (w * 0.34, shade)), 0, sides=12)


def box(p: Parts, w: float, h: float, d: float) -> None:
    """A packing box or a basket. Side, top."""
    p.block((0, 0, 0), (w, h, d), 0, top=1)
    if p.random.random() < 0.5:
        p.block((0, h, 0), (w * 0.2, 0.005, d), 1)


def book(p: Parts, w: float, h: float, d: float) -> None:
    """A small pile of books. Three covers."""
    for i in range(3):
        p.block(
            (0, i * h / 3, 0), (w * (1 - 0.1 * i), h / 3, d * (1 - 0.08 * i)), i, turn=(0, p.random.uniform(-12, 12), 0)
        )


def vase(p: Parts, w: float, h: float, d: float) -> None:
    """A turned vase or bowl. Glaze."""
    r = w / 2
    p.body((0, 0, 0), ((r * 0.6, 0), (r, h * 0.45), (r * 0.45, h * 0.85), (r * 0.6, h)), 0, sides=12)


def bin(p: Parts, w: float, h: float, d: float) -> None:
    """A waste bin. Side, inside."""
    p.body((0, 0, 0), ((w * 0.38, 0), (w / 2, h), (w * 0.45, h), (w * 0.42, h * 0.7)), 0, top=1, sides=10)
