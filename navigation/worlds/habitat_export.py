"""A home as files for habitat-sim: the picture's GLB, the labels' GLB and table, and the two JSON files that join them.

Same frame on both sides (metres, y up, -z forward), so poses, paths and ids need no conversion. Pure Python and NumPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from backbone.contracts import Image
from backbone.errors import DataError
from backbone.rendering.lighting import Lighting
from backbone.rendering.mesh import Mesh
from navigation.homes.description import Home
from navigation.homes.meshes import home_pieces, joined
from navigation.worlds.rooms_view import lighting_of

VERSION = 4  # of the files below: another number makes cached exports be written anew
FLOAT, UINT32 = 5126, 5125  # glTF's names of number formats
VERTICES, INDICES = 34962, 34963  # glTF's buffer view targets
JSON_CHUNK, BINARY_CHUNK = 0x4E4F534A, 0x004E4942
UNIQUE_COLOURS = 32**3
# habitat rounds what one walks on up to layers of 0.2 m, counted from the lowest corner of the scene. A speck under the
# floor puts a layer's end 3 cm above it, where the agent then walks, also over rugs. Without it the agent would walk,
# and look, from 0.2 m, and take rugs for steps.
LAYER, SPECK_DEPTH, SPECK_SIZE = 0.2, 0.17, 0.01
WALK_HEIGHT = LAYER - SPECK_DEPTH  # y of a body on the floor
KEPT_HOMES, YOUNG_S = 500, 3600.0  # beyond so many exports, those unused for longer are removed
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class ExportedScene:
    """Where a home's files are. ``scene`` is what habitat-sim opens, ``dataset`` the table of the folder's scenes."""

    scene: Path
    dataset: Path


def export_home(home: Home, folder: Path) -> ExportedScene:
    """Write the home's files into a folder of their own below ``folder``; done before, nothing is written.

    The folder's name is a digest of the home, so that homes never share one. Several processes may export at once.
    """
    digest = hashlib.sha256(f"{VERSION} {home.to_json()}".encode()).hexdigest()
    name = f"home_{digest[:20]}"
    target = folder / name
    if target.is_dir():
        os.utime(target)  # in use: not to be removed
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
        try:
            _write(home, unfinished, name)
            os.rename(unfinished, target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster, with the same files
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return ExportedScene(target / f"{name}.stage_config.json", target / "homes.scene_dataset_config.json")


def _tidy(folder: Path) -> None:
    """Remove the exports used least recently, beyond `KEPT_HOMES`, and what a process that was killed left behind."""
    dated = []
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process tidies too
            dated.append((entry.stat().st_mtime, entry))
    old = [entry for when, entry in sorted(dated) if when < time.time() - YOUNG_S]
    whole = [entry for entry in old if not entry.name.startswith(".")]
    halves = [entry for entry in old if entry.name.startswith(".")]
    for entry in halves + whole[: max(len(dated) - len(halves) - KEPT_HOMES, 0)]:
        shutil.rmtree(entry, ignore_errors=True)


def _write(home: Home, folder: Path, name: str) -> None:
    pieces, atlas = home_pieces(home)
    (folder / f"{name}.glb").write_bytes(picture_glb(pieces, atlas, lighting_of(home)))
    colours = {number: label_colour(number) for number in home.labels()}
    (folder / f"{name}.semantic.glb").write_bytes(label_glb(joined([mesh for _, mesh in pieces]), colours))
    (folder / f"{name}.semantic.txt").write_text(label_table(home.labels(), colours), "utf-8")
    stage = {
        "render_asset": f"{name}.glb",
        "collision_asset": f"{name}.glb",
        "up": [0, 1, 0],  # without these two habitat takes z for up
        "front": [0, 0, -1],
        "semantic_asset": f"{name}.semantic.glb",
        "semantic_up": [0, 1, 0],
        "semantic_front": [0, 0, -1],
        "semantic_descriptor_filename": f"{name}.semantic.txt",
        "has_semantic_textures": False,
        "requires_lighting": False,  # the light is in the colours
    }
    (folder / f"{name}.stage_config.json").write_text(json.dumps(stage, indent=1), "utf-8")
    dataset = {"stages": {"paths": {".json": ["*.stage_config.json"]}}}
    (folder / "homes.scene_dataset_config.json").write_text(json.dumps(dataset, indent=1), "utf-8")
    (folder / "home.json").write_text(home.to_json(), "utf-8")


def picture_glb(pieces: Sequence[tuple[str, Mesh]], atlas: Image, lighting: Lighting) -> bytes:
    """A GLB of one node a piece (so that those out of view are left out), all textured by the atlas inside it.

    The light of `rooms` goes into the corners' colours, which habitat multiplies with the texture: same picture there.
    """
    glb = _Glb()
    png = io.BytesIO()
    Picture.fromarray(atlas).save(png, "PNG")
    glb.json["images"] = [{"bufferView": glb.view(png.getvalue()), "mimeType": "image/png"}]
    glb.json["samplers"] = [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}]  # as the renderer's
    glb.json["textures"] = [{"source": 0, "sampler": 0}]
    surface = {"baseColorTexture": {"index": 0}, "metallicFactor": 0.0, "roughnessFactor": 1.0}
    glb.json["materials"] = [{"pbrMetallicRoughness": surface, "name": "atlas"}]
    for name, mesh in (*pieces, ("speck", _speck(pieces[0][1]))):
        rows, order = _shared(np.concatenate([mesh.positions, mesh.normals, mesh.uv], axis=1))
        attributes = {"POSITION": rows[:, :3], "NORMAL": rows[:, 3:6], "TEXCOORD_0": rows[:, 6:]}
        attributes["COLOR_0"] = light_at(lighting, rows[:, :3], rows[:, 3:6])
        glb.node(name, attributes, order, material=0)
    return glb.pack()


def light_at(lighting: Lighting, places: NDArray[np.float32], normals: NDArray[np.float32]) -> NDArray[np.float32]:
    """The light (N, 3) on surfaces at ``places`` that face ``normals``, both (N, 3), as in the renderer's shader."""
    facing = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
    up, sun = (np.asarray(v) / np.linalg.norm(v) for v in (lighting.up, lighting.to_sun))
    upward = (0.5 + 0.5 * facing @ up)[:, None]
    light = np.asarray(lighting.below) * (1 - upward) + np.asarray(lighting.above) * upward
    light += np.asarray(lighting.sun) * np.maximum(facing @ sun, 0.0)[:, None]
    for lamp in lighting.lamps:
        way = np.asarray(lamp.position) - places
        far = np.linalg.norm(way, axis=1)
        fade = np.maximum(1.0 - far / lamp.reach, 0.0)
        slant = np.maximum((facing * way).sum(1) / np.maximum(far, 1e-4), 0.0)
        light += np.asarray(lamp.colour) * (fade * fade * slant)[:, None]
    return np.asarray(light, np.float32)


