"""The road scene: cameras, what stands where, ids and depth, and that nothing grows on the road."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from backbone.errors import DataError, WorldError
from driving.worlds.body import Body
from driving.worlds.scenery import Marking, Rig, RoadScene, Strip, look_pose
from driving.worlds.scenery_atlas import BORDER, CELL, SIDE, atlas, tile
from driving.worlds.scenery_meshes import CELL_M, GRASS_Z, scene_meshes
from driving.worlds.shapes import body_mesh

STRAIGHT = np.stack([np.linspace(0.0, 200.0, 41), np.zeros(41)], 1)
STRIPS = [Strip(STRAIGHT, 8.0)]
MARKINGS = [Marking(STRAIGHT, dashed=True), Marking(STRAIGHT + np.array([0.0, 3.9]), dashed=False, colour="yellow")]


@pytest.fixture(scope="module")
def scene() -> Iterator[RoadScene]:
    pytest.importorskip("moderngl", reason="moderngl is not installed: pip install -e '.[worlds]'")
    try:
        opened = RoadScene(96, 72, Rig())
    except WorldError as error:
        pytest.skip(f"no renderer here: {error}")
    opened.build(STRIPS, MARKINGS, 1)
    yield opened
    opened.close()


def car(x: float, y: float, number: int = 5, heading: float = 0.0, braking: bool = False) -> Body:
    return Body(number, "car", x, y, heading, 8.0, 5.0, 2.0, braking=braking)


def test_a_camera_looks_where_it_is_turned() -> None:
    pose = look_pose((1.0, 2.0, 1.5), math.pi / 2, 0.0)  # north
    np.testing.assert_allclose(-pose[:3, 2], (0, 1, 0), atol=1e-6)
    np.testing.assert_allclose(pose[:3, 0], (1, 0, 0), atol=1e-6)  # east lies to the right
    np.testing.assert_allclose(pose[:3, 1], (0, 0, 1), atol=1e-6)
    for yaw, pitch in ((0.3, -0.1), (-2.0, 0.2)):
        turn = look_pose((0.0, 0.0, 0.0), yaw, pitch)[:3, :3]
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)
        assert np.linalg.det(turn) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "camera"), [(100.0, 0.0, "front"), (92.0, 14.0, "front_left"), (92.0, -14.0, "front_right")]
)
def test_each_camera_sees_the_car_on_its_side(scene: RoadScene, x: float, y: float, camera: str) -> None:
    frames = scene.render(80.0, 0.0, 0.0, [car(x, y)], ids=True)
    seen = {name: int((f.ids == 5).sum()) for name, f in frames.items() if f.ids is not None}
    assert max(seen, key=lambda name: seen[name]) == camera
    assert seen[camera] > 20


def test_the_left_of_the_world_is_the_left_of_the_picture(scene: RoadScene) -> None:
    ids = scene.render(80.0, 0.0, 0.0, [car(100.0, 3.0, 6), car(100.0, -3.0, 7)], ids=True)["front"].ids
    assert ids is not None
    assert np.argwhere(ids == 6)[:, 1].mean() < 48 < np.argwhere(ids == 7)[:, 1].mean()
    turned = scene.render(120.0, 0.0, math.pi, [car(100.0, 3.0, 6), car(100.0, -3.0, 7)], ids=True)["front"].ids
    assert turned is not None
    assert np.argwhere(turned == 6)[:, 1].mean() > 48 > np.argwhere(turned == 7)[:, 1].mean()


def test_depth_is_the_distance_to_the_cars_back(scene: RoadScene) -> None:
    frame = scene.render(80.0, 0.0, 0.0, [car(100.0, 0.0)], depth=True, ids=True)["front"]
    assert frame.depth is not None
    assert frame.ids is not None
    back = 100.0 - 2.5 - 80.0 - Rig().forward
    assert float(frame.depth[frame.ids == 5].min()) == pytest.approx(back, abs=0.3)


def test_a_braking_car_shows_brighter_red(scene: RoadScene) -> None:
    def red(braking: bool) -> float:
        frame = scene.render(92.0, 0.0, 0.0, [car(100.0, 0.0, 4, braking=braking)], ids=True)["front"]
        assert frame.ids is not None
        pixels = frame.rgb[frame.ids == 4].astype(float)
        return float((pixels[:, 0] - pixels[:, 1:].max(1)).clip(0).sum())

    assert red(True) > 1.5 * red(False)


def test_the_ground_is_asphalt_before_the_car_and_grass_beside_it(scene: RoadScene) -> None:
    frames = scene.render(100.0, 0.0, 0.0, [])
    road, verge = (
        frames["front"].rgb[-4:, 38:44].reshape(-1, 3),
        frames["front_right"].rgb[-30:-25, -10:].reshape(-1, 3),
    )
    assert np.ptp(road.mean(0)) < 25  # grey
    green = verge.mean(0)
    assert green[1] > green[0] + 10
    assert green[1] > green[2] + 10


def test_scenes_are_a_function_of_their_seed() -> None:
    one, two, other = (scene_meshes(STRIPS, MARKINGS, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a.positions, b.positions) for (a, _), (b, _) in zip(one, two, strict=True))
    assert any(not np.array_equal(a.positions, b.positions) for (a, _), (b, _) in zip(one, other, strict=True))


def test_nothing_stands_on_the_road() -> None:
    for seed in range(6):
        for mesh, _ in scene_meshes(STRIPS, MARKINGS, seed):
            high = mesh.positions[mesh.positions[:, 2] > 0.05]
            on_road = (np.abs(high[:, 1]) < 4.5) & (high[:, 0] > 0.0) & (high[:, 0] < 200.0)
            assert not on_road.any()


def test_every_triangle_faces_outwards_and_stays_near_its_square() -> None:
    for mesh, middle in scene_meshes(STRIPS, MARKINGS, 3):
        corners = mesh.positions.reshape(-1, 3, 3)
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        flat = np.linalg.norm(normal, axis=1) > 1e-6
        facing = np.einsum("ij,ij->i", normal, mesh.normals.reshape(-1, 3, 3).mean(1))
        assert (facing[flat] > 0).all()
        assert np.abs(mesh.positions[:, :2] - middle).max() < CELL_M * 0.75  # what the cull allows for
        assert mesh.positions[:, 2].min() >= GRASS_Z - 1e-6


@pytest.mark.parametrize("kind", ["car", "truck", "cyclist", "pedestrian", "obstacle"])
def test_bodies_have_their_size(kind: str) -> None:
    length, width, height = {"pedestrian": (0.6, 0.6, 1.7), "cyclist": (1.8, 0.6, 1.7)}.get(kind, (4.6, 1.9, 1.5))
    mesh = body_mesh(kind, length, width, height, 3, braking=False)  # type: ignore[arg-type]
    low, high = mesh.positions.min(0), mesh.positions.max(0)
    assert low[2] == pytest.approx(0.0, abs=0.05)
    assert high[2] == pytest.approx(height, abs=0.05)
    if kind in ("car", "truck", "obstacle"):
        np.testing.assert_allclose((high - low)[:2], (length, width), atol=0.12)


def test_a_scene_without_a_road_is_refused() -> None:
    with pytest.raises(DataError, match="at least one strip"):
        scene_meshes([], [], 0)


def test_tiles_lie_inside_the_atlas_with_a_border_of_their_own_colour() -> None:
    picture = atlas()
    assert picture.shape == (SIDE, SIDE, 3)
    u0, v0, u1, v1 = (round(c * SIDE) for c in tile("brake"))
    assert (u1 - u0, v1 - v0) == (CELL - 2 * BORDER, CELL - 2 * BORDER)
    assert (picture[v0 - BORDER : v1 + BORDER, u0 - BORDER : u1 + BORDER] == picture[v0, u0]).all()
    with pytest.raises(KeyError):
        tile("lava")
