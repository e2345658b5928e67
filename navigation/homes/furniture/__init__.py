"""The kinds of things: how each is built, how large it is, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from navigation.homes.furniture import bath, seats, storage, various
from navigation.homes.parts import Builder

Range = tuple[float, float]


@dataclass(frozen=True)
class Kind:
    """``width``, ``height`` and ``depth`` are ranges in metres; ``roles`` name the palette entry of each material."""

    builder: Builder
    width: Range
    height: Range
    depth: Range
    roles: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "chair": Kind(seats.chair, (0.42, 0.52), (0.82, 1.02), (0.42, 0.52), ("wood", "fabric")),
    "table": Kind(storage.table, (0.9, 1.8), (0.72, 0.77), (0.7, 1.0), ("wood", "leg")),
    "picture": Kind(various.picture, (0.45, 1.1), (0.4, 0.8), (0.04, 0.05), ("painting", "frame")),
    "cabinet": Kind(storage.cabinet, (0.9, 1.6), (0.8, 2.1), (0.4, 0.6), ("wood", "front", "metal")),
    "cushion": Kind(seats.cushion, (0.36, 0.5), (0.34, 0.44), (0.14, 0.2), ("fabric",)),
    "sofa": Kind(seats.sofa, (1.5, 2.3), (0.75, 0.9), (0.82, 0.98), ("fabric", "fabric", "wood")),
    "bed": Kind(seats.bed, (0.95, 1.9), (0.8, 1.15), (1.95, 2.15), ("wood", "linen", "fabric")),
    "chest_of_drawers": Kind(
        storage.chest_of_drawers, (0.45, 1.3), (0.55, 1.15), (0.4, 0.5), ("wood", "front", "metal")
    ),
    "plant": Kind(various.plant, (0.5, 0.8), (0.8, 1.6), (0.5, 0.8), ("leaves", "pot", "earth")),
    "sink": Kind(bath.sink, (0.5, 0.7), (0.82, 0.9), (0.44, 0.52), ("ceramic", "metal", "front")),
    "toilet": Kind(bath.toilet, (0.38, 0.44), (0.74, 0.84), (0.66, 0.74), ("ceramic", "white", "metal")),
    "stool": Kind(seats.stool, (0.32, 0.42), (0.45, 0.7), (0.32, 0.42), ("leg", "fabric")),
    "towel": Kind(bath.towel, (0.5, 0.7), (0.6, 0.85), (0.08, 0.1), ("towel", "metal", "towel")),
    "tv_monitor": Kind(various.tv_monitor, (0.55, 1.25), (0.4, 0.75), (0.2, 0.24), ("screen", "dark")),
    "shower": Kind(bath.shower, (0.9, 1.1), (2.0, 2.15), (0.85, 1.0), ("tiles", "metal", "towel")),
    "bathtub": Kind(bath.bathtub, (1.55, 1.75), (0.52, 0.6), (0.72, 0.82), ("ceramic", "water", "metal")),
    "counter": Kind(storage.counter, (1.2, 2.6), (0.88, 0.92), (0.6, 0.64), ("wood", "front", "metal", "stone")),
    "fireplace": Kind(storage.fireplace, (1.3, 1.7), (2.3, 2.45), (0.42, 0.5), ("brick", "wood", "fire")),
    "gym_equipment": Kind(various.gym_equipment, (0.7, 1.3), (1.1, 1.35), (1.3, 1.75), ("leg", "dark", "plate")),
    "seating": Kind(seats.seating, (0.78, 1.4), (0.72, 0.95), (0.78, 0.9), ("fabric", "fabric", "wood")),
    "clothes": Kind(seats.clothes, (0.9, 1.4), (1.45, 1.7), (0.42, 0.5), ("fabric", "towel", "fabric", "metal")),
    "shelf": Kind(storage.shelf, (0.7, 1.3), (0.9, 2.1), (0.28, 0.34), ("wood", "books", "books")),
    "refrigerator": Kind(storage.refrigerator, (0.6, 0.75), (1.6, 1.95), (0.62, 0.7), ("appliance", "metal")),
    "stove": Kind(storage.stove, (0.58, 0.66), (0.88, 0.92), (0.6, 0.64), ("appliance", "hob", "dark", "metal")),
    "mirror": Kind(various.mirror, (0.5, 0.8), (0.6, 0.9), (0.04, 0.05), ("glass", "frame")),
    "rug": Kind(various.rug, (1.4, 2.4), (0.012, 0.016), (1.0, 1.6), ("rug",)),
    "lamp": Kind(various.lamp, (0.34, 0.42), (1.35, 1.65), (0.34, 0.42), ("shade", "metal")),
    "box": Kind(various.box, (0.35, 0.55), (0.28, 0.5), (0.3, 0.45), ("card", "card")),
    "book": Kind(various.book, (0.2, 0.28), (0.08, 0.16), (0.15, 0.2), ("fabric", "towel", "frame")),
    "vase": Kind(various.vase, (0.12, 0.2), (0.2, 0.34), (0.12, 0.2), ("pot",)),
    "bin": Kind(various.bin, (0.24, 0.3), (0.3, 0.42), (0.24, 0.3), ("plate", "dark")),
}

ROUND = ("plant", "stool", "lamp", "vase", "bin")  # as deep as they are wide

# The 21 categories of Matterport3D's ObjectNav task; HM3D's six are among them. Only these are looked for.
GOAL_CATEGORIES = (
    "chair",
    "table",
    "picture",
    "cabinet",
    "cushion",
    "sofa",
    "bed",
    "chest_of_drawers",
    "plant",
    "sink",
    "toilet",
    "stool",
    "towel",
    "tv_monitor",
    "shower",
    "bathtub",
    "counter",
    "fireplace",
    "gym_equipment",
    "seating",
    "clothes",
)
SHELL = ("floor", "wall", "ceiling", "door", "window")
# Every category a pixel can have; its index here, plus one, is the category's number in semantic pictures.
CATEGORIES = (*SHELL, *KINDS)


def words(category: str) -> str:
    """A category as one says it: ``tv_monitor`` -> ``tv monitor``."""
    return category.replace("_", " ")
