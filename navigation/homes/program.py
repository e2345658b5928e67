"""What belongs in which room, in the order in which it is placed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """``category`` at ``place`` with probability ``chance``, ``times`` = (least, most) of them.

    Places: ``wall`` and ``corner`` (back to the wall), ``centre``; ``hung`` on a wall; with a second category, for the
    latest thing of it: ``front:`` it, ``around:`` it, ``beside:`` it, ``on:`` it, ``above:`` it. ``size`` (width,
    height, depth) overrides the kind's own, 0 keeping it.
    """

    category: str
    place: str
    chance: float = 1.0
    times: tuple[int, int] = (1, 1)
    size: tuple[float, float, float] = (0.0, 0.0, 0.0)


_PICTURES = Wish("picture", "hung", 0.85, (1, 2))
_DECOR = (Wish("plant", "corner", 0.45), Wish("bin", "corner", 0.3), Wish("box", "corner", 0.25))
_SMALL_CLOTHES = (0.36, 0.2, 0.3)
_SMALL_PLANT = (0.26, 0.4, 0.26)

PROGRAM: dict[str, tuple[Wish, ...]] = {
    "living_room": (
        Wish("fireplace", "wall", 0.45),
        Wish("sofa", "wall"),
        Wish("table", "front:sofa", 0.7, size=(0.9, 0.45, 0.55)),
        Wish("cabinet", "wall", 0.8, size=(1.4, 0.55, 0.42)),
        Wish("tv_monitor", "on:cabinet", 0.85),
        Wish("seating", "wall", 0.75, (1, 2), (0.85, 0.0, 0.0)),
        Wish("cushion", "on:sofa", 0.9, (1, 3)),
        Wish("shelf", "wall", 0.6),
        Wish("lamp", "corner", 0.6),
        Wish("rug", "centre", 0.6),
        Wish("book", "on:table", 0.5),
        Wish("chest_of_drawers", "wall", 0.3),
        Wish("stool", "wall", 0.25),
        _PICTURES,
        *_DECOR,
    ),
    "bedroom": (
        Wish("bed", "wall"),
        Wish("chest_of_drawers", "beside:bed", 0.9, (1, 2), (0.45, 0.52, 0.4)),
        Wish("cabinet", "wall", 0.85, size=(0.0, 2.0, 0.0)),
        Wish("cushion", "on:bed", 0.7, (1, 2)),
        Wish("clothes", "on:bed", 0.45, size=_SMALL_CLOTHES),
        Wish("chest_of_drawers", "wall", 0.5),
        Wish("tv_monitor", "on:chest_of_drawers", 0.3, size=(0.6, 0.4, 0.2)),
        Wish("table", "wall", 0.35, size=(1.0, 0.0, 0.55)),
        Wish("chair", "around:table", 0.9),
        Wish("clothes", "wall", 0.35),
        Wish("seating", "wall", 0.2, size=(1.2, 0.45, 0.42)),
        Wish("lamp", "corner", 0.4),
        Wish("rug", "centre", 0.4),
        _PICTURES,
        *_DECOR,
    ),
    "bathroom": (
        Wish("toilet", "wall"),
        Wish("sink", "wall"),
        Wish("bathtub", "wall", 0.6, size=(1.65, 0.0, 0.0)),
        Wish("shower", "corner", 0.6),
        Wish("towel", "hung", 0.95, (1, 2)),
        Wish("mirror", "above:sink", 0.8),
        Wish("cabinet", "wall", 0.4, size=(0.6, 0.85, 0.36)),
        Wish("towel", "on:cabinet", 0.5, size=(0.36, 0.14, 0.26)),
        Wish("stool", "wall", 0.35),
        Wish("bin", "corner", 0.5),
        Wish("plant", "corner", 0.2),
    ),
    "kitchen": (
        Wish("counter", "wall", size=(2.0, 0.0, 0.0)),
        Wish("sink", "on:counter", 0.9, size=(0.44, 0.12, 0.4)),
        Wish("stove", "beside:counter", 0.9),
        Wish("refrigerator", "wall", 0.95),
        Wish("counter", "wall", 0.4, size=(1.2, 0.0, 0.0)),
        Wish("table", "centre", 0.75, size=(1.1, 0.0, 0.8)),
        Wish("chair", "around:table", 1.0, (2, 4)),
        Wish("table", "wall", 0.3, size=(1.0, 0.0, 0.7)),
        Wish("stool", "wall", 0.5, (1, 2)),
        Wish("vase", "on:counter", 0.5),
        Wish("plant", "on:table", 0.3, size=_SMALL_PLANT),
        Wish("towel", "hung", 0.4),
        _PICTURES,
        *_DECOR,
    ),
    "dining_room": (
        Wish("table", "centre", size=(1.5, 0.0, 0.9)),
        Wish("chair", "around:table", 1.0, (4, 6)),
        Wish("cabinet", "wall", 0.9, size=(0.0, 0.95, 0.45)),
        Wish("plant", "on:cabinet", 0.4, size=_SMALL_PLANT),
        Wish("fireplace", "wall", 0.3),
        Wish("shelf", "wall", 0.4),
        Wish("vase", "on:table", 0.7),
        Wish("lamp", "corner", 0.3),
        _PICTURES,
        *_DECOR,
    ),
    "office": (
        Wish("table", "wall", size=(1.3, 0.0, 0.7)),
        Wish("tv_monitor", "on:table", 0.9, size=(0.6, 0.42, 0.2)),
        Wish("chair", "around:table"),
        Wish("shelf", "wall", 0.9, (1, 2)),
        Wish("cabinet", "wall", 0.5),
        Wish("chest_of_drawers", "wall", 0.4),
        Wish("seating", "wall", 0.4, size=(0.85, 0.0, 0.0)),
        Wish("book", "on:table", 0.6),
        Wish("lamp", "corner", 0.4),
        _PICTURES,
        *_DECOR,
    ),
    "gym": (
        Wish("gym_equipment", "wall", 1.0, (2, 3)),
        Wish("gym_equipment", "centre", 0.3),
        Wish("seating", "wall", 0.6, size=(1.2, 0.45, 0.42)),
        Wish("towel", "hung", 0.7),
        Wish("mirror", "hung", 0.5),
        Wish("tv_monitor", "hung", 0.4, size=(0.0, 0.0, 0.07)),
        Wish("stool", "wall", 0.3),
        *_DECOR,
    ),
    "dressing_room": (
        Wish("clothes", "wall", 1.0, (1, 2)),
        Wish("chest_of_drawers", "wall", 0.9),
        Wish("cabinet", "wall", 0.7, size=(0.0, 2.0, 0.0)),
        Wish("clothes", "on:chest_of_drawers", 0.5, size=_SMALL_CLOTHES),
        Wish("stool", "wall", 0.5),
        Wish("mirror", "hung", 0.6),
        *_DECOR,
    ),
    "corridor": (
        Wish("chest_of_drawers", "wall", 0.5, size=(0.7, 0.8, 0.32)),
        Wish("plant", "corner", 0.3, size=(0.45, 0.9, 0.45)),
        Wish("picture", "hung", 0.9, (1, 3)),
        Wish("mirror", "hung", 0.3),
    ),
}

# Where a category goes that is put into a room which does not usually have it.
USUAL_PLACE: dict[str, Wish] = {
    w.category: w
    for wishes in reversed(list(PROGRAM.values()))
    for w in reversed(wishes)
    if ":" not in w.place or w.category == "cushion"
} | {"cushion": Wish("cushion", "wall"), "chair": Wish("chair", "wall"), "table": Wish("table", "wall")}


def wishes_for(kind: str, unusual: tuple[tuple[str, str], ...] = ()) -> tuple[Wish, ...]:
    """The wishes of a kind of room. ``unusual`` (category, kind) pairs move a category to these kinds alone."""
    moved = {category for category, _ in unusual}
    usual = tuple(w for w in PROGRAM[kind] if w.category not in moved)
    extra = tuple(USUAL_PLACE[category] for category, where in unusual if where == kind)
    certain = tuple(Wish(w.category, w.place, 1.0, w.times, w.size) for w in extra)
    return usual[:1] + certain + usual[1:]
