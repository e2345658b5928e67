"""The habitat world without its simulator: settings, episodes, exported files, the recipe, the last metres' planner."""

import ast
import json
import math
import os
import platform
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.environments.habitat import install as recipe
from apps.environments.habitat.older_glibc import relax_versions
from backbone.errors import ConfigError, DataError, WorldError
from backbone.rendering.mesh import Mesh
from navigation.episode_files import read_episodes, to_json, write_episodes
from navigation.episode_making import make_episodes
from navigation.homes.generate import generate_home
from navigation.homes.meshes import home_pieces
from navigation.worlds import habitat_cameras, habitat_export, habitat_worker
from navigation.worlds.approach import approach
from navigation.worlds.habitat import HabitatConfig
from navigation.worlds.habitat_export import (
    UNIQUE_COLOURS,
    WALK_HEIGHT,
    export_home,
    label_colour,
    label_glb,
    label_table,
)
from navigation.worlds.habitat_map import draw_scene
from navigation.worlds.navigation_world import ahead, heading_of
from navigation.worlds.rooms_episode import choose_start
from navigation.worlds.rooms_scene import Scene


@pytest.fixture(scope="module")
def scene():
    return Scene.of(generate_home(2, "val"))


@pytest.fixture
def worlds(tmp_path, monkeypatch):
    monkeypatch.setenv("FOVEA_WORLDS", str(tmp_path / "worlds"))
    return tmp_path / "worlds"


def parse_glb(data):
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON"
    content = json.loads(data[20 : 20 + size])
    binary, kind = struct.unpack_from("<I4s", data, 20 + size)
    assert kind == b"BIN\0"
    blob = data[28 + size : 28 + size + binary]

    def values(index):
        accessor = content["accessors"][index]
        view = content["bufferViews"][accessor["bufferView"]]
        columns = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[accessor["type"]]
        dtype = {5126: "<f4", 5125: "<u4"}[accessor["componentType"]]
        raw = np.frombuffer(blob, dtype, accessor["count"] * columns, view["byteOffset"])
        return raw.reshape(-1, columns) if columns > 1 else raw

    return content, values


# settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"episodes": "x.json.gz"}, "go together"),
        ({"content": ("a",)}, "belong to episodes from a file"),
        ({"lighting": True}, "belong to episodes from a file"),
        ({"episodes": "x", "scenes": "y", "home": 3}, "belong to generated homes"),
        ({"agent_radius": 0.0}, "agent_radius"),
        ({"gpu_device_id": -2}, "gpu_device_id"),
        ({"turn_deg": 50.0}, "turn_deg must divide"),
        ({"category": "dragon"}, "category must be one of"),
    ],
)
def test_wrong_settings_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        HabitatConfig(**wrong)


def test_without_the_simulator_the_remedy_is_named(worlds):
    with pytest.raises(WorldError, match="fovea worlds install habitat"):
        HabitatConfig().make()
    with pytest.raises(WorldError, match="is not a program"):
        HabitatConfig(python="/nowhere/python").make()


def test_options_name_episodes_of_files_only():
    assert HabitatConfig().options(7) == {}
    assert HabitatConfig(episodes="x", scenes="y").options(7) == {"episode": 7}


# episodes --------------------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_episode_as_in_rooms(worlds):
    task = HabitatConfig(split="val", homes=3).source().task(5, {})
    start = choose_start(task.home, 5, None)
    assert task.home.home == generate_home(2, "val")
    assert task.start_position == (start.place[0], WALK_HEIGHT, start.place[1])
    assert heading_of(task.start_rotation_xyzw) == pytest.approx(start.heading)
    assert np.array_equal(task.view_points[:, [0, 2]], task.home.goals(start.category).views)
    assert task.scene.is_file()
    assert task.scene.is_relative_to(worlds)
    named = HabitatConfig(split="val").source().task(5, {"home": 2, "category": "table"})
    assert named.category == "table"
    with pytest.raises(WorldError, match="unknown options"):
        HabitatConfig().source().task(0, {"hose": 1})


def test_episodes_of_a_home_round_trip(scene, tmp_path):
    episodes = make_episodes(scene, 3, 6, "homes/x.stage_config.json")
    assert [e.category for e in episodes.episodes] == [choose_start(scene, 3 + i, None).category for i in range(6)]
    for episode in episodes.episodes:
        assert scene.floor.contains([episode.start_position[0], episode.start_position[2]])
        assert episode.geodesic_distance > 0.3
        for goal in episodes.goals_of(episode):
            thing = scene.home.thing(goal.object_id)
            assert thing.category == episode.category
            views, turned = goal.view_positions, goal.view_rotations_xyzw
            for view, rotation in zip(views[::7], turned[::7], strict=True):  # each looks at its object
                x, z = ahead(heading_of(tuple(rotation)))
                way = np.array([thing.position[0] - view[0], thing.position[2] - view[2]])
                assert way @ [x, z] == pytest.approx(np.linalg.norm(way), abs=1e-6)
    write_episodes(episodes, tmp_path / "val.json.gz")
    assert to_json(read_episodes(tmp_path / "val.json.gz")) == to_json(episodes)
    assert to_json(make_episodes(scene.home, 3, 6, "homes/x.stage_config.json")) == to_json(episodes)
    with pytest.raises(ConfigError, match="at least 1"):
        make_episodes(scene, 0, 0)


