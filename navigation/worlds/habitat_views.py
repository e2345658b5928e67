"""What `habitat` tells of a scene beyond pictures: privileged labels, in the same words as `rooms`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navigation.worlds.habitat_tasks import Task

LEAST = 0.0005  # of the picture; what is smaller is not listed as visible
BACKGROUND = ("floor", "wall", "ceiling", "unknown", "")
Ids = NDArray[np.int32]


def describe(task: Task, state: Mapping[str, Any], ids: Ids) -> dict[str, Any]:
    """The description of an episode under way, from the worker's state and its label picture (H, W)."""
    home = task.home.home if task.home is not None else None
    objects, labels = state["objects"], labels_of(task, state["objects"])
    x, _, z = state["position"]
    told: dict[str, Any] = {
        **{key: state[key] for key in ("position", "rotation_xyzw", "tilt_deg", "steps")},
        **task.about,
        "category": task.category,
        "labels": {str(number): category for number, category in labels.items()},
        "visible": visible(labels, ids),
        "distance_to_goal": state["distance_to_goal"],
        "geodesic_distance": state["geodesic_distance"],
    }
    goals = [{"id": g.object_id, "view_points": g.view_positions.round(4).tolist()} for g in task.goals]
    if home is None:
        boxes = [(o, np.asarray(o["center"]), np.asarray(o["size"]) / 2) for o in objects]
        told["objects"] = [
            {"id": o["id"], "category": o["category"], "low": (c - h).tolist(), "high": (c + h).tolist()}
            for o, c, h in boxes
        ]
        return told | {"goals": goals}
    told["room"] = home.room_at(x, z)
    told["rooms"] = [{"name": r.name, "kind": r.kind, "box": [r.x0, r.z0, r.x1, r.z1]} for r in home.rooms]
    told["objects"] = [
        {"id": t.id, "category": t.category, "room": t.room, "low": list(t.box()[0]), "high": list(t.box()[1])}
        for t in home.things
    ]
    return told | {"goals": [{**goal, "room": home.thing(goal["id"]).room} for goal in goals]}


def labels_of(task: Task, objects: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """The category of every id in a label picture."""
    if task.home is not None:
        return task.home.home.labels()
    return {int(o["id"]): str(o["category"]) for o in objects}


def numbers_of(task: Task, ids: Ids, objects: Sequence[Mapping[str, Any]]) -> Ids:
    """Category numbers (H, W) for a label picture, 0 for what has none.

    In generated homes the index in `navigation.homes.furniture.CATEGORIES` plus one, as in `rooms`; in other scenes
    that of the category's name among the scene's own, sorted, plus one.
    """
    if task.home is not None:
        table = task.home.category_numbers
    else:
        labels = labels_of(task, objects)
        names = sorted({name for name in labels.values() if name.lower() not in ("unknown", "")})
        table = np.zeros(max(labels, default=0) + 1, np.int32)
        for number, name in labels.items():
            table[number] = names.index(name) + 1 if name in names else 0
    known: Ids = np.where((ids >= 0) & (ids < len(table)), ids, 0)
    numbers: Ids = table[known]
    return numbers


def visible(labels: Mapping[int, str], ids: Ids) -> list[dict[str, Any]]:
    """The objects in a label picture, largest first: id, category, share of the pixels, box (x0, y0, x1, y1)."""
    out = []
    found, counts = np.unique(ids, return_counts=True)
    for number, count in zip(found.tolist(), counts.tolist(), strict=True):
        category = labels.get(number, "")
        if category.lower() in BACKGROUND or count < LEAST * ids.size:
            continue
        rows, columns = np.nonzero(ids == number)
        box = [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]
        out.append({"id": number, "category": category, "share": round(count / ids.size, 5), "box": box})
    return sorted(out, key=lambda entry: -float(entry["share"]))
