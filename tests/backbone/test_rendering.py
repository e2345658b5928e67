"""The renderer against two oracles written in NumPy: projected vertices, and rays cast at the triangles."""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backbone.errors import DataError, WorldError
from backbone.rendering.lighting import MAX_LAMPS, Lamp, Lighting, Sky
from backbone.rendering.mesh import Camera, Mesh
from backbone.rendering.projection import look_at, pixel_rays, project, projection_matrix
from backbone.rendering.renderer import Renderer
from backbone.rendering.shapes import MeshBuilder

WHOLE = (0.0, 0.0, 1.0, 1.0)
IDENTITY = np.eye(4)
FLAT = Lighting(sun=(0, 0, 0), above=(1, 1, 1), below=(1, 1, 1))


def opened(width: int, height: int, atlas: np.ndarray, **options: bool) -> Renderer:
    try:
        return Renderer(width, height, atlas, **options)
    except WorldError as error:
        pytest.skip(f"no off-screen OpenGL here: {error}")


@pytest.fixture(scope="module")
def renderer():
    with opened(96, 64, np.full((8, 8, 3), 200, np.uint8)) as made:
        yield made


def cast(mesh: Mesh, camera: Camera, width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depth and id by Moeller and Trumbore's test of every ray with every triangle, and how clear each pixel is."""
    origin, rays = pixel_rays(width, height, camera)
    a, b, c = (mesh.positions.astype(float).reshape(-1, 3, 3)[:, i] for i in range(3))
    e1, e2, d = b - a, c - a, rays.reshape(-1, 1, 3)
    p = np.cross(d, e2)
    det = (p * e1).sum(-1)
    facing = det > 1e-12
    t = origin - a
    q = np.cross(t, e1)
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v, far = (p * t).sum(-1) / det, (d * q).sum(-1) / det, (q * e2).sum(-1) / det
    edge = np.where(facing, np.minimum(np.minimum(u, v), 1 - u - v), -1)
    hit = np.where((edge >= 0) & (far > camera.near), far, np.inf)
    first = hit.argmin(1)
    depth = hit.min(1)
    clear = (np.abs(edge) > 0.02).all(1) | ~facing.any(1)
    ids = np.where(np.isfinite(depth), mesh.ids[first], 0)
    shape = (height, width)
    return np.where(np.isfinite(depth), depth, 0).reshape(shape), ids.reshape(shape), clear.reshape(shape)


def scene(seed: int, boxes: int = 4) -> Mesh:
    random, builder = np.random.default_rng(seed), MeshBuilder()
    for index in range(boxes):
        low = random.uniform((-2, -1, -2), (2, 1, 2))
        builder.box(low, low + random.uniform(0.3, 1.2, 3), WHOLE, 10 + index)
    builder.lathe((0, -1, 0), [(0.6, 0), (0.5, 0.5), (0.4, 0.5), (0.3, 0.2)], WHOLE, 99, sides=7)
    return builder.build()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000), angle=st.floats(0, 6.28), height=st.floats(-2.0, 4.0), hfov=st.sampled_from((40, 79))
)
def test_depth_and_ids_are_those_of_cast_rays(renderer, seed, angle, height, hfov):
    mesh = scene(seed)
    camera = Camera(look_at((6 * np.cos(angle), height, 6 * np.sin(angle)), (0, 0, 0)), hfov)
    handle = renderer.upload(mesh)
    frame = renderer.render([(handle, IDENTITY)], camera, depth=True, ids=True)
    renderer.discard(handle)
    depth, ids, clear = cast(mesh, camera, 96, 64)
    assert clear.mean() > 0.5
    assert (frame.ids == ids)[clear].all()
    np.testing.assert_allclose(frame.depth[clear], depth[clear], rtol=2e-4, atol=1e-4)
    assert ((frame.ids == ids) | ~clear).all()
    assert (frame.ids != ids).mean() < 0.02  # edges may fall to either side


def test_a_small_box_appears_on_the_projected_pixel_at_its_depth(renderer):
    random = np.random.default_rng(3)
    camera = Camera(look_at((0.3, 1.0, 4.0), (0.2, 0.4, 0.0)), 60.0)
    for _ in range(20):
        centre = random.uniform((-1.5, -0.8, -1.5), (1.5, 1.2, 1.5))
        builder = MeshBuilder()
        builder.box(centre - 0.06, centre + 0.06, WHOLE, 7)
        handle = renderer.upload(builder.build())
        frame = renderer.render([(handle, IDENTITY)], camera, depth=True, ids=True)
        renderer.discard(handle)
        (pixel,), (depth,) = project(centre, 96, 64, camera)
        column, row = int(pixel[0]), int(pixel[1])
        rows, columns = np.nonzero(frame.ids == 7)
        assert frame.ids[row, column] == 7
        assert abs(columns.mean() + 0.5 - pixel[0]) < 0.6
        assert abs(rows.mean() + 0.5 - pixel[1]) < 0.6
        assert frame.depth[row, column] == pytest.approx(depth, abs=0.12)


