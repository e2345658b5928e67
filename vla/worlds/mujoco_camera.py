"""Fast pictures of a MuJoCo model on a machine without a screen: no shadows, no multisampling, a buffer of exact size.

On software OpenGL these three settings are worth a factor of ten; they must stand before the GL context is made.
Needs MuJoCo and NumPy and imports nothing of Fovea: LIBERO's worker loads this file in its own interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

REMEDY = "install a software OpenGL: apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
_EGL_DEVICE_PLATFORM = 0x313F


class PictureError(RuntimeError):
    """No picture can be drawn here; the message says what to install or unset."""


def _egl_device_works() -> bool:
    """Whether any EGL device initialises; asked without PyOpenGL, which can settle for a platform only once."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
        address = egl.eglGetProcAddress
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        handles = ctypes.POINTER(ctypes.c_void_p)
        devices_of = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, handles, ctypes.POINTER(ctypes.c_int))(
            address(b"eglQueryDevicesEXT")
        )
        display_of = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(
            address(b"eglGetPlatformDisplayEXT")
        )
    except (OSError, AttributeError, TypeError):
        return False
    if not (address(b"eglQueryDevicesEXT") and address(b"eglGetPlatformDisplayEXT")):
        return False
    devices, count = (ctypes.c_void_p * 16)(), ctypes.c_int()
    devices_of(16, devices, ctypes.byref(count))
    egl.eglInitialize.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    displays = [display_of(_EGL_DEVICE_PLATFORM, devices[i], None) for i in range(count.value)]
    return any(display and egl.eglInitialize(display, None, None) for display in displays)


def _osmesa_exists() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


@functools.lru_cache(maxsize=1)
def gl_backend() -> str:
    """``egl``, ``osmesa`` or what ``MUJOCO_GL`` says; settled once a process, as MuJoCo loads OpenGL once.

    Raises `PictureError` with the packages to install where neither works.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")  # before Mesa: once its LLVM is loaded, torch's import of triton crashes
    wish = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wish in ("egl", "osmesa", "glfw"):
        chosen = wish
    elif wish not in ("", "enable", "enabled", "on", "true", "1"):
        raise PictureError(f"MUJOCO_GL is {wish!r}, which draws no picture here; unset it or take egl or osmesa")
    elif _egl_device_works():
        chosen = "egl"
    elif _osmesa_exists():
        chosen = "osmesa"
    else:
        raise PictureError(f"no OpenGL without a screen: neither an EGL device nor OSMesa works here; {REMEDY}")
    os.environ["MUJOCO_GL"] = chosen  # MuJoCo's own loader reads it when the first context is made
    return chosen


def _new_context(width: int, height: int) -> Any:
    backend = gl_backend()
    try:
        return importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    except Exception as error:  # PyOpenGL and the drivers raise whatever they like
        raise PictureError(f"cannot open an OpenGL context through {backend}: {error}; {REMEDY}") from error


_open_cameras: weakref.WeakSet[MujocoCameras] = weakref.WeakSet()


def _close_all() -> None:
    for cameras in list(_open_cameras):
        cameras.close()


class MujocoCameras:
    """All cameras of one model at one size. It owns a GL context; ``close`` gives it back.

    The context is current only during a call, so a world may be stepped from any one thread at a time.
    """

    def __init__(self, model: Any, width: int, height: int, hidden_groups: Sequence[int] = ()) -> None:
        """Set the model's drawing quality and open the context; geoms of ``hidden_groups`` are not drawn.

        Raises `PictureError` where there is no OpenGL.
        """
        import mujoco

        model.vis.quality.shadowsize, model.vis.quality.offsamples = 1, 0
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        self._model, self._mujoco, self._size = model, mujoco, (width, height)
        self._context = _new_context(width, height)
        if not _open_cameras:
            atexit.unregister(_close_all)
            atexit.register(_close_all)  # after MuJoCo's own, so that it runs before the display is gone
        _open_cameras.add(self)
        self._context.make_current()
        self._scene, self._option = mujoco.MjvScene(model, maxgeom=10_000), mujoco.MjvOption()
        for group in hidden_groups:
            self._option.geomgroup[group] = 0
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = 0
        self._drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._drawing)
        self._release()

    def _release(self) -> None:
        if gl_backend() == "egl":
            from mujoco import egl

            egl.EGL.eglMakeCurrent(egl.EGL_DISPLAY, egl.EGL.EGL_NO_SURFACE, egl.EGL.EGL_NO_SURFACE, None)

    def render(self, data: Any, camera: str, upside_down: bool = False) -> NDArray[np.uint8]:
        """The picture (H, W, 3) of a camera named in the model; ``upside_down`` turns it by half a turn.

        A half turn, not a mirror: left and right change places as well, as they must for a camera that hangs.
        """
        if self._context is None:
            raise PictureError("the camera was closed; reset the world to open it again")
        mujoco, (width, height) = self._mujoco, self._size
        view = mujoco.MjvCamera()
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self._model.camera(camera).id
        pixels: NDArray[np.uint8] = np.empty((height, width, 3), np.uint8)
        rectangle = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, view, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        self._context.make_current()
        mujoco.mjr_render(rectangle, self._scene, self._drawing)
        mujoco.mjr_readPixels(pixels, None, rectangle, self._drawing)  # OpenGL's first row is the lowest
        self._release()
        return np.ascontiguousarray(pixels[:, ::-1] if upside_down else pixels[::-1])

    def close(self) -> None:
        """Free the buffers and the context; a second call does nothing."""
        if self._context is None:
            return
        self._context.make_current()
        self._drawing.free()
        self._context.free()
        self._context = None
        _open_cameras.discard(self)
