"""Fast cameras: right side up and not mirrored, from any thread, and a readable error where there is no OpenGL."""

import threading

import numpy as np
import pytest

from vla.worlds import mujoco_camera
from vla.worlds.mujoco_camera import MujocoCameras, PictureError, gl_backend

mujoco = pytest.importorskip("mujoco", reason="needs the worlds extra: pip install -e '.[worlds]'")

# Red to the right and high, green to the left and low, as seen from -y; the second camera hangs upside down.
SCENE = """<mujoco><visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual><worldbody>
<geom type="sphere" size=".1" pos=".5 0 .3" rgba="1 0 0 1"/>
<geom type="sphere" size=".1" pos="-.5 0 -.3" rgba="0 1 0 1"/>
<geom type="sphere" size=".1" pos="0 0 0" rgba="0 0 1 1" group="3"/>
<camera name="standing" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/><camera name="hanging" pos="0 -2 0" xyaxes="-1 0 0 0 0 -1"/>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def scene():
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def centre(image, channel):
    rows, columns = np.nonzero((image[..., channel] > 120) & (image.sum(2) < 400))
    return rows.mean(), columns.mean()


def test_a_standing_camera_sees_right_as_right_and_up_as_up(scene):
    model, data = scene
    cameras = MujocoCameras(model, 80, 60)
    image = cameras.render(data, "standing")
    assert image.shape == (60, 80, 3)
    assert image.dtype == np.uint8
    (red_row, red_column), (green_row, green_column) = centre(image, 0), centre(image, 1)
    assert red_column > 50
    assert green_column < 30
    assert red_row < 25
    assert green_row > 35
    cameras.close()


def test_a_hanging_camera_turned_once_sees_what_a_standing_one_does(scene):
    model, data = scene
    cameras = MujocoCameras(model, 80, 60)
    standing, hanging = cameras.render(data, "standing"), cameras.render(data, "hanging", upside_down=True)
    as_it_comes = cameras.render(data, "hanging")
    cameras.close()
    assert np.array_equal(standing, hanging)
    assert np.array_equal(as_it_comes, standing[::-1, ::-1])
    assert not np.array_equal(as_it_comes[::-1], standing)  # a mere flip would be a mirror


def test_groups_can_be_hidden(scene):
    model, data = scene
    seen, hidden = MujocoCameras(model, 40, 40), MujocoCameras(model, 40, 40, hidden_groups=(0,))
    assert (seen.render(data, "standing")[..., 0] > 120).any()
    assert not (hidden.render(data, "standing")[..., 0] > 120).any()
    seen.close()
    hidden.close()


def test_any_thread_may_draw_and_others_contexts_survive(scene):
    model, data = scene
    first, second = MujocoCameras(model, 48, 48), MujocoCameras(model, 32, 32)
    wanted = first.render(data, "standing")
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(first.render(data, "standing")))
    thread.start()
    thread.join()
    assert len(drawn) == 1
    assert np.array_equal(drawn[0], wanted)
    second.close()
    second.close()
    assert np.array_equal(first.render(data, "standing"), wanted)
    first.close()
    with pytest.raises(PictureError, match="closed"):
        first.render(data, "standing")


def test_a_moderngl_context_and_a_camera_do_not_disturb_each_other(scene):
    moderngl = pytest.importorskip("moderngl", reason="needs the worlds extra: pip install -e '.[worlds]'")
    model, data = scene
    cameras = MujocoCameras(model, 48, 48)
    wanted = cameras.render(data, "standing")
    context = moderngl.create_context(standalone=True, backend="egl", require=330)
    picture = context.simple_framebuffer((8, 8))
    again = cameras.render(data, "standing")
    with context:
        picture.use()
        picture.clear(1.0, 0.0, 0.0)
        assert picture.read(components=3) == b"\xff\0\0" * 64
    picture.release()
    context.release()
    assert np.array_equal(again, wanted)
    assert np.array_equal(cameras.render(data, "standing"), wanted)
    cameras.close()


@pytest.fixture
def unsettled():
    """The choice of OpenGL is made once a process; let a test make it again, and put it back."""
    gl_backend()
    gl_backend.cache_clear()
    yield
    gl_backend.cache_clear()


@pytest.mark.usefixtures("unsettled")
def test_without_opengl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(mujoco_camera, "_egl_device_works", lambda: False)
    monkeypatch.setattr(mujoco_camera, "_osmesa_exists", lambda: False)
    with pytest.raises(PictureError, match="apt-get install"):
        gl_backend()
    monkeypatch.setattr(mujoco_camera, "_osmesa_exists", lambda: True)
    assert gl_backend() == "osmesa"


@pytest.mark.usefixtures("unsettled")
def test_the_users_choice_is_kept_and_a_useless_one_refused(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(PictureError, match="unset it"):
        gl_backend()
    monkeypatch.setenv("MUJOCO_GL", "OSMESA")
    assert gl_backend() == "osmesa"


def test_a_library_that_is_not_there_is_no_crash(monkeypatch):
    def absent(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(mujoco_camera.ctypes, "CDLL", absent)
    assert not mujoco_camera._egl_device_works()
    assert not mujoco_camera._osmesa_exists()
