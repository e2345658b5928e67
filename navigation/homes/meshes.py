"""A home as triangles: walls with their openings, doors, windows and things, all coloured by one atlas.

Surfaces face into the rooms; nothing is seen from outside. The ids of the triangles are those of `Home.labels`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from backbone.rendering.mesh import Mesh
from backbone.rendering.shapes import MeshBuilder, Tile
from navigation.homes.description import CEILING, FLOOR, WALL, Door, Home, Room, Window
from navigation.homes.materials import atlas_of
from navigation.homes.parts import parts_of, pose_of
from navigation.homes.space import SIDES, merged

_WALL_REPEAT, _FLOOR_REPEAT = 1.4, 1.4
_JAMB, _LINING, _PROUD = 0.05, 0.02, 0.015  # frame's and bare opening's width, and how far a frame stands out


def home_mesh(home: Home) -> tuple[Mesh, Image]:
    """The whole home as one mesh, and its atlas; a pure function of the description."""
    pieces, atlas = home_pieces(home)
    return joined([mesh for _, mesh in pieces]), atlas


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    return Mesh(
        np.concatenate([m.positions for m in meshes]),
        np.concatenate([m.normals for m in meshes]),
        np.concatenate([m.uv for m in meshes]),
        np.concatenate([m.ids for m in meshes]),
    )


def home_pieces(home: Home, *, doors_twice: bool = False) -> tuple[list[tuple[str, Mesh]], Image]:
    """One mesh a room, by the room's name, and the atlas.

    A door is with the first of its rooms or, with ``doors_twice``, with both, so that each can be drawn alone.
    """
    atlas, tiles = atlas_of(home.materials)
    pieces = []
    for room in home.rooms:
        builder = MeshBuilder()
        _shell(builder, home, room, tiles)
        for door in home.doors:
            if door.rooms[0] == room.name or (doors_twice and room.name in door.rooms):
                _door(builder, home, door, tiles)
        for window in home.windows:
            if window.room == room.name:
                _window(builder, window, tiles)
        for thing in home.things:
            if thing.room == room.name:
                builder.transform = pose_of(thing)
                own = [tiles[m] for m in thing.materials]
                for part in parts_of(thing):
                    part.build(builder, own, thing.id)
        pieces.append((room.name, builder.build()))
    return pieces, atlas


def wall_of(room: Room, side: str) -> tuple[float, float, float, float]:
    """The two ends (xa, za, xb, zb) of a room's wall, left to right for one who looks at it from inside."""
    return {
        "north": (room.x0, room.z0, room.x1, room.z0),
        "south": (room.x1, room.z1, room.x0, room.z1),
        "west": (room.x0, room.z1, room.x0, room.z0),
        "east": (room.x1, room.z0, room.x1, room.z1),
    }[side]


def door_side(door: Door, room: Room) -> str:
    """The wall of ``room`` that a door of it is in."""
    if door.along == "x":
        return "north" if abs(door.z - room.z0) < abs(door.z - room.z1) else "south"
    return "west" if abs(door.x - room.x0) < abs(door.x - room.x1) else "east"


def _lining(door: Door) -> float:
    return _JAMB if door.framed else _LINING


def _holes(home: Home, room: Room, side: str) -> list[tuple[Door, float, float]]:
    """The openings in a wall: each door, and where along the wall its hole begins and ends."""
    xa, za, xb, zb = wall_of(room, side)
    length = math.hypot(xb - xa, zb - za)
    out = []
    for door in home.doors:
        if room.name in door.rooms and door_side(door, room) == side:
            middle = ((door.x - xa) * (xb - xa) + (door.z - za) * (zb - za)) / length
            half = door.width / 2 + _lining(door)
            out.append((door, middle - half, middle + half))
    return out


def solid_walls(home: Home) -> NDArray[np.float64]:
    """The walls of all rooms without their openings, seen from above: their ends (W, 2, 2)."""
    out = []
    for room in home.rooms:
        for side in SIDES:
            xa, za, xb, zb = wall_of(room, side)
            start, length = np.array([xa, za]), math.hypot(xb - xa, zb - za)
            way = np.array([xb - xa, zb - za]) / length
            holes = [(a, b) for _, a, b in _holes(home, room, side)]
            out += [(start + way * a, start + way * b) for a, b in merged(holes, 0.0, length)]
    return np.array(out)


