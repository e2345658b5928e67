"""Generated homes: sound, reachable, reproducible; shortest ways against a grid; view points against drawn pictures."""

import math
from functools import lru_cache

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from backbone.errors import ConfigError, DataError, WorldError
from navigation.homes.description import FIRST_ID, Home
from navigation.homes.furniture import CATEGORIES, GOAL_CATEGORIES, KINDS, ROUND
from navigation.homes.generate import HomeRules, generate_home
from navigation.homes.geodesic import AGENT_RADIUS, MESH_MARGIN, MESH_NECK, FloorMap, free_floor, obstacle
from navigation.homes.materials import BORDER, CELL, PATTERNS, atlas_of
from navigation.homes.meshes import home_mesh
from navigation.homes.openings import rooms_in_sight
from navigation.homes.plan import common_side, make_plan
from navigation.homes.viewpoints import EYE, GRID, REACH, Sight, view_points
from navigation.worlds.rooms_scene import Scene
from navigation.worlds.rooms_view import View

SEEDS = range(14)


@lru_cache(maxsize=32)
def home_of(seed: int, split: str = "train") -> Home:
    return generate_home(seed, split)


@lru_cache(maxsize=8)
def floor_of(seed: int) -> FloorMap:
    return FloorMap(home_of(seed))


def places_on(floor: FloorMap, count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    x0, z0, x1, z1 = floor.free.bounds
    points = random.uniform((x0, z0), (x1, z1), (count * 8, 2))
    return points[floor.contains(points)][:count]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rooms=st.integers(3, 8))
def test_plans_tile_a_rectangle_and_join_all_rooms(seed, rooms):
    from random import Random

    plan = make_plan(Random(seed), rooms)
    assert len(plan.cells) == rooms
    area = sum(a * b for a, b in (c.sides for c in plan.cells))
    assert area == pytest.approx(max(c.x1 for c in plan.cells) * max(c.z1 for c in plan.cells))
    boxes = [shapely.box(c.x0, c.z0, c.x1, c.z1) for c in plan.cells]
    assert shapely.union_all(boxes).area == pytest.approx(area)
    reached = {0}
    for _ in plan.cells:
        reached |= {i for p in plan.passages if reached & set(p.cells) for i in p.cells}
    assert len(reached) == rooms
    for p in plan.passages:
        along, place, low, high = common_side(*(plan.cells[i] for i in p.cells))
        middle, other = (p.x, p.z) if along == "x" else (p.z, p.x)
        assert (along, other) == (p.along, pytest.approx(place))
        assert p.width >= 0.84
        assert low + 0.2 < middle - p.width / 2
        assert middle + p.width / 2 < high - 0.2


def test_json_round_trip_rebuilds_the_same_mesh():
    for seed in (1, 5):
        home = home_of(seed)
        again = Home.from_json(home.to_json())
        assert again == home
        (mesh, atlas), (mesh2, atlas2) = home_mesh(home), home_mesh(again)
        assert np.array_equal(atlas, atlas2)
        assert all(np.array_equal(getattr(mesh, f), getattr(mesh2, f)) for f in ("positions", "normals", "uv", "ids"))


def test_same_seed_same_home_and_splits_differ():
    assert generate_home(3) == home_of(3)
    assert home_of(3) != home_of(4)
    assert home_of(3, "val").things != home_of(3).things
    assert home_of(3, "val").split == "val"


@pytest.mark.parametrize("seed", SEEDS)
def test_homes_are_sound(seed):
    home = home_of(seed)
    assert 3 <= len(home.rooms) <= 8
    assert len({r.kind for r in home.rooms}) >= 3
    floor = floor_of(seed).free
    for room in home.rooms:  # every room can be entered
        assert floor.intersection(shapely.box(room.x0, room.z0, room.x1, room.z1)).area > 0.3
    assert floor.contains(shapely.Point(home.start[0], home.start[2]))
    for door in home.doors:  # and nothing stands in a doorway
        assert floor.distance(shapely.Point(door.x, door.z)) < 1e-6
    kinds = {r.name: r.kind for r in home.rooms}
    standing = []
    for thing in home.things:
        (x0, y0, z0), (x1, y1, z1) = thing.box()
        room = home.room(thing.room)
        assert room.x0 - 0.01 <= x0 < x1 <= room.x1 + 0.01
        assert room.z0 - 0.01 <= z0 < z1 <= room.z1 + 0.01
        assert y0 >= 0 < y1 < home.height
        if thing.category in ("toilet", "bathtub", "shower"):
            assert kinds[thing.room] == "bathroom"
        if thing.on:
            assert home.thing(thing.on).room == thing.room
        elif y0 == 0 and thing.category not in ("rug", "chair"):
            standing.append(shapely.box(x0, z0, x1, z1))
    for i, a in enumerate(standing):  # furniture does not run into furniture
        assert all(a.intersection(b).area < 1e-4 for b in standing[:i])


