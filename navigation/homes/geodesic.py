"""Where a body of a given radius can stand in a home, and the shortest ways between such places.

The free floor is a polygon: rooms and doorways, shrunk by the radius, less everything that stands on the floor up to
the agent's height, grown by the radius. Shortest ways among polygons go straight from corner to corner, so the graph of
corners that see each other gives them exactly. Points are (x, z) in metres.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from shapely.geometry import MultiPoint, Polygon, box

from backbone.errors import DataError
from navigation.homes.description import Home, Thing
from navigation.homes.parts import parts_of, pose_of

Points = NDArray[np.float64]

AGENT_RADIUS, AGENT_HEIGHT = 0.18, 0.88
# Metres by which Habitat's navigation mesh keeps farther off than the radius: a cell of 5 cm that touches anything is
# taken, and the radius rounds up to whole cells. With it the shortest ways of both are equally long (median of the
# differences 0.1 %; 0.9 % without, and always to the same side), and what one can reach, so can the other.
MESH_MARGIN = 0.055
MESH_NECK = 0.06  # metres: where the free floor is no wider than that, the mesh may be cut through
LOW, HIGH = 0.1, 0.9  # what is lower is stepped over; what begins higher is walked under
_ARC = 2  # chords a quarter circle; the clearance is then at least 0.92 of the radius
_INSIDE = 1e-4  # how far corners are moved into the free floor, so that touching is no crossing


def obstacle(thing: Thing) -> Polygon | None:
    """What a thing covers of the floor between `LOW` and `HIGH`; None for rugs and what hangs."""
    pose = pose_of(thing)
    corners = (part.corners() @ pose[:3, :3].T + pose[:3, 3] for part in parts_of(thing))
    shapes = [s for s in map(_covered, corners) if s is not None]
    return shapely.union_all(shapes) if shapes else None


def _covered(corners: Points) -> Polygon | None:
    """The outline from above of the part of a convex body that lies between `LOW` and `HIGH`."""
    y = corners[:, 1]
    if y.max() <= LOW or y.min() >= HIGH:
        return None
    points = [c for c in corners if LOW <= c[1] <= HIGH]
    for level in (LOW, HIGH):
        if y.min() < level < y.max():
            above, below = corners[y > level], corners[y <= level]
            share = (level - below[None, :, 1]) / (above[:, None, 1] - below[None, :, 1])
            points += list((below[None] + share[..., None] * (above[:, None] - below[None])).reshape(-1, 3))
    hull = MultiPoint([(p[0], p[2]) for p in points]).convex_hull
    return hull if hull.area > 1e-6 else None


def free_floor(home: Home, radius: float = AGENT_RADIUS, neck: float = 0.0) -> Polygon:
    """The largest connected part of the floor on which a body of ``radius`` fits; `DataError` if there is none.

    What hangs together only by places narrower than ``neck`` metres counts as unconnected.
    """
    rooms = [box(r.x0, r.z0, r.x1, r.z1) for r in home.rooms]
    half = home.wall / 2 + 1e-3
    doors = [
        box(d.x - d.width / 2, d.z - half, d.x + d.width / 2, d.z + half)
        if d.along == "x"
        else box(d.x - half, d.z - d.width / 2, d.x + half, d.z + d.width / 2)
        for d in home.doors
    ]
    free = shapely.union_all(rooms + doors).buffer(-radius, quad_segs=_ARC)
    blocks = [o for o in (obstacle(t) for t in home.things) if o is not None]
    if blocks:
        free = free - shapely.union_all(blocks).buffer(radius, quad_segs=_ARC)
    parts = _parts(free.simplify(0.004))
    if neck > 0 and parts:
        beyond = _parts(parts[0].buffer(-neck / 2, quad_segs=_ARC))[1:]
        parts = _parts(parts[0] - shapely.union_all(beyond).buffer(neck / 2 + 1e-3, quad_segs=_ARC))
    if not parts or parts[0].area < 0.5:
        raise DataError(f"home {home.seed}: no floor left for a body of radius {radius} m")
    return shapely.orient_polygons(parts[0])


def _parts(shape: shapely.Geometry) -> list[Polygon]:
    """The polygons of a shape, the largest first."""
    polygons = [part for part in shapely.get_parts(shape) if part.area > 0]
    return sorted(polygons, key=lambda part: -part.area)


@dataclass(frozen=True)
class GoalField:
    """Distances to the nearest of some goals. Made by `FloorMap.field`; ask it with `FloorMap.distance_in`."""

    goals: Points  # (G, 2)
    corner_distance: Points  # (N,) from every corner of the map, inf where no goal is reached
    following: NDArray[np.int64]  # (N,) the next corner on the way, or -1 - g for going straight to goal g


class FloorMap:
    """The free floor of a home for a body of ``radius``: its largest connected part."""

    def __init__(self, home: Home, radius: float = AGENT_RADIUS, neck: float = 0.0) -> None:
        """Build the polygon and the graph of its corners; see `free_floor`."""
        self.home, self.radius = home, radius
        self.free = free_floor(home, radius, neck)
        shapely.prepare(self.free)
        # A prepared polygon keeps state while it answers, outside of Python's lock: two threads at once crash in it.
        self._asking = threading.Lock()
        self._read_rings()
        self._graph = self._seeing()

    def _read_rings(self) -> None:
        """Edges (E, 2, 2) of the polygon, and its corners (N, 2) about which a shortest way can bend."""
        edges, corners, before, after = [], [], [], []
        for ring in (self.free.exterior, *self.free.interiors):
            points = np.asarray(ring.coords)[:-1]
            last, following = np.roll(points, 1, 0), np.roll(points, -1, 0)
            edges.append(np.stack([points, following], 1))
            inward, outward = points - last, following - points
            cross = inward[:, 0] * outward[:, 1] - inward[:, 1] * outward[:, 0]
            bends = cross < -1e-9  # the free floor lies to the left, so a right turn goes about an obstacle
            left = [
                np.stack([-v[:, 1], v[:, 0]], 1) / np.linalg.norm(v, axis=1, keepdims=True) for v in (inward, outward)
            ]
            middle = left[0] + left[1]
            middle /= np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-9)
            corners.append((points + _INSIDE * middle)[bends])
            before.append(last[bends])
            after.append(following[bends])
        self.edges: Points = np.concatenate(edges)
        self.corners: Points = np.concatenate(corners)
        self._before, self._after = np.concatenate(before), np.concatenate(after)

    def _seeing(self) -> csr_matrix:
        """The graph of corners that see each other, of those pairs alone that a shortest way can use."""
        first, second = np.triu_indices(len(self.corners), 1)
        keep = self._tangent(first, second) & self._tangent(second, first)
        first, second = first[keep], second[keep]
        sees = self.sees(self.corners[first], self.corners[second])
        first, second = first[sees], second[sees]
        length = np.linalg.norm(self.corners[first] - self.corners[second], axis=1)
        size = (len(self.corners),) * 2
        return csr_matrix((np.r_[length, length], (np.r_[first, second], np.r_[second, first])), size)

    def _tangent(self, at: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the line from corner ``at`` to ``other`` leaves both edges of ``at`` on one side of it."""
        way = self.corners[other] - self.corners[at]
        sides = [_cross(way, ends[at] - self.corners[at]) for ends in (self._before, self._after)]
        return (sides[0] * sides[1] > -1e-6) | (np.minimum(abs(sides[0]), abs(sides[1])) < 1e-3)

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Whether points (..., 2) lie on the free floor."""
        values = np.asarray(points, np.float64)
        with self._asking:
            inside: NDArray[np.bool_] = shapely.contains_xy(self.free, values[..., 0], values[..., 1])
        return inside

    def sees(self, start: Points, end: Points) -> NDArray[np.bool_]:
        """Whether the straight ways from ``start`` (M, 2) to ``end`` (M, 2), points of the free floor, stay on it."""
        ways = shapely.linestrings(np.stack([start, end], 1))
        with self._asking:
            seen: NDArray[np.bool_] = shapely.contains_properly(self.free, ways)
        return seen

    def _crossings(self, start: Points, end: Points) -> NDArray[np.bool_]:
        a, b = self.edges[None, :, 0], self.edges[None, :, 1]
        p, q = start[:, None], end[:, None]
        crossed = _cross(b - a, p - a) * _cross(b - a, q - a) <= 0
        found: NDArray[np.bool_] = crossed & (_cross(q - p, a - p) * _cross(q - p, b - p) <= 0)
        return found

    def walk(self, start: ArrayLike, end: ArrayLike) -> tuple[Points, bool]:
        """Go straight from ``start`` towards ``end`` and stop where it is barred: the place, and if it was."""
        p, q = np.asarray(start, np.float64), np.asarray(end, np.float64)
        if self.sees(p[None], q[None])[0]:
            return q, False
        hit = self._crossings(p[None], q[None])[0]
        if not hit.any():
            return (q if self.contains(q) else p), not self.contains(q)
        a, along = self.edges[hit, 0], self.edges[hit, 1] - self.edges[hit, 0]
        turned = _cross(q - p, along)
        share = np.where(abs(turned) < 1e-12, 0.0, _cross(a - p, along) / np.where(turned == 0, 1.0, turned))
        length = float(np.linalg.norm(q - p))
        reached = max(float(share.min()) * length - 2e-3, 0.0)
        place = p + (q - p) * (reached / length)
        return (place if self.contains(place) else p), True

    def nearest(self, point: ArrayLike) -> Points:
        """The place on the free floor closest to a point."""
        values = np.asarray(point, np.float64)
        if self.contains(values):
            return values
        inner = self.free.buffer(-1e-3)
        place = shapely.get_point(shapely.shortest_line(inner, shapely.Point(values)), 0)
        return np.array([place.x, place.y])

    def field(self, goals: ArrayLike) -> GoalField:
        """Distances to the nearest of ``goals`` (G, 2), places on the free floor, from everywhere."""
        places = np.asarray(goals, np.float64).reshape(-1, 2)
        places = places[self.contains(places)]
        if not len(places):
            raise DataError(f"home {self.home.seed}: no goal lies on the free floor")
        distance, goal = self._straight(self.corners, places)
        size = len(self.corners) + 1
        rows = np.flatnonzero(np.isfinite(distance))
        graph = self._graph.tocoo()
        values = np.r_[graph.data, np.maximum(distance[rows], 1e-9)]
        start, end = np.r_[graph.row, np.full(len(rows), size - 1)], np.r_[graph.col, rows]
        total, before = dijkstra(
            csr_matrix((values, (start, end)), (size, size)), indices=size - 1, return_predecessors=True
        )
        following = np.where(before[:-1] == size - 1, -1 - goal, before[:-1]).astype(np.int64)
        return GoalField(places, total[:-1], following)

    def _straight(self, points: Points, goals: Points, most: int = 24) -> tuple[Points, NDArray[np.int64]]:
        """For each point the nearest goal it sees among the ``most`` nearest and a sample: distance and index."""
        far = np.linalg.norm(points[:, None] - goals[None], axis=2)
        near = np.argsort(far, axis=1)
        picks = np.r_[np.arange(min(most, len(goals))), np.arange(most, len(goals), 4)]
        best, which = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
        open_rows = np.arange(len(points))
        for block in np.array_split(picks, max(len(picks) // 4, 1)):
            chosen = near[open_rows][:, block]
            rows = np.repeat(open_rows, len(block))
            sees = self.sees(points[rows], goals[chosen.ravel()]).reshape(chosen.shape)
            found = sees.any(1)
            pick = chosen[np.arange(len(open_rows)), sees.argmax(1)]
            hits = open_rows[found]
            best[hits], which[hits] = far[hits, pick[found]], pick[found]
            open_rows = open_rows[~found]
            if not len(open_rows):
                break
        return best, which

    def _first(self, field: GoalField, point: Points) -> tuple[float, int]:
        """The distance from a point and where the way goes first: a corner's index, or -1 - g for a goal's."""
        to_goals = np.linalg.norm(field.goals - point, axis=1)
        to_corners = np.linalg.norm(self.corners - point, axis=1) + field.corner_distance
        total = np.r_[to_goals, to_corners]
        order = np.argsort(total, kind="stable")
        order = order[np.isfinite(total[order])]
        targets = np.concatenate([field.goals, self.corners])
        begin, count = 0, 16
        while begin < len(order):
            some = order[begin : begin + count]
            begin, count = begin + count, count * 3
            sees = self.sees(np.broadcast_to(point, (len(some), 2)), targets[some])
            if sees.any():
                pick = int(some[sees.argmax()])
                return float(total[pick]), (-1 - pick if pick < len(field.goals) else pick - len(field.goals))
        return math.inf, 0

    def distance_in(self, field: GoalField, point: ArrayLike) -> float:
        """Metres from a place on the free floor to the nearest goal; infinite if there is no way."""
        return self._first(field, np.asarray(point, np.float64))[0]

    def first_in(self, field: GoalField, point: ArrayLike) -> tuple[float, Points]:
        """Metres from a place to the nearest goal, and the corner or goal (2,) to which the way goes straight first."""
        distance, step = self._first(field, np.asarray(point, np.float64))
        return distance, self.corners[step] if step >= 0 else field.goals[-1 - step]

    def path_in(self, field: GoalField, point: ArrayLike) -> Points:
        """The way (K, 2) from a place to the nearest goal, both ends included; `DataError` if there is none."""
        here = np.asarray(point, np.float64)
        distance, step = self._first(field, here)
        if not math.isfinite(distance):
            raise DataError(f"home {self.home.seed}: no way from {here.tolist()} to a goal")
        way = [here]
        while step >= 0:
            way.append(self.corners[step])
            step = int(field.following[step])
        way.append(field.goals[-1 - step])
        return np.array(way)

    def distance(self, start: ArrayLike, end: ArrayLike) -> float:
        """Metres of the shortest way between two places on the free floor."""
        return self.distance_in(self.field(np.asarray(end, np.float64)[None]), start)

    def path(self, start: ArrayLike, end: ArrayLike) -> Points:
        """The shortest way (K, 2) between two places."""
        return self.path_in(self.field(np.asarray(end, np.float64)[None]), start)


def _cross(a: Points, b: Points) -> Points:
    out: Points = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return out