def _speck(near: Mesh) -> Mesh:
    """An upright triangle under a corner of ``near``, too small and too steep to stand on."""
    corner = near.positions.min(0) * np.array([1, 0, 1], np.float32)
    sides = np.array([[0, 0, 0], [SPECK_SIZE, 0, 0], [0, SPECK_SIZE, 0]], np.float32)
    places = corner - np.array([0, SPECK_DEPTH, 0], np.float32) + sides
    normals = np.tile(np.array([0, 0, 1], np.float32), (3, 1))
    return Mesh(places, normals, near.uv[:3], np.zeros(1, np.int32))


def label_glb(mesh: Mesh, colours: Mapping[int, Colour]) -> bytes:
    """A GLB whose vertices have the colour of their object's id; an id without one is a `DataError`."""
    unknown = sorted(set(np.unique(mesh.ids).tolist()) - set(colours))
    if unknown:
        raise DataError(f"label export: the mesh has ids {unknown[:8]} that the home does not name")
    # glTF's vertex colours are linear, and habitat compares their sRGB with the table
    numbers = np.array(sorted(colours))
    linear = _linear(np.array([colours[n] for n in numbers.tolist()], np.float64) / 255)
    painted = linear[np.searchsorted(numbers, np.repeat(mesh.ids, 3))]
    rows, order = _shared(np.concatenate([mesh.positions, painted.astype(np.float32)], axis=1))
    glb = _Glb()
    glb.json["materials"] = [{"pbrMetallicRoughness": {"metallicFactor": 0.0}, "name": "labels"}]
    glb.node("labels", {"POSITION": rows[:, :3], "COLOR_0": rows[:, 3:]}, order, material=0)
    return glb.pack()


