"""The bodies of a scene in habitat-sim with their cameras, and the pictures of the one that walks.

Part of `habitat_worker`, with its needs: Python 3.8 or newer, NumPy and the habitat_sim module it is handed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WALKER, HEAD, LABELER = 0, 1, 2  # three bodies in one place: cameras of each step, of a panorama, of the labels


def bodies(hs: Any, settings: dict[str, Any]) -> list[Any]:
    """The configurations of the three, so that rare pictures (labels, panoramas) cost nothing in a common step."""
    kinds = hs.SensorType
    walker = [("rgb", kinds.COLOR)] + ([("depth", kinds.DEPTH)] if settings["depth"] else [])
    cameras = [walker, [("rgb", kinds.COLOR)], [("semantic", kinds.SEMANTIC)]]
    return [_body(hs, settings, each) for each in cameras]


def _body(hs: Any, settings: dict[str, Any], cameras: list[Any]) -> Any:
    body = hs.agent.AgentConfiguration()
    body.height, body.radius = settings["agent_height_m"], settings["agent_radius_m"]
    body.sensor_specifications = [_camera(hs, settings, name, kind) for name, kind in cameras]
    spec, actuation = hs.agent.ActionSpec, hs.agent.ActuationSpec
    turn, most = settings["turn_deg"], settings["most_tilt_deg"]
    amounts = {"move_forward": actuation(settings["forward_m"])}
    amounts.update({name: actuation(turn) for name in ("turn_left", "turn_right")})
    amounts.update({name: actuation(turn, most) for name in ("look_up", "look_down")})
    body.action_space = {name: spec(name, amount) for name, amount in amounts.items()}
    return body


def _camera(hs: Any, settings: dict[str, Any], name: str, kind: Any) -> Any:
    camera = hs.CameraSensorSpec()
    camera.uuid, camera.sensor_type = name, kind
    camera.resolution = [settings["height"], settings["width"]]
    camera.position = [0.0, settings["camera_height_m"], 0.0]
    camera.hfov = settings["hfov_deg"]
    return camera


class Eyes:
    """Colour (H, W, 3) uint8 and depth (H, W) float32 in metres, or none, from where the walker stands.

    habitat-sim draws a scene once for each camera. The depth camera's frame can hold colours as well (meant for showing
    depth in a window), and then one drawing gives both pictures. Where the two ways do not agree to the last bit, as
    may be in another build, each camera draws its own.
    """

    def __init__(self, sim: Any, depth: bool) -> None:
        """The cameras of the scene that is open in ``sim``; another scene needs new ones."""
        self._sim, self._depth = sim, depth
        self.at_once = depth and self._keep_colours()

    def _keep_colours(self) -> bool:
        """Let the depth camera's frame hold colours; whether this build can."""
        sensors, renderer = self._sim._sensors, self._sim.renderer
        flag = getattr(getattr(type(renderer), "Flags", None), "VISUALIZE_TEXTURE", None)
        wrapped = [sensors[name] for name in ("rgb", "depth")]
        if flag is None or not all(hasattr(each, "view") and hasattr(each, "_buffer") for each in wrapped):
            return False
        renderer.bind_render_target(wrapped[1]._sensor_object, flag)
        return True

    def compare(self) -> None:
        """Draw both ways from here, and each picture on its own from now on if they differ."""
        if self.at_once:
            self.at_once = all(np.array_equal(*pair) for pair in zip(self._apart(), self._together()))  # noqa: B905

    def look(self) -> tuple[Any, Any]:
        """Colour and depth; None for a depth that nobody asked for."""
        return self._together() if self.at_once else self._apart()

    def _apart(self) -> tuple[Any, Any]:
        frames = self._sim.get_sensor_observations(agent_ids=WALKER)
        return _colours(frames["rgb"]), np.ascontiguousarray(frames["depth"]) if self._depth else None

    def _together(self) -> tuple[Any, Any]:
        rgb, depth = self._sim._sensors["rgb"], self._sim._sensors["depth"]
        depth.draw_observation()
        metres = np.ascontiguousarray(depth.get_observation())
        depth._sensor_object.render_target.read_frame_rgba(rgb.view)
        return _colours(rgb._buffer[::-1]), metres


def _colours(rgba: Any) -> Any:
    return np.ascontiguousarray(rgba[..., :3])