def test_projection_agrees_with_the_clip_matrix():
    camera = Camera(look_at((1, 2, 3), (0, 0, 0)), 79.0)
    points = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    pixels, depth = project(points, 320, 200, camera)
    local = np.linalg.inv(camera.pose.astype(float)) @ np.c_[points, np.ones(50)].T
    clip = projection_matrix(320, 200, camera) @ local
    x, y = clip[0] / clip[3], clip[1] / clip[3]
    np.testing.assert_allclose(pixels, np.c_[(x + 1) * 160, (1 - y) * 100], atol=1e-6)
    np.testing.assert_allclose(depth, clip[3], atol=1e-9)
    origin, rays = pixel_rays(320, 200, camera)
    back, _ = project(origin + 2.5 * rays[[10, 150], [20, 300]], 320, 200, camera)
    np.testing.assert_allclose(back, [[20.5, 10.5], [300.5, 150.5]], atol=1e-4)


def test_atlas_is_seen_the_right_way_up_and_round():
    atlas = np.zeros((64, 64, 3), np.uint8)
    atlas[:32, :32], atlas[:32, 32:], atlas[32:, :32], atlas[32:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 255)
    atlas[32:, 32:] = (255, 255, 0)
    builder = MeshBuilder()
    builder.quad((-1, -1, 0), (2, 0, 0), (0, 2, 0), WHOLE, 1)
    with opened(40, 40, atlas, smooth=False) as renderer:
        frame = renderer.render(
            [(renderer.upload(builder.build()), IDENTITY)], Camera(look_at((0, 0, 2), (0, 0, 0)), 50.0), lighting=FLAT
        )
    assert [tuple(frame.rgb[r, c].tolist()) for r, c in ((8, 8), (8, 32), (32, 8), (32, 32))] == [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 0),
    ]


def test_repeated_tiles_cover_a_side_whole():
    builder = MeshBuilder()
    builder.quad((0, 0, 0), (2.5, 0, 0), (0, 1.2, 0), (0.25, 0.5, 0.5, 0.75), 1, repeat=1.0)
    mesh = builder.build()
    assert len(mesh.ids) == 2 * 3 * 2
    a, b, c = (mesh.positions.reshape(-1, 3, 3)[:, i] for i in range(3))
    assert np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2 == pytest.approx(2.5 * 1.2, rel=1e-6)
    per_metre = np.abs(np.diff(mesh.uv[:, 0][:2]))[0] / np.abs(np.diff(mesh.positions[:, 0][:2]))[0]
    assert per_metre == pytest.approx(0.25)
    assert mesh.uv[:, 0].min() >= 0.25 - 1e-6
    assert mesh.uv[:, 0].max() <= 0.5 + 1e-6


def test_closed_shapes_face_outwards():
    builder = MeshBuilder()
    builder.box((0, 0, 0), (1, 2, 3), WHOLE, 1, repeat=0.5)
    builder.lathe((5, 0, 0), [(1.0, 0.0), (0.5, 1.0), (0.0, 1.5)], WHOLE, 2, sides=64)
    mesh = builder.build()
    corners = mesh.positions.astype(float).reshape(-1, 3, 3)
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((crossed * mesh.normals.reshape(-1, 3, 3)[:, 0]).sum(-1) > 0).all()
    volumes = [(corners[mesh.ids == i][:, 0] * crossed[mesh.ids == i]).sum() / 6 for i in (1, 2)]
    cone = np.pi / 3 * (1 + 0.5 + 0.25) + np.pi / 3 * 0.25 * 0.5
    assert volumes == pytest.approx([6.0, cone], rel=5e-3)


def test_parts_stay_on_their_tile():
    tile, builder = (0.25, 0.5, 0.5, 0.75), MeshBuilder()
    builder.lathe((0, 0, 0), [(0.4, 0.0), (0.5, 1.0), (0.3, 0.5)], tile, 1, squash=(1.7, 0.8))
    builder.box((0, 0, 0), (1, 2, 3), tile, 2, repeat=0.7)
    builder.quad((0, 0, 0), (0.5, 0, 0), (0, 3, 0), tile, 3, repeat=0.9)
    uv = builder.build().uv
    assert (uv.min(0) >= np.array(tile[:2]) - 1e-6).all()
    assert (uv.max(0) <= np.array(tile[2:]) + 1e-6).all()


def test_model_matrix_moves_and_object_id_renames(renderer):
    builder = MeshBuilder()
    builder.box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5), WHOLE, 4)
    handle = renderer.upload(builder.build())
    left, right = np.eye(4), np.eye(4)
    left[0, 3], right[0, 3] = -1.2, 1.2
    frame = renderer.render(
        [(handle, left), (handle, right, 9)], Camera(look_at((0, 0, 5), (0, 0, 0)), 60.0), ids=True, depth=True
    )
    renderer.discard(handle)
    assert set(np.unique(frame.ids[:, :48])) == {0, 4}
    assert set(np.unique(frame.ids[:, 48:])) == {0, 9}
    assert frame.depth[32, 24] == pytest.approx(4.5, abs=0.01)
    assert (frame.depth[frame.ids == 0] == 0).all()


