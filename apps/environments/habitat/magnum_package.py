"""The package ``magnum`` of the habitat environment: `_fovea_magnum` and the few names that Python code looks for.

Copied to ``site-packages/magnum/__init__.py`` by ``install.py``; never imported in Fovea's own interpreter.
"""

from __future__ import annotations

import math as _math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import _fovea_magnum  # type: ignore[import-not-found]
from _fovea_magnum import *  # noqa: F403

scenegraph = _fovea_magnum.scenegraph
sys.modules["magnum.scenegraph"] = scenegraph
sys.modules["magnum.scenegraph.trs"] = scenegraph.trs


class _BodyFeature:
    """habitat_sim's Agent wraps its scene node in a feature, only to read it back as ``object``."""

    def __init__(self, body: Any) -> None:
        """Keep the node."""
        self.object = body


class _Absent:
    """A part of Magnum that this package lacks; it may be made, and raises when it is used."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept anything."""

    def __getattr__(self, name: str) -> Any:
        """Raise `NotImplementedError`."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"Fovea's stand-in for Magnum has no {name}; use a full build of habitat-sim for it")


def _cross(a: Any, b: Any) -> Any:
    x, y, z = (a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1)))
    return _fovea_magnum.Vector3(x, y, z)


def _dot(a: Any, b: Any) -> float:
    return float(sum(x * y for x, y in zip(a, b, strict=True)))


scenegraph.AbstractFeature3D = _BodyFeature
_parts = {
    "math": SimpleNamespace(pi=_math.pi, dot=_dot, cross=_cross),
    "trade": SimpleNamespace(ImporterManager=_Absent, AbstractImporter=_Absent, MeshData=_Absent),
    "gl": SimpleNamespace(default_framebuffer=None),
    **{name: SimpleNamespace() for name in ("shaders", "platform", "text", "primitives", "meshtools")},
}
for _name, _part in _parts.items():
    globals()[_name] = _part
    _module = ModuleType(f"magnum.{_name}")
    vars(_module).update(vars(_part))
    sys.modules[f"magnum.{_name}"] = _module
