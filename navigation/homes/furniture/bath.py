"""What stands in a bathroom, and towels."""

from __future__ import annotations

from navigation.homes.parts import Parts


def toilet(p: Parts, w: float, h: float, d: float) -> None:
    """A bowl with seat, lid and cistern. Ceramic, seat, button."""
    p.body((0, 0, 0.06), ((0.12, 0), (0.11, 0.1), (0.19, 0.36), (0.19, 0.4)), 0, sides=12, squash=(w / 0.4, d / 0.52))
    ring = ((0.2, 0.4), (0.2, 0.44), (0.13, 0.44), (0.1, 0.36))
    p.body((0, 0, 0.06), ring, 1, sides=12, squash=(w / 0.42, d / 0.54))
    p.block((0, 0.0, -d / 2 + 0.12), (w * 0.55, 0.4, 0.22), 0)
    p.block((0, 0.4, -d / 2 + 0.09), (w, h - 0.43, 0.18), 0)
    p.block((0, h - 0.03, -d / 2 + 0.09), (w * 1.0, 0.03, 0.18), 0)
    p.block((0, h, -d / 2 + 0.09), (0.06, 0.015, 0.04), 2)
    if p.random.random() < 0.5:
        p.block((0, 0.45, -d / 2 + 0.21), (w * 0.9, 0.36, 0.03), 1, turn=(-8, 0, 0))


def sink(p: Parts, w: float, h: float, d: float) -> None:
    """A basin on a pedestal or on a small cabinet, with a tap. Ceramic, tap, cabinet."""
    if h < 0.4:  # set on a counter
        p.body((0, 0, 0.0), ((0.16, 0), (0.2, 0.1), (0.17, 0.1), (0.13, 0.03)), 0, sides=14, squash=(w / 0.4, d / 0.46))
        deck = 0.0
    else:
        if p.random.random() < 0.5:
            p.body((0, 0, -0.04), ((0.12, 0), (0.08, 0.2), (0.1, h - 0.18)), 0, sides=10)
        else:
            p.block((0, 0, -0.02), (w * 0.9, h - 0.18, d - 0.08), 2)
            for side in (-1, 1):
                p.block((side * w * 0.22, 0.05, d / 2 - 0.06), (w * 0.41, h - 0.28, 0.02), 2)
                p.block((side * 0.04, h * 0.4, d / 2 - 0.05), (0.02, 0.12, 0.02), 1)
        rim = ((0.16, -0.16), (0.23, 0.0), (0.2, 0.0), (0.13, -0.12))
        p.body((0, h - 0.02, 0.02), rim, 0, sides=14, squash=(w / 0.46, (d - 0.04) / 0.46))
        p.block((0, h - 0.1, -d / 2 + 0.06), (w * 0.9, 0.09, 0.12), 0)
        deck = h - 0.01
    p.rod((0, deck, -d / 2 + 0.05), 0.018, 0.2, 1)
    p.block((0, deck + 0.19, -d / 2 + 0.12), (0.03, 0.025, 0.16), 1)
    for side in (-1, 1):
        p.rod((side * 0.08, deck, -d / 2 + 0.05), 0.02, 0.07, 1)