def test_back_faces_are_left_out_only_when_culled():
    builder = MeshBuilder()
    builder.quad((-1, -1, 0), (2, 0, 0), (0, 2, 0), WHOLE, 1)
    mesh, behind = builder.build(), Camera(look_at((0, 0, -3), (0, 0, 0)), 50.0)
    for cull in (True, False):
        with opened(16, 16, np.full((4, 4, 3), 99, np.uint8), cull=cull) as renderer:
            frame = renderer.render([(renderer.upload(mesh), IDENTITY)], behind, ids=True)
        assert bool((frame.ids == 1).any()) is not cull


def test_light_sun_lamps_and_sky(renderer):
    builder = MeshBuilder()
    builder.quad((-3, 0, 3), (6, 0, 0), (0, 0, -6), WHOLE, 1, repeat=0.1)  # light is worked out at the corners
    handle = renderer.upload(builder.build())
    camera = Camera(look_at((0, 4, 0.1), (0, 0, 0)), 60.0)

    def colour(light: Lighting) -> list[int]:
        return renderer.render([(handle, IDENTITY)], camera, lighting=light).rgb[32, 48].tolist()

    dark = Lighting(sun=(0, 0, 0), above=(0.5, 0.5, 0.5), below=(0, 0, 0))
    sun = Lighting(sun=(0.3, 0, 0), to_sun=(0, 2, 0), above=(0.5, 0.5, 0.5), below=(0, 0, 0))
    under = Lighting(sun=(0.3, 0, 0), to_sun=(0, -1, 0), above=(0.5, 0.5, 0.5), below=(0, 0, 0))
    lamp = Lighting(sun=(0, 0, 0), above=(0.5, 0.5, 0.5), below=(0, 0, 0), lamps=(Lamp((0, 1, 0), (0, 0.8, 0), 2.0),))
    assert colour(dark) == [100, 100, 100]
    assert colour(sun) == [160, 100, 100]
    assert colour(under) == [100, 100, 100]
    assert colour(lamp) == pytest.approx([100, 140, 100], abs=1)  # half the reach: a quarter of 0.8
    renderer.discard(handle)
    up = renderer.render([], Camera(look_at((0, 0, 0), (0, 9, 1e-3), (0, 0, 1)), 5.0), sky=Sky((1, 2, 250)))
    assert up.rgb[32, 48].tolist() == pytest.approx([1, 2, 250], abs=3)
    assert (renderer.render([], camera, sky=Sky.plain((9, 8, 7))).rgb == (9, 8, 7)).all()


def test_frames_are_bit_equal_across_renderers_and_threads():
    atlas = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    mesh, camera = scene(5), Camera(look_at((3, 2, 4), (0, 0, 0)), 70.0)
    frames: list[bytes] = []

    def draw(renderer: Renderer, handle: int) -> None:
        frames.append(renderer.render([(handle, IDENTITY)], camera).rgb.tobytes())

    with opened(50, 30, atlas) as one, opened(50, 30, atlas) as two, opened(31, 17, atlas) as other:
        handles = [one.upload(mesh), two.upload(mesh), other.upload(mesh)]
        draw(one, handles[0])
        other.render([(handles[2], IDENTITY)], camera)
        thread = threading.Thread(target=draw, args=(two, handles[1]))
        thread.start()
        thread.join()
        other.close()
        other.close()
        draw(one, handles[0])
    assert len(frames) == 3
    assert len(set(frames)) == 1


def test_errors_say_what_is_wrong(renderer, monkeypatch):
    camera = Camera(np.eye(4, dtype=np.float32), 79.0)
    with pytest.raises(DataError, match="no mesh 999"):
        renderer.render([(999, IDENTITY)], camera)
    with pytest.raises(DataError, match=r"camera pose: expected a finite \(4, 4\)"):
        renderer.render([], Camera(np.full((4, 4), np.nan, np.float32), 79.0))
    with pytest.raises(DataError, match="hfov_deg"):
        renderer.render([], Camera(np.eye(4, dtype=np.float32), 0.0))
    with pytest.raises(DataError, match="at most"):
        Lighting(lamps=(Lamp((0, 0, 0), (1, 1, 1), 1.0),) * (MAX_LAMPS + 1))
    with pytest.raises(DataError, match="low < high"):
        MeshBuilder().box((0, 0, 0), (1, 0, 1), WHOLE, 1)
    with pytest.raises(DataError, match="nothing was added"):
        MeshBuilder().build()
    with opened(8, 8, np.zeros((4, 4, 3), np.uint8)) as closed:
        pass
    with pytest.raises(WorldError, match="closed"):
        closed.render([], camera)
    import moderngl

    def fails(**_: object) -> None:
        raise Exception("libEGL.so not loaded")

    monkeypatch.setattr(moderngl, "create_context", fails)
    with pytest.raises(WorldError, match="apt-get install -y libegl1"):
        Renderer(8, 8, np.zeros((4, 4, 3), np.uint8))