def test_all_goal_categories_occur():
    found = {t.category for seed in SEEDS for t in home_of(seed).things}
    assert set(GOAL_CATEGORIES) <= found
    assert len(GOAL_CATEGORIES) == 21
    assert {"chair", "bed", "plant", "toilet", "tv_monitor", "sofa"} <= set(GOAL_CATEGORIES)


def test_unusual_places():
    rules = HomeRules(unusual=(("toilet", "kitchen"), ("bed", "living_room")))
    for seed in range(4):
        home = generate_home(seed, "val", rules)
        kinds = {r.name: r.kind for r in home.rooms}
        where = {t.category: kinds[t.room] for t in home.things if t.category in ("toilet", "bed")}
        assert set(where.items()) <= {("toilet", "kitchen"), ("bed", "living_room")}
    with pytest.raises(ConfigError, match="unusual"):
        HomeRules(unusual=(("toilet", "garage"),))


@pytest.mark.parametrize("seed", [0, 6])
def test_mesh_holds_every_thing_where_it_is_said_to_be(seed):
    home = home_of(seed)
    mesh, atlas = home_mesh(home)
    labels = home.labels()
    assert set(np.unique(mesh.ids)) <= set(labels)
    assert set(labels.values()) <= set(CATEGORIES)
    corners = mesh.positions.reshape(-1, 3, 3)
    for thing in home.things:
        points = corners[mesh.ids == thing.id].reshape(-1, 3)
        low, high = (np.array(v) for v in thing.box())
        assert len(points)
        assert (points.min(0) > low - 0.13).all(), thing
        assert (points.max(0) < high + np.array([0.13, 0.25, 0.13])).all(), thing  # taps stand above their basins
        assert (points.max(0) - points.min(0) > 0.55 * (high - low)).all(), thing
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((crossed * mesh.normals.reshape(-1, 3, 3)[:, 0]).sum(-1) > 0).all()
    assert mesh.uv.min() >= 0
    assert mesh.uv.max() <= 1
    assert atlas.shape[1] == 8 * CELL
    assert atlas.shape[0] % CELL == 0


def test_every_pattern_paints_and_tiles_keep_a_border():
    materials = [m for seed in SEEDS for m in home_of(seed).materials]
    chosen = list({m.pattern: m for m in materials}.values())
    assert {m.pattern for m in chosen} == set(PATTERNS)
    atlas, tiles = atlas_of(chosen)
    for material, (u0, v0, u1, v1) in zip(chosen, tiles, strict=True):
        x0, y0, x1, y1 = (
            round(v) for v in (u0 * atlas.shape[1], v0 * atlas.shape[0], u1 * atlas.shape[1], v1 * atlas.shape[0])
        )
        tile = atlas[y0:y1, x0:x1]
        assert tile.std() > 0.5, material
        left = atlas[y0:y1, x0 - BORDER : x0]
        assert np.array_equal(left, tile[:, -BORDER:]) or np.array_equal(left, np.repeat(tile[:, :1], BORDER, 1))


def test_builders_of_furniture_never_leave_the_floor_or_run_wild():
    from random import Random

    from navigation.homes.parts import Parts

    for name, kind in KINDS.items():
        for variant in range(12):
            random = Random(variant)
            size = tuple(random.uniform(*r) for r in (kind.width, kind.height, kind.depth))
            size = (size[0], size[1], size[0] if name in ROUND else size[2])
            parts = Parts(Random(variant))
            kind.builder(parts, *size)
            points = np.concatenate([p.corners() for p in parts.list])
            assert points[:, 1].min() > -0.08, name
            assert (np.abs(points[:, [0, 2]]) < np.array([size[0], size[2]]) / 2 + 0.13).all(), name
            assert {m for p in parts.list for m in (p.material, p.top)} <= set(range(len(kind.roles))), name