def _shell(builder: MeshBuilder, home: Home, room: Room, tiles: list[Tile]) -> None:
    w, d = room.x1 - room.x0, room.z1 - room.z0
    builder.quad((room.x0, 0, room.z1), (w, 0, 0), (0, 0, -d), tiles[room.floor], FLOOR, _FLOOR_REPEAT)
    builder.quad((room.x0, home.height, room.z0), (w, 0, 0), (0, 0, d), tiles[room.ceiling], CEILING, 2.0)
    for side in SIDES:
        xa, za, xb, zb = wall_of(room, side)
        length = math.hypot(xb - xa, zb - za)
        way = np.array([(xb - xa) / length, 0.0, (zb - za) / length])
        start = np.array([xa, 0.0, za])
        holes = _holes(home, room, side)
        for door, a, b in holes:
            low = door.height + _lining(door)
            over, up = start + way * a + np.array([0.0, low, 0.0]), (0.0, home.height - low, 0.0)
            builder.quad(over, way * (b - a), up, tiles[room.wall], WALL, _WALL_REPEAT)
        for a, b in merged([(a, b) for _, a, b in holes], 0.0, length):
            builder.quad(start + way * a, way * (b - a), (0.0, home.height, 0.0), tiles[room.wall], WALL, _WALL_REPEAT)


def _door(builder: MeshBuilder, home: Home, door: Door, tiles: list[Tile]) -> None:
    """Threshold and frame; the builder works in the door's own frame, x along the wall."""
    builder.transform = np.eye(4)
    if door.along == "z":
        builder.transform[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    builder.transform[:3, 3] = door.x, 0.0, door.z
    room = home.room(door.rooms[0])
    lining = _lining(door)
    deep = home.wall / 2
    threshold = (door.width + 2 * lining, 0, 0)
    builder.quad(
        (-door.width / 2 - lining, 0, deep), threshold, (0, 0, -2 * deep), tiles[room.floor], FLOOR, _FLOOR_REPEAT
    )
    tile, object_id = (tiles[door.material], door.id) if door.framed else (tiles[room.wall], WALL)
    half, far = door.width / 2, deep + (_PROUD if door.framed else 0.0)
    for low, high in ((-half - lining, -half), (half, half + lining)):
        builder.box((low, 0, -far), (high, door.height + lining, far), tile, object_id, leave_out="-y")
    builder.box((-half, door.height, -far), (half, door.height + lining, far), tile, object_id)
    builder.transform = np.eye(4)


def _window(builder: MeshBuilder, window: Window, tiles: list[Tile]) -> None:
    """Pane, frame, sill and curtains, standing a few centimetres out of the wall."""
    c, s = math.cos(window.yaw), math.sin(window.yaw)
    builder.transform = np.array([[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1.0]])
    builder.transform[:3, 3] = window.position
    w, h, rim = window.width, window.height, 0.05
    frame = tiles[window.frame]
    builder.quad((-w / 2, 0, 0.006), (w, 0, 0), (0, h, 0), tiles[window.view], window.id)
    bars = [(-w / 2, -w / 2 + rim, 0.0, h), (w / 2 - rim, w / 2, 0.0, h), (-0.02, 0.02, rim, h - rim)]
    bars += [(-w / 2 + rim, w / 2 - rim, 0.0, rim), (-w / 2 + rim, w / 2 - rim, h - rim, h)]
    for x0, x1, y0, y1 in bars:
        builder.box((x0, y0, 0.0), (x1, y1, 0.03), frame, window.id, leave_out="-z")
    if window.curtain >= 0:
        for x0, x1 in ((-w / 2 - 0.3, -w / 2 + 0.06), (w / 2 - 0.06, w / 2 + 0.3)):
            builder.box((x0, 0.0, 0.0), (x1, h + 0.1, 0.055), tiles[window.curtain], window.id, leave_out="-z")
        builder.box((-w / 2 - 0.36, h + 0.08, 0.0), (w / 2 + 0.36, h + 0.12, 0.065), frame, window.id, leave_out="-z")
    builder.transform = np.eye(4)
