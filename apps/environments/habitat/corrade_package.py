"""The package ``corrade`` of the habitat environment: habitat-lab imports it and uses nothing of it.

Copied to ``site-packages/corrade/__init__.py`` by ``install.py``; never imported in Fovea's own interpreter.
"""

from __future__ import annotations

import sys
from types import ModuleType

for _name in ("containers", "pluginmanager", "utility"):
    globals()[_name] = sys.modules[f"corrade.{_name}"] = ModuleType(f"corrade.{_name}")