def test_a_file_whose_scenes_are_missing_says_so(scene, tmp_path):
    write_episodes(make_episodes(scene, 0, 3, "a/b.glb"), tmp_path / "val.json.gz")
    config = HabitatConfig(episodes=str(tmp_path / "val.json.gz"), scenes=str(tmp_path / "scenes"))
    with pytest.raises(WorldError, match=r"episode 1 needs the scene .*a/b\.glb"):
        config.source().task(0, config.options(1))
    (tmp_path / "scenes" / "a").mkdir(parents=True)
    (tmp_path / "scenes" / "a" / "b.glb").touch()
    task = config.source().task(0, config.options(4))  # counted round
    assert task.about == {"episode": "1", "scene": "a/b.glb"}
    x, _, z = task.goals[0].position
    assert task.object_distance(x + 3, z + 4) <= 5.0
    with pytest.raises(WorldError, match="option episode"):
        config.source().task(0, {"home": 3})
    broken = HabitatConfig(episodes=str(tmp_path / "no.json.gz"), scenes=str(tmp_path))
    with pytest.raises(WorldError, match="no such file"):
        broken.source().task(0, {})


# exported files --------------------------------------------------------------------------------------------------


def test_exported_files_hold_the_home(scene, tmp_path):
    files = export_home(scene.home, tmp_path)
    folder, name = files.scene.parent, files.scene.name.removesuffix(".stage_config.json")
    stage = json.loads(files.scene.read_text())
    assert all((folder / stage[key]).is_file() for key in ("render_asset", "semantic_asset"))
    assert (stage["up"], stage["front"]) == ([0, 1, 0], [0, 0, -1])
    content, values = parse_glb((folder / f"{name}.glb").read_bytes())
    assert [node["name"] for node in content["nodes"]] == [*(r.name for r in scene.home.rooms), "speck"]
    for mesh, (_, piece) in zip(content["meshes"], home_pieces(scene.home)[0], strict=False):
        part = mesh["primitives"][0]
        order = values(part["indices"])
        assert np.array_equal(values(part["attributes"]["POSITION"])[order], piece.positions)
        assert np.array_equal(values(part["attributes"]["TEXCOORD_0"])[order], piece.uv)
    before = files.scene.stat().st_mtime_ns
    assert export_home(scene.home, tmp_path) == files
    assert files.scene.stat().st_mtime_ns == before  # written once


def test_labels_have_colours_of_their_own():
    colours = [label_colour(n) for n in range(1, UNIQUE_COLOURS)]
    assert len(set(colours)) == len(colours)
    assert all(len(set(c) & {0, 255}) == 0 for c in colours)
    for wrong in (0, -1, UNIQUE_COLOURS):
        with pytest.raises(DataError, match="ids from 1"):
            label_colour(wrong)


def test_label_glb_paints_what_the_table_names(scene):
    mesh = scene.pieces[0][1]
    colours = {n: label_colour(n) for n in scene.home.labels()}
    content, values = parse_glb(label_glb(mesh, colours))
    part = content["meshes"][0]["primitives"][0]
    linear = values(part["attributes"]["COLOR_0"])[values(part["indices"])].astype(np.float64)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    seen = [tuple(c) for c in np.rint(srgb * 255).astype(int).tolist()]
    table = {}
    for line in label_table(scene.home.labels(), colours).splitlines()[1:]:
        number, colour, category, _ = line.split(",")
        table[tuple(bytes.fromhex(colour))] = (int(number), category.strip('"'))
    assert [table[c][0] for c in seen] == np.repeat(mesh.ids, 3).tolist()
    assert dict(table.values()) == scene.home.labels()
    alien = Mesh(mesh.positions[:3], mesh.normals[:3], mesh.uv[:3], np.array([31000], np.int32))
    with pytest.raises(DataError, match="31000"):
        label_glb(alien, colours)