def label_table(labels: Mapping[int, str], colours: Mapping[int, Colour]) -> str:
    """The table of ids, colours and categories in HM3D's form."""
    lines = ["HM3D Semantic Annotations"]
    lines += [f'{n},{bytes(colours[n]).hex().upper()},"{labels[n]}",0' for n in sorted(labels)]
    return "\n".join(lines) + "\n"


def label_colour(number: int) -> Colour:
    """A colour of its own for every id below 32,768, at least 8 steps in one channel from any other's."""
    if not 0 < number < UNIQUE_COLOURS:
        raise DataError(f"label export: ids from 1 to {UNIQUE_COLOURS - 1} have a colour, got {number}")
    mixed = number * 20_183 % UNIQUE_COLOURS  # odd, so no two ids meet; neighbours end up far apart
    return mixed % 32 * 8 + 4, mixed // 32 % 32 * 8 + 4, mixed // 1024 * 8 + 4


def _linear(srgb: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _shared(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """The different rows, and for each given row its index among them."""
    plain = np.ascontiguousarray(rows, np.float32) + np.float32(0)  # -0 and 0 are one
    keys = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return plain[first], inverse.ravel().astype(np.uint32)


class _Glb:
    """A binary glTF file in the making."""

    def __init__(self) -> None:
        self.json: dict[str, Any] = {"asset": {"version": "2.0", "generator": "fovea"}, "scene": 0}
        self.json |= {"scenes": [{"nodes": []}], "nodes": [], "meshes": [], "accessors": [], "bufferViews": []}
        self._binary = bytearray()

    def view(self, data: bytes, target: int | None = None) -> int:
        """Append bytes; the index of their buffer view."""
        self._binary += b"\0" * (-len(self._binary) % 4)
        view = {"buffer": 0, "byteOffset": len(self._binary), "byteLength": len(data)}
        self.json["bufferViews"].append(view | ({"target": target} if target else {}))
        self._binary += data
        return len(self.json["bufferViews"]) - 1

    def node(
        self, name: str, attributes: Mapping[str, NDArray[np.float32]], indices: NDArray[np.uint32], material: int
    ) -> None:
        """Append a node that holds one mesh."""
        numbered = {key: self._accessor(values, VERTICES, key == "POSITION") for key, values in attributes.items()}
        primitive = {"attributes": numbered, "indices": self._accessor(indices, INDICES, False), "material": material}
        self.json["meshes"].append({"name": name, "primitives": [primitive]})
        self.json["nodes"].append({"name": name, "mesh": len(self.json["meshes"]) - 1})
        self.json["scenes"][0]["nodes"].append(len(self.json["nodes"]) - 1)

    def _accessor(self, values: NDArray[Any], target: int, bounds: bool) -> int:
        kind = {1: "SCALAR"}.get(values.ndim) or f"VEC{values.shape[1]}"
        number = UINT32 if values.dtype == np.uint32 else FLOAT
        view = self.view(np.ascontiguousarray(values).tobytes(), target)
        entry: dict[str, Any] = {"bufferView": view, "count": len(values), "componentType": number, "type": kind}
        if bounds:
            entry |= {"min": values.min(0).tolist(), "max": values.max(0).tolist()}
        self.json["accessors"].append(entry)
        return len(self.json["accessors"]) - 1

    def pack(self) -> bytes:
        """The file."""
        self._binary += b"\0" * (-len(self._binary) % 4)
        text = json.dumps({**self.json, "buffers": [{"byteLength": len(self._binary)}]}).encode()
        text += b" " * (-len(text) % 4)
        parts = struct.pack("<II", len(text), JSON_CHUNK) + text
        parts += struct.pack("<II", len(self._binary), BINARY_CHUNK) + bytes(self._binary)
        return struct.pack("<4sII", b"glTF", 2, 12 + len(parts)) + parts
