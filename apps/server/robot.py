"""The body a policy drives: its actions and its observations, from a world by name or from a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apps.server.observations import Camera, ObservationLayout
from backbone.contracts import ActionSpec, Observation
from backbone.errors import ConfigError, DataError
from backbone.rollout.failures import contained
from backbone.serving.keys import without_twins
from backbone.serving.spec import spec_from_plain, spec_to_plain
from backbone.worlds.world import WorldConfig

FIRST = "*"
# The names under which other projects' clients send a world's cameras; FIRST is the world's first camera.
FOREIGN_NAMES: dict[str, dict[str, str]] = {
    "libero": {"observation/image": "agentview", "observation/wrist_image": "robot0_eye_in_hand"},
    "metaworld": {"observation/image": FIRST, "observation/wrist_image": "gripperPOV"},
    "rooms": {"observation/image": FIRST},
    "habitat": {"observation/image": FIRST},
    "highway": {"observation/image": FIRST},
    "metadrive": {"observation/image": FIRST},
}
LAYOUT_FIELDS = ("images", "depths", "state", "state_parts", "aliases", "default_prompt")
CAMERA_FIELDS = ("height", "width", "layout")


@dataclass(frozen=True)
class Robot:
    """``example`` is a real first observation where there is one; ``world`` is the world's name, or the file's."""

    world: str
    spec: ActionSpec
    layout: ObservationLayout
    example: Observation | None = None

    def to_plain(self) -> dict[str, Any]:
        """What `robot_from_file` reads."""
        layout = self.layout
        return {
            "action": spec_to_plain(self.spec),
            "observation": {
                "images": {name: _camera_to_plain(camera) for name, camera in layout.images.items()},
                "depths": {name: _camera_to_plain(camera) for name, camera in layout.depths.items()},
                "state": layout.state,
                "state_parts": list(layout.state_parts),
                "aliases": dict(layout.aliases),
                "default_prompt": layout.default_prompt,
            },
        }

    def with_names(self, names: Mapping[str, str], prompt: str | None) -> Robot:
        """The same with further names for its arrays, and a prompt for clients that send none."""
        aliases = {**self.layout.aliases, **names}
        default = prompt if prompt is not None else self.layout.default_prompt
        return replace(self, layout=replace(self.layout, aliases=aliases, default_prompt=default))


def robot_of_world(config: WorldConfig) -> Robot:
    """Open the world once, look at its first observation, and close it again; raises `WorldError` as the world does."""
    with contained(f"the world {config.world} cannot be looked at"):
        world = config.make()
        try:
            observation, _ = world.reset(seed=0, options=config.options(0))
            spec = world.action_spec
        finally:
            world.close()
    first = next(iter(observation.images))
    names = {key: first if camera == FIRST else camera for key, camera in FOREIGN_NAMES.get(config.world, {}).items()}
    layout = ObservationLayout(
        {name: Camera(*image.shape[:2]) for name, image in observation.images.items()},
        {name: Camera(*depth.shape) for name, depth in observation.depths.items()},
        None if observation.state is None else len(observation.state),
        aliases={key: f"images/{camera}" for key, camera in names.items() if camera in observation.images},
    )
    return Robot(config.world, spec, layout, observation)


def robot_from_file(path: Path) -> Robot:
    """The robot of a JSON file with ``action`` and ``observation``; raises `DataError` naming what is wrong in it."""
    try:
        values = json.loads(path.read_text("utf-8"), object_pairs_hook=lambda pairs: without_twins(pairs, DataError))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except ValueError as error:
        raise DataError(
            f"{path}: not JSON ({error}); `fovea serve WORLD --save-spec FILE` writes one to begin with"
        ) from error
    if not isinstance(values, dict) or set(values) != {"action", "observation"}:
        found = ", ".join(map(str, values)) if isinstance(values, dict) else type(values).__name__
        raise DataError(f"{path}: expected an object with `action` and `observation`, got {found}")
    spec = spec_from_plain(values["action"], str(path))
    return Robot(path.stem, spec, _layout(values["observation"], str(path)))


def _layout(values: Any, where: str) -> ObservationLayout:
    entry = _fields(values, LAYOUT_FIELDS, f"{where}: observation")
    cameras = {
        kind: {
            name: _camera(given, f"{where}: {kind}/{name}") for name, given in _map(entry.get(kind, {}), where).items()
        }
        for kind in ("images", "depths")
    }
    state, prompt, parts = entry.get("state"), entry.get("default_prompt"), entry.get("state_parts", [])
    if state is not None and (type(state) is not int or state < 1):
        raise DataError(f"{where}: state must be the number of its values or null, got {state!r}")
    if prompt is not None and not isinstance(prompt, str):
        raise DataError(f"{where}: default_prompt must be a text or null, got {prompt!r:.60}")
    aliases = _map(entry.get("aliases", {}), where)
    if not isinstance(parts, list) or not all(isinstance(text, str) for text in [*parts, *aliases.values()]):
        raise DataError(f"{where}: state_parts must be a list of keys, aliases a map from key to key")
    try:
        return ObservationLayout(cameras["images"], cameras["depths"], state, tuple(parts), aliases, prompt)
    except ConfigError as error:
        raise DataError(f"{where}: {error}") from error


def _camera(values: Any, where: str) -> Camera:
    entry = _fields(values, CAMERA_FIELDS, where)
    height, width = entry.get("height"), entry.get("width")
    if any(size is not None and (type(size) is not int or size < 1) for size in (height, width)):
        raise DataError(f"{where}: height and width must be whole numbers of pixels or null, got {height}, {width}")
    if entry.get("layout", "HWC") not in ("HWC", "CHW"):
        raise DataError(f"{where}: layout must be HWC or CHW, got {entry['layout']!r}")
    return Camera(height, width, entry.get("layout", "HWC"))


def _fields(values: Any, allowed: tuple[str, ...], where: str) -> dict[str, Any]:
    entry = _map(values, where)
    unknown = [name for name in entry if name not in allowed]
    if unknown:
        raise DataError(f"{where}: unknown {', '.join(unknown)}; the fields are {', '.join(allowed)}")
    return entry


def _map(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise DataError(f"{where}: expected an object, got {values!r:.60}")
    return values


def _camera_to_plain(camera: Camera) -> dict[str, Any]:
    return {name: getattr(camera, name) for name in CAMERA_FIELDS}