def grid_distances(floor: FloorMap, source: np.ndarray, cell: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Dijkstra on a grid with 32 directions: an independent upper bound that is at most about 1 % too long."""
    x0, z0, x1, z1 = floor.free.bounds
    xs, zs = np.arange(source[0] - math.ceil((source[0] - x0) / cell) * cell, x1, cell), None
    zs = np.arange(source[1] - math.ceil((source[1] - z0) / cell) * cell, z1, cell)
    grid = np.stack(np.meshgrid(xs, zs), -1)
    inside = shapely.contains_xy(floor.free, grid[..., 0], grid[..., 1])
    index = np.arange(inside.size).reshape(inside.shape)
    rows, columns, costs = [], [], []
    for dz in range(-4, 5):
        for dx in range(-4, 5):
            if math.gcd(dx, dz) != 1 or (dz, dx) <= (0, 0):
                continue
            a = (slice(max(-dz, 0), inside.shape[0] - max(dz, 0)), slice(max(-dx, 0), inside.shape[1] - max(dx, 0)))
            b = (slice(max(dz, 0), inside.shape[0] + min(dz, 0)), slice(max(dx, 0), inside.shape[1] + min(dx, 0)))
            both = inside[a] & inside[b]
            lines = shapely.linestrings(np.stack([grid[a][both], grid[b][both]], 1))
            free = shapely.covers(floor.free, lines)
            rows.append(index[a][both][free])
            columns.append(index[b][both][free])
            costs.append(np.full(free.sum(), cell * math.hypot(dx, dz)))
    size = (inside.size,) * 2
    graph = csr_matrix((np.concatenate(costs), (np.concatenate(rows), np.concatenate(columns))), size)
    start = int(np.linalg.norm(grid - source, axis=-1).argmin())
    found = dijkstra(graph, directed=False, indices=start)
    reached = np.isfinite(found)
    return grid.reshape(-1, 2)[reached], found[reached]


@pytest.mark.parametrize("seed", [2, 8])
def test_shortest_ways_are_those_of_a_fine_grid(seed):
    floor = floor_of(seed)
    source = places_on(floor, 1, seed)[0]
    points, distances = grid_distances(floor, source)
    picks = np.random.default_rng(seed).choice(len(points), 120)
    field = floor.field(source[None])
    ours = np.array([floor.distance_in(field, p) for p in points[picks]])
    assert (ours <= distances[picks] + 1e-6).all()  # the grid's ways are ways, so none is shorter than ours
    far = distances[picks] > 0.5
    assert (distances[picks][far] / ours[far]).max() < 1.03
    assert (distances[picks][far] / ours[far]).mean() < 1.012


@pytest.mark.parametrize("seed", [3, 6])
def test_ways_stay_on_the_floor_and_obey_the_triangle(seed):
    floor = floor_of(seed)
    a, b, c = places_on(floor, 3, seed)
    way = floor.path(a, b)
    length = np.linalg.norm(np.diff(way, axis=0), axis=1).sum()
    assert length == pytest.approx(floor.distance(a, b), abs=1e-6)
    assert floor.distance(a, b) == pytest.approx(floor.distance(b, a), abs=2e-3)
    assert floor.distance(a, b) <= floor.distance(a, c) + floor.distance(c, b) + 2e-3
    assert floor.distance(a, b) >= np.linalg.norm(a - b) - 1e-9
    assert floor.free.buffer(1e-3).covers(shapely.LineString(way))
    goals = places_on(floor, 30, seed + 1)
    nearest = min(floor.distance(a, g) for g in goals)
    assert floor.distance_in(floor.field(goals), a) == pytest.approx(nearest, abs=1e-6)
    with pytest.raises(DataError, match="no goal"):
        floor.field([(-50.0, -50.0)])


def test_floor_beyond_a_neck_is_left_out():
    home = generate_home(1, "val")  # its gym has a corner behind equipment
    radius = AGENT_RADIUS + MESH_MARGIN
    whole, sure = free_floor(home, radius), free_floor(home, radius, MESH_NECK)
    parts = sorted(p.area for p in shapely.get_parts(whole.buffer(-MESH_NECK / 2)))
    assert parts[-2] > 1.0  # cut off in Habitat's mesh
    assert 0.9 * parts[-2] < whole.area - sure.area < 1.5 * parts[-2]
    assert whole.buffer(1e-6).contains(sure)
    assert sum(shapely.area(shapely.get_parts(sure.buffer(-MESH_NECK / 2))) > 0.01) == 1
    open_home = generate_home(0, "val")
    assert free_floor(open_home, radius, MESH_NECK).equals(free_floor(open_home, radius))


@pytest.mark.parametrize("seed", range(4))
def test_scenes_keep_as_far_from_things_as_habitat_and_enter_every_room(seed):
    home = home_of(seed)
    floor = Scene.of(home).floor
    near = shapely.union_all([o for o in map(obstacle, home.things) if o is not None])
    away = shapely.distance(shapely.points(floor.corners), near)
    assert away.min() > 0.9 * (AGENT_RADIUS + MESH_MARGIN)
    for room in home.rooms:
        assert floor.free.intersection(shapely.box(room.x0, room.z0, room.x1, room.z1)).area > 0.3


def test_walking_stops_at_contact_without_sliding():
    floor = floor_of(1)
    random = np.random.default_rng(0)
    blocks = shapely.union_all([o for t in floor.home.things if (o := obstacle(t)) is not None])
    hits = 0
    for place in places_on(floor, 60):
        way = random.normal(size=2)
        end = place + way / np.linalg.norm(way) * 0.8
        there, collided = floor.walk(place, end)
        hits += collided
        assert floor.contains(there)
        (ax, az), (bx, bz) = end - place, there - place
        assert abs(ax * bz - az * bx) < 1e-9  # on the straight line
        assert collided == (np.linalg.norm(there - end) > 1e-9)
        assert blocks.distance(shapely.Point(there)) > 0.9 * floor.radius - 0.01
        if collided:  # a little further on there is something
            further = there + (end - place) / 0.8 * 0.01
            assert not floor.contains(further)
    assert 10 < hits < 60


def test_view_points_see_their_thing_in_the_picture():
    home = home_of(1)
    floor, sight = floor_of(1), Sight(home)
    scene, view = Scene.of(home), View(64, 64, 79.0, EYE)
    try:
        view.show(scene)
    except WorldError as error:
        pytest.skip(f"no off-screen OpenGL here: {error}")
    random, seen = np.random.default_rng(0), []
    for thing in (t for t in home.things if t.category in GOAL_CATEGORIES):
        views = view_points(thing, floor, sight)
        outline = shapely.MultiPoint(thing.corners()).convex_hull
        assert np.allclose(np.round(views / GRID) * GRID, views)
        assert floor.contains(views).all()
        for x, z in views[random.permutation(len(views))[:1]]:
            assert outline.distance(shapely.Point(x, z)) <= REACH + 1e-9
            heading = math.atan2(x - thing.position[0], z - thing.position[2])
            seen.append((view.render(np.array([x, z]), heading, ids=True).ids == thing.id).mean())
    view.close()
    assert len(seen) > 25
    assert np.mean(np.array(seen) > 0.002) > 0.95


def test_no_room_that_shows_is_left_out():
    home = home_of(6)
    floor, scene, view = floor_of(6), Scene.of(home), View(48, 48, 79.0, EYE)
    try:
        view.show(scene)
    except WorldError as error:
        pytest.skip(f"no off-screen OpenGL here: {error}")
    of_thing = {t.id: t.room for t in home.things}
    random, drawn = np.random.default_rng(1), []
    doorways = [floor.nearest((d.x, d.z)) for d in home.doors]
    everything = [r.name for r in home.rooms]
    for place in [*places_on(floor, 15), *doorways]:
        heading = random.uniform(-math.pi, math.pi)
        ids = view.render(place, heading, ids=True).ids
        import navigation.worlds.rooms_view as rooms_view

        original, rooms_view.rooms_in_sight = rooms_view.rooms_in_sight, lambda *_: everything
        whole = view.render(place, heading, ids=True).ids
        rooms_view.rooms_in_sight = original
        assert np.array_equal(ids, whole)
        names = rooms_in_sight(home, *place, heading, math.radians(39.5))
        assert {of_thing[i] for i in np.unique(whole).tolist() if i in of_thing} <= set(names)
        drawn.append(len(names) / len(home.rooms))
    view.close()
    assert np.mean(drawn) < 0.7


def test_errors_say_what_is_wrong():
    with pytest.raises(ConfigError, match="split must be"):
        generate_home(0, "test")
    with pytest.raises(ConfigError, match="split must be"):
        generate_home(-1)
    with pytest.raises(DataError, match="describes no home"):
        Home.from_json("[]")
    text = home_of(1).to_json()
    with pytest.raises(DataError, match="no field"):
        Home.from_json(text.replace('"daylight"', '"moonlight"', 1))
    with pytest.raises(DataError, match="ids must be unique"):
        Home.from_json(text.replace(f'"id":{FIRST_ID},', f'"id":{FIRST_ID + 1},', 1))
    with pytest.raises(DataError, match="no pattern"):
        Home.from_json(text.replace('"pattern":"', '"pattern":"x', 1)) and home_mesh(
            Home.from_json(text.replace('"pattern":"', '"pattern":"x', 1))
        )
    with pytest.raises(DataError, match="no thing"):
        home_of(1).thing(5)
