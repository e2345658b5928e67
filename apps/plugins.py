"""Classes of the user's own, named on the command line as ``package.module:Class``."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys

from backbone.errors import ConfigError


def is_plugin(name: str) -> bool:
    """Whether ``name`` looks like ``package.module:Class`` (and not like an address)."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def load_plugin(name: str, *needs: str) -> type:
    """The config class ``package.module:Class``; modules beside the working directory are found too.

    Raises:
        ConfigError: no such module or class, no dataclass, or one that lacks the attributes ``needs``.
    """
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does; worker processes inherit the path
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name}: no module {error.name!r} can be imported from here") from error
    except SystemExit as error:  # a script without `if __name__ == "__main__"`
        raise ConfigError(
            f"{name}: importing {module_name} ends the program ({error!r}); it must define classes only"
        ) from error
    found = getattr(module, attribute, None)
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        raise ConfigError(f"{name}: {module_name} has no dataclass {attribute!r}")
    missing = [need for need in needs if not hasattr(found, need)]
    if missing:
        raise ConfigError(f"{name} lacks {', '.join(missing)}, which every such config has")
    return found
