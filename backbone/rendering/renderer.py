"""An off-screen renderer on moderngl's EGL context: colour, depth in metres and object ids in one pass.

No multisampling, so that ids are exact. A renderer may be used from any thread, one call at a time; several renderers
of different sizes live side by side, each with a context of its own.
``device`` names what draws (``llvmpipe``: the CPU).
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image, check_image
from backbone.errors import DataError, WorldError
from backbone.rendering.lighting import MAX_LAMPS, Lighting, Sky
from backbone.rendering.mesh import Camera, Frame, Mesh
from backbone.rendering.projection import Matrix, projection_matrix
from backbone.rendering.shaders import SKY_FRAGMENT, SKY_VERTEX, SURFACE_FRAGMENT, SURFACE_VERTEX

REMEDY = "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri (software rendering needs no GPU)"
_EGL: dict[str, Any] = {"backend": "egl"}  # moderngl's types leave it out
_FLIP = np.diag([1.0, -1.0, 1.0, 1.0])  # see shaders.py
_VERTEX = np.dtype([("position", "f4", 3), ("normal", "f4", 3), ("uv", "f4", 2), ("id", "i4")])

# A mesh, where it stands (world from model; moved, turned, evenly scaled) and, if given, the id for all of it.
Drawn = tuple[int, NDArray[Any]] | tuple[int, NDArray[Any], int]


def open_context() -> Any:
    """A moderngl context without a window; `WorldError` with the remedy where moderngl or EGL is missing."""
    try:
        import moderngl
    except ImportError as error:
        raise WorldError("the renderer needs moderngl: pip install -e '.[worlds]'") from error
    with contextlib.suppress(ImportError):
        # torch loads triton late, for example with a model. Its LLVM and Mesa's get along in this order alone: the
        # other one is a segmentation fault. It takes 0.1 s.
        importlib.import_module("triton")
    try:
        return moderngl.create_context(require=330, standalone=True, **_EGL)
    except Exception as error:  # moderngl raises bare Exceptions for a library or display that is not there
        raise WorldError(f"the renderer could not open OpenGL 3.3 through EGL ({error}); {REMEDY}") from error


class Renderer:
    """Draws meshes that share one ``atlas`` picture at ``width`` x ``height`` pixels.

    ``cull`` leaves out triangles seen from behind (clockwise ones). ``smooth`` blends between the atlas's pixels and
    its smaller copies; tiles then need a border of 8 pixels of their own colour. Raises `WorldError` without EGL.
    """

    def __init__(self, width: int, height: int, atlas: Image, *, cull: bool = True, smooth: bool = True) -> None:
        """Open a context and copy the atlas to it."""
        if not (1 <= width <= 8192 and 1 <= height <= 8192):
            raise DataError(f"renderer: width and height must lie in [1, 8192], got {width} x {height}")
        self.width, self.height, self._cull, self._smooth = width, height, cull, smooth
        pixels = np.ascontiguousarray(check_image(atlas, "renderer atlas"))
        self._lock = threading.Lock()
        self._meshes: dict[int, tuple[Any, ...]] = {}
        self._count = 0
        self._context = open_context()
        self.device = str(self._context.info["GL_RENDERER"])
        with self._context:
            self._set_up(pixels)

    def _set_up(self, atlas: Image) -> None:
        context, size = self._context, (self.width, self.height)
        self._atlas = self._texture(atlas)
        self._surface = context.program(vertex_shader=SURFACE_VERTEX, fragment_shader=SURFACE_FRAGMENT)
        self._sky = context.program(vertex_shader=SKY_VERTEX, fragment_shader=SKY_FRAGMENT)
        self._sky_array = context.vertex_array(self._sky, [])
        self._buffer = context.framebuffer(
            [
                context.renderbuffer(size, 4),
                context.renderbuffer(size, 1, dtype="f4"),
                context.renderbuffer(size, 1, dtype="i4"),
            ],
            context.depth_renderbuffer(size),
        )
        context.front_face = "cw"  # the picture is drawn upside down, which turns every triangle round

    def repaint(self, atlas: Image) -> None:
        """Take another atlas from now on; meshes keep their places in it."""
        pixels = np.ascontiguousarray(check_image(atlas, "renderer atlas"))
        with self._lock, self._entered():
            self._atlas.release()
            self._atlas = self._texture(pixels)

    def _texture(self, pixels: Image) -> Any:
        texture = self._context.texture((pixels.shape[1], pixels.shape[0]), 3, pixels.tobytes(), alignment=1)
        if self._smooth:
            texture.build_mipmaps(max_level=3)  # a border of 8 pixels is one pixel at level 3
        else:
            texture.filter = (self._context.NEAREST, self._context.NEAREST)
        return texture

    def upload(self, mesh: Mesh) -> int:
        """Copy a mesh to the renderer; the handle stands for it in `render` and `discard`."""
        if not len(mesh.positions):
            raise DataError("renderer: a mesh without triangles cannot be drawn")
        rows = np.empty(len(mesh.positions), _VERTEX)
        rows["position"], rows["normal"], rows["uv"] = mesh.positions, mesh.normals, mesh.uv
        rows["id"] = np.repeat(mesh.ids, 3)
        # a corner that several triangles share is lit and projected once
        _, first, index = np.unique(rows.view(f"V{_VERTEX.itemsize}"), return_index=True, return_inverse=True)
        with self._lock, self._entered():
            buffers = (
                self._context.buffer(rows[first].tobytes()),
                self._context.buffer(index.astype(np.uint32).tobytes()),
            )
            names = ("in_position", "in_normal", "in_uv", "in_id")
            array = self._context.vertex_array(self._surface, [(buffers[0], "3f 3f 2f 1i", *names)], buffers[1])
        self._count += 1
        self._meshes[self._count] = (array, *buffers)
        return self._count

    def discard(self, handle: int) -> None:
        """Free an uploaded mesh."""
        with self._lock, self._entered():
            for part in self._mesh(handle):
                part.release()
        del self._meshes[handle]

    def render(
        self,
        drawn: Sequence[Drawn],
        camera: Camera,
        *,
        depth: bool = False,
        ids: bool = False,
        sky: Sky | None = None,
        lighting: Lighting | None = None,
    ) -> Frame:
        """Draw uploaded meshes, each as ``(handle, world from model (4, 4))`` or with an id for all its triangles.

        Raises `DataError` for a pose or model matrix that is not (4, 4) and finite, or an unknown handle.
        """
        pose = _matrix(camera.pose, "camera pose")
        view = np.linalg.inv(pose)
        projection = _FLIP @ projection_matrix(self.width, self.height, camera)
        light = lighting or Lighting()
        parts = [(self._mesh(d[0])[0], _matrix(d[1], "model matrix"), d[2] if len(d) == 3 else 0) for d in drawn]
        with self._lock, self._entered():
            self._buffer.use()
            self._context.disable(self._context.CULL_FACE)
            self._buffer.clear(depth=1.0)
            self._draw_sky(pose, projection, sky or Sky(), light)
            self._context.enable_only(self._context.DEPTH_TEST | (self._context.CULL_FACE if self._cull else 0))
            self._atlas.use(0)
            _set_light(self._surface, light)
            self._surface["view"].write(_columns(view))
            self._surface["projection"].write(_columns(projection))
            for array, model, object_id in parts:
                self._surface["model"].write(_columns(model))
                self._surface["object_id"].value = object_id
                array.render()
            return self._read(depth, ids)

    def _draw_sky(self, pose: Matrix, projection: Matrix, sky: Sky, light: Lighting) -> None:
        to_camera = np.diag([1.0 / projection[0, 0], 1.0 / projection[1, 1], -1.0])
        self._sky["directions"].write(np.ascontiguousarray((pose[:3, :3] @ to_camera).T, np.float32).tobytes())
        self._sky["up"].value = _unit(light.up)
        for name in ("zenith", "horizon", "ground"):
            self._sky[name].value = getattr(sky, name)
        self._context.disable(self._context.DEPTH_TEST)
        self._sky_array.render(vertices=3)

    def _read(self, depth: bool, ids: bool) -> Frame:
        shape = (self.height, self.width)
        colour = np.empty((*shape, 3), np.uint8)
        self._buffer.read_into(colour, components=3, attachment=0, alignment=1)
        metres = np.empty(shape, np.float32) if depth else None
        if metres is not None:
            self._buffer.read_into(metres, components=1, attachment=1, dtype="f4")
        objects = np.empty(shape, np.int32) if ids else None
        if objects is not None:
            self._buffer.read_into(objects, components=1, attachment=2, dtype="i4")
        return Frame(colour, metres, objects)

    def _entered(self) -> Any:
        if self._context is None:
            raise WorldError("the renderer is closed; make a new one")
        return self._context

    def _mesh(self, handle: int) -> tuple[Any, ...]:
        if handle not in self._meshes:
            raise DataError(f"renderer: no mesh {handle}; upload it first (there are {sorted(self._meshes)})")
        return self._meshes[handle]

    def close(self) -> None:
        """Release the context and all it holds; a second call does nothing."""
        with self._lock:
            if self._context is None:
                return
            with self._context:
                for part in (part for parts in self._meshes.values() for part in parts):
                    part.release()
                for part in (self._buffer, self._sky_array, self._sky, self._surface, self._atlas):
                    part.release()
            self._context.release()
            self._context = None
            self._meshes.clear()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _matrix(value: Any, where: str) -> Matrix:
    matrix = np.asarray(value, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise DataError(f"renderer {where}: expected a finite (4, 4) matrix, got shape {matrix.shape}")
    return matrix


def _columns(matrix: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(matrix.T, np.float32).tobytes()


def _unit(vector: tuple[float, float, float]) -> tuple[float, ...]:
    values = np.asarray(vector, np.float64)
    return tuple((values / np.linalg.norm(values)).tolist())


def _set_light(program: Any, light: Lighting) -> None:
    program["to_sun"].value = _unit(light.to_sun)
    program["up"].value = _unit(light.up)
    for name in ("sun", "above", "below"):
        program[name].value = getattr(light, name)
    program["lamps"].value = len(light.lamps)
    if light.lamps:
        places, colours = np.zeros((MAX_LAMPS, 4), np.float32), np.zeros((MAX_LAMPS, 3), np.float32)
        for i, lamp in enumerate(light.lamps):
            places[i], colours[i] = (*lamp.position, lamp.reach), lamp.colour
        program["lamp_position"].write(places.tobytes())
        program["lamp_colour"].write(colours.tobytes())