def bathtub(p: Parts, w: float, h: float, d: float) -> None:
    """A tub, boxed in or free on feet, with a tap. Outside, inside, tap."""
    long = max(w, d)
    x, z = w / 2, d / 2
    if p.random.random() < 0.6:
        rim = 0.07
        for side in (-1, 1):
            p.block((side * (x - rim / 2), 0, 0), (rim, h, d), 0)
            p.block((0, 0, side * (z - rim / 2)), (w - 2 * rim, h, rim), 0)
        p.block((0, 0.12, 0), (w - 2 * rim, 0.05, d - 2 * rim), 1)
        p.block((0, h - 0.16, 0), (w - 2 * rim, 0.02, d - 2 * rim), 1)  # water
    else:
        bowl = ((0.36, 0.1), (0.47, h), (0.5, h), (0.5, h - 0.03))
        p.body((0, 0, 0), (*bowl[:2], (0.42, h), (0.36, h - 0.3)), 0, top=1, sides=18, squash=(w, d))
        for sx in (-1, 1):
            for sz in (-1, 1):
                p.block((sx * x * 0.55, 0, sz * z * 0.5), (0.06, 0.14, 0.06), 2)
    end = (-x + 0.1, 0.0) if long == w else (0.0, -z + 0.1)
    p.rod((end[0], h - 0.02, end[1]), 0.02, 0.16, 2)
    reach = (0.14, 0.03) if long == w else (0.03, 0.14)
    p.block(
        (end[0] + (reach[0] / 2 if long == w else 0), h + 0.12, end[1] + (0 if long == w else reach[1] / 2)),
        (reach[0], 0.03, reach[1]),
        2,
    )


def shower(p: Parts, w: float, h: float, d: float) -> None:
    """A tiled corner with a kerb, a metal frame, a pole with a head and a banded curtain. Tiles, metal, curtain."""
    kerb = 0.3
    for side in (-1, 1):
        p.block((side * (w / 2 - 0.03), 0, 0), (0.06, kerb, d), 0, repeat=0.5)
        p.block((0, 0, side * (d / 2 - 0.03)), (w - 0.12, kerb, 0.06), 0, repeat=0.5)
    p.block((0, 0.02, 0), (w - 0.12, 0.06, d - 0.12), 0, repeat=0.5)
    p.block((0, kerb, -d / 2 + 0.02), (w, h - kerb, 0.03), 0, repeat=0.5)
    for sx in (-1, 1):
        p.block((sx * (w / 2 - 0.02), kerb, d / 2 - 0.02), (0.04, h - kerb, 0.04), 1)
        p.block((sx * (w / 2 - 0.02), h - 0.04, 0), (0.04, 0.04, d), 1)
    p.block((0, h - 0.04, d / 2 - 0.02), (w, 0.04, 0.04), 1)
    share = p.random.uniform(0.3, 0.5)
    folds = 5
    for i in range(folds):
        wide = w * share / folds
        p.block(
            (-w / 2 + 0.04 + (i + 0.5) * wide, kerb, d / 2 - 0.05 - 0.02 * (i % 2)), (wide, h - kerb - 0.06, 0.03), 2
        )
    p.rod((w * 0.15, 0.9, -d / 2 + 0.07), 0.02, h - 1.0, 1)
    p.body((w * 0.15, h - 0.16, -d / 2 + 0.2), ((0.11, 0.0), (0.02, 0.06)), 1, sides=10)
    p.block((w * 0.15, h - 0.12, -d / 2 + 0.13), (0.03, 0.03, 0.14), 1)
    p.block((w * 0.15, 1.0, -d / 2 + 0.06), (0.16, 0.06, 0.06), 1)


def towel(p: Parts, w: float, h: float, d: float) -> None:
    """A cloth over a rail; low ones lie folded. Cloth, rail, border."""
    if h < 0.3:
        p.block((0, 0, 0), (w, h * 0.5, d), 0)
        p.block((0, h * 0.5, 0), (w * 0.96, h * 0.5, d * 0.9), 2)
        return
    p.block((0, h - 0.03, 0.01), (w, 0.025, 0.025), 1)
    for side in (-1, 1):
        p.block((side * (w / 2 - 0.02), h - 0.03, -d / 4), (0.025, 0.025, d / 2), 1)
    wide = w * 0.7
    p.block((0, 0.0, 0.03), (wide, h - 0.01, 0.02), 0)
    p.block((0, h * 0.25, -0.005), (wide, h * 0.74, 0.015), 0)
    p.block((0, 0.06, 0.032), (wide + 0.004, 0.05, 0.022), 2)