def test_old_exports_are_removed_and_young_ones_are_not(tmp_path, monkeypatch, scene):
    monkeypatch.setattr(habitat_export, "KEPT_HOMES", 2)
    monkeypatch.setattr(habitat_export, "_write", lambda home, folder, name: (folder / "x").touch())
    for i, age in enumerate((9e3, 8e3, 7e3, 10.0)):
        (tmp_path / f"home_{i}").mkdir()
        os.utime(tmp_path / f"home_{i}", (time.time() - age,) * 2)
    (tmp_path / ".home_9.left").mkdir()
    os.utime(tmp_path / ".home_9.left", (time.time() - 9e3,) * 2)
    export_home(scene.home, tmp_path)
    kept = sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("home_") or len(p.name) < 8)
    assert kept == ["home_2", "home_3"]


# the planner -----------------------------------------------------------------------------------------------------


@given(
    x=st.floats(-2, 2),
    z=st.floats(-2, 2),
    heading=st.floats(-3.1, 3.1),
    turn_deg=st.sampled_from([5.0, 10.0, 15.0, 30.0, 45.0]),
)
@example(x=2.0, z=2.0, heading=2.0, turn_deg=15.0)  # a search for the shortest way alone spreads and finds none
@example(x=-1.5336, z=0.4286, heading=2.7013, turn_deg=15.0)
def test_approach_ends_within_reach(x, z, heading, turn_deg):
    turn, goal = math.radians(turn_deg), np.array([x, z])

    def move(place, towards):
        dx, dz = ahead(towards)
        return place[0] + 0.25 * dx, place[1] + 0.25 * dz

    def distance(place):
        return math.dist(place, goal)

    names = approach((0.0, 0.0), heading, move, distance, 0.1, turn, 0.25)
    assert names is not None
    place, facing = (0.0, 0.0), heading
    for name in names:
        if name == "move_forward":
            place = move(place, facing)
        else:
            facing += turn if name == "turn_left" else -turn
    assert distance(place) < 0.1
    walked = 0.25 * names.count("move_forward")
    assert walked <= max(distance((0.0, 0.0)) + 0.6, 1.0)  # no detours; near by only a loop may lead there


def test_approach_gives_up_where_nothing_leads():
    assert approach((0.0, 0.0), 0.0, lambda p, h: p, lambda p: 1.0, 0.1, math.radians(30), 0.25) is None
    assert approach((0.0, 0.0), 0.0, lambda p, h: p, lambda p: 0.05, 0.1, math.radians(30), 0.25) == []


# the worker's cameras --------------------------------------------------------------------------------------------


class FakeCamera:
    def __init__(self, frame, target):
        self.view, self._buffer, self.frame, self.target = self, np.zeros_like(frame), frame, target
        self._sensor_object = SimpleNamespace(render_target=target)
        self.draws = 0

    def draw_observation(self):
        self.draws += 1

    def get_observation(self):
        return self.frame[::-1]


class FakeSimulator:
    """Two cameras; the depth camera's frame holds ``kept`` as its colours once it was told to."""

    class Renderer:
        Flags = SimpleNamespace(VISUALIZE_TEXTURE="colours")

        def bind_render_target(self, sensor, flag):
            sensor.render_target.colours = flag

    class OldRenderer:
        pass

    def __init__(self, kept, renderer):
        random = np.random.default_rng(0)
        self.rgba, metres = random.integers(0, 256, (4, 6, 4), np.uint8), random.random((4, 6), np.float32)
        target = SimpleNamespace(colours=None, read_frame_rgba=self.read)
        self._kept, self._target, self.renderer = self.rgba if kept is None else kept, target, renderer()
        self._sensors = {"rgb": FakeCamera(self.rgba, None), "depth": FakeCamera(metres, target)}

    def read(self, camera):
        assert self._target.colours == "colours"
        camera._buffer[:] = self._kept

    def get_sensor_observations(self, agent_ids):
        for camera in self._sensors.values():
            camera.draw_observation()
        return {name: camera.get_observation() for name, camera in self._sensors.items()}


@pytest.mark.parametrize(
    ("kept", "renderer", "at_once"),
    [
        (None, FakeSimulator.Renderer, True),
        (np.zeros((4, 6, 4), np.uint8), FakeSimulator.Renderer, False),  # another picture: never shown
        (None, FakeSimulator.OldRenderer, False),
    ],
)
def test_colour_and_depth_come_of_one_drawing_only_where_both_are_the_same(kept, renderer, at_once):
    sim = FakeSimulator(kept, renderer)
    eyes = habitat_cameras.Eyes(sim, depth=True)
    eyes.compare()
    assert eyes.at_once is at_once
    before = sim._sensors["rgb"].draws
    colour, depth = eyes.look()
    assert np.array_equal(colour, sim.rgba[::-1, :, :3])
    assert np.array_equal(depth, sim._sensors["depth"].frame[::-1])
    assert sim._sensors["rgb"].draws == before + (not at_once)


