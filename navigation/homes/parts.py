"""The solid parts that things are made of: blocks and bodies of revolution, in the thing's own frame.

The frame: x to the side, y up, +z the front; the origin is the middle of the thing's underside. Parts serve the mesh,
the obstacles on the floor and the sight lines alike, so that the three cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray

from backbone.rendering.shapes import MeshBuilder, Tile
from navigation.homes.description import Thing, Vector

Points = NDArray[np.float64]


_SIGNS = np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], np.float64)


def _turned(pitch: float, yaw: float, roll: float) -> Points:
    """Rotation (3, 3) by roll about z, then pitch about x, then yaw about y, in degrees."""
    (cx, sx), (cy, sy), (cz, sz) = ((math.cos(math.radians(a)), math.sin(math.radians(a))) for a in (pitch, yaw, roll))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    turned: Points = about_y @ about_x @ about_z
    return turned


@dataclass(frozen=True)
class Block:
    """A block of ``size`` whose underside's middle is at ``base``, then turned about its own middle (degrees)."""

    base: Vector
    size: Vector
    material: int
    top: int
    turn: Vector = (0.0, 0.0, 0.0)  # pitch, yaw, roll
    repeat: float = 0.0

    def frame(self) -> Points:
        """The pose (4, 4) of the block's middle in the thing's frame."""
        pose = np.eye(4)
        pose[:3, :3] = _turned(*self.turn)
        pose[:3, 3] = self.base[0], self.base[1] + self.size[1] / 2, self.base[2]
        return pose

    def corners(self) -> Points:
        """Its eight corners (8, 3) in the thing's frame."""
        half = np.asarray(self.size) / 2
        if not any(self.turn):
            return _SIGNS * half + (self.base[0], self.base[1] + half[1], self.base[2])
        pose = self.frame()
        corners: Points = (_SIGNS * half) @ pose[:3, :3].T + pose[:3, 3]
        return corners

    def build(self, builder: MeshBuilder, tiles: list[Tile], object_id: int) -> None:
        """Add its six sides to the mesh."""
        outer = builder.transform
        half = np.asarray(self.size) / 2
        middle = np.zeros(3)
        if any(self.turn):
            builder.transform = outer @ self.frame()
        else:
            middle = np.array([self.base[0], self.base[1] + half[1], self.base[2]])
        top = tiles[self.top] if self.top != self.material else None
        builder.box(middle - half, middle + half, tiles[self.material], object_id, top=top, repeat=self.repeat)
        builder.transform = outer


@dataclass(frozen=True)
class Body:
    """A body of revolution about a vertical axis through ``base``; ``profile`` holds (radius, height) from below."""

    base: Vector
    profile: tuple[tuple[float, float], ...]
    material: int
    top: int
    sides: int = 10
    squash: tuple[float, float] = (1.0, 1.0)

    def corners(self) -> Points:
        """Points (N, 3) whose hull is the body's outline, to within a few millimetres."""
        angles = np.arange(12) * math.pi / 6
        rings = [
            np.stack([r * np.cos(angles) * self.squash[0], np.full(12, h), r * np.sin(angles) * self.squash[1]], 1)
            for r, h in self.profile
        ]
        corners: Points = np.concatenate(rings) + np.asarray(self.base)
        return corners

    def build(self, builder: MeshBuilder, tiles: list[Tile], object_id: int) -> None:
        """Add its sides and ends to the mesh."""
        builder.lathe(
            self.base,
            self.profile,
            tiles[self.material],
            object_id,
            sides=self.sides,
            top=tiles[self.top],
            squash=self.squash,
        )


Part = Block | Body


@dataclass
class Parts:
    """What a builder of furniture fills. Materials are given by their place in the thing's own list."""

    random: Random
    list: list[Part] = field(default_factory=list)

    def block(
        self,
        base: Vector,
        size: Vector,
        material: int = 0,
        *,
        top: int | None = None,
        turn: Vector = (0.0, 0.0, 0.0),
        repeat: float = 0.0,
    ) -> None:
        """Add a block."""
        self.list.append(Block(base, size, material, material if top is None else top, turn, repeat))

    def body(
        self,
        base: Vector,
        profile: tuple[tuple[float, float], ...],
        material: int = 0,
        *,
        top: int | None = None,
        sides: int = 10,
        squash: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """Add a body of revolution."""
        self.list.append(Body(base, profile, material, material if top is None else top, sides, squash))

    def rod(self, base: Vector, radius: float, height: float, material: int = 0, sides: int = 6) -> None:
        """Add a plain upright cylinder."""
        self.body(base, ((radius, 0.0), (radius, height)), material, sides=sides)

    def legs(self, size: Vector, thick: float, height: float, material: int = 0, inset: float = 0.0) -> None:
        """Add four square legs at the corners of ``size``."""
        x, z = size[0] / 2 - thick / 2 - inset, size[2] / 2 - thick / 2 - inset
        for sx in (-1, 1):
            for sz in (-1, 1):
                self.block((sx * x, 0.0, sz * z), (thick, height, thick), material)


Builder = Callable[[Parts, float, float, float], None]  # parts, width, height, depth


def pose_of(thing: Thing) -> Points:
    """The pose (4, 4) of a thing in the home."""
    pose = np.eye(4)
    pose[:3, :3] = _turned(0.0, math.degrees(thing.yaw), 0.0)
    pose[:3, 3] = thing.position
    return pose


@lru_cache(maxsize=2048)
def parts_of(thing: Thing) -> tuple[Part, ...]:
    """The parts of a thing, in its own frame; the same for every call."""
    from navigation.homes.furniture import KINDS

    parts = Parts(Random(thing.variant))  # noqa: S311 - shapes, not secrets
    KINDS[thing.category].builder(parts, *thing.size)
    return tuple(parts.list)