# the worker's files, the map, the recipe -------------------------------------------------------------------------


def test_worker_files_are_python_38_with_numpy_only():
    allowed = {"numpy", "fovea_habitat", "habitat_sim"}
    for name in ("habitat_worker.py", "habitat_episode.py", "habitat_cameras.py", "approach.py"):
        tree = ast.parse(Path(habitat_worker.__file__).with_name(name).read_text(), feature_version=(3, 8))
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert imported - allowed <= {"__future__", "heapq", "importlib", "math", "os", "typing"}


def test_map_shows_the_way():
    free = np.ones((40, 60), np.uint8)
    free[:, 30] = 0
    way = [(0.5, 0.5), (1.0, 1.0)]
    none = np.zeros((0, 2))
    image = draw_scene(free, (0.0, 0.0), 0.05, way, 0.3, np.array([[2.0, 1.0]]), np.array([[1.9, 1.0]]), none)
    assert image.shape[1] == 480
    assert image.dtype == np.uint8
    colours = {tuple(c) for c in image.reshape(-1, 3).tolist()}
    assert {(214, 60, 44), (232, 150, 20), (36, 112, 214), (242, 240, 235), (62, 66, 74)} <= colours


def test_recipe_says_what_the_machine_lacks(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(WorldError, match=r"x86-64 Linux, this is aarch64.*rooms.*--python"):
        recipe.check_machine()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(recipe.shutil, "which", lambda name: None)
    with pytest.raises(WorldError, match=r"g\+\+ is needed"):
        recipe.check_machine()
    monkeypatch.setattr(recipe.shutil, "which", lambda name: f"/usr/bin/{name}")

    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(recipe.ctypes, "CDLL", absent)
    with pytest.raises(WorldError, match=r"libEGL\.so\.1 is missing"):
        recipe.check_machine()
    monkeypatch.setattr(os, "confstr", lambda name: None)
    with pytest.raises(WorldError, match="needs glibc"):
        recipe.check_machine()


def test_recipe_pins_every_file_by_hash():
    lines = [line for line in recipe.REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    for name, digest in zip(lines[::2], lines[1::2], strict=True):
        assert "==" in name
        assert digest.strip().startswith("--hash=sha256:")
        assert len(digest.strip()) == len("--hash=sha256:") + 64
    assert any("habitat-sim-uv-wheels-experimental==0.2.2a2" in line for line in lines)
    assert any("pybind11==2.10.4 " in line for line in lines)  # any other has another table of types


def made_elf():
    """A 64-bit ELF file with three symbols, of the versions OLD_1, GLIBC_2.38 and GLIBCXX_3.4.32, in its tables."""
    names = b"\0libc\0OLD_1\0GLIBC_2.38\0GLIBCXX_3.4.32\0"
    at = {n: names.index(n) for n in (b"libc", b"OLD_1", b"GLIBC_2.38", b"GLIBCXX_3.4.32")}
    needs = struct.pack("<HHIII", 1, 3, at[b"libc"], 16, 0)
    for i, (version, following) in enumerate([(b"OLD_1", 16), (b"GLIBC_2.38", 16), (b"GLIBCXX_3.4.32", 0)]):
        needs += struct.pack("<IHHII", 0, 0, i + 2, at[version], following)
    symbols = struct.pack("<5H", 0, 2, 3, 4 | 0x8000, 1)
    parts, offsets = [names, needs, symbols], []
    body = b""
    for part in parts:
        offsets.append(64 + len(body))
        body += part + b"\0" * (-len(part) % 8)
    kinds = [(3, 0), (0x6FFFFFFE, 0), (0x6FFFFFFF, 0)]  # strings, needs (linked to strings), versions of symbols
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, len(part), link, 0, 1, 0)
        for (kind, link), offset, part in zip(kinds, offsets, parts, strict=True)
    )
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, 64 + len(body))
    struct.pack_into("<HH", head, 0x3A, 64, 3)
    return bytes(head) + body + table, offsets


def test_versions_too_new_are_made_weak_once(tmp_path):
    data, (_, needs, symbols) = made_elf()
    library = tmp_path / "x.so"
    library.write_bytes(data)
    assert relax_versions(library) == 2
    after = library.read_bytes()
    assert struct.unpack_from("<5H", after, symbols) == (0, 2, 1, 1, 1)  # the old one keeps its version
    flags = [struct.unpack_from("<H", after, needs + 16 + 16 * i + 4)[0] for i in range(3)]
    assert flags == [0, 2, 2]
    assert relax_versions(library) == 0
    assert library.read_bytes() == after
    library.write_bytes(b"MZ" + data)
    with pytest.raises(WorldError, match="no 64-bit"):
        relax_versions(library)
