"""habitat-lab's side of `habitat_lab_check`: replay recorded actions in its ObjectNav-v1 task, print its measures.

Runs in an interpreter with habitat-sim and habitat-lab: ``python habitat_lab_worker.py FOLDER ACTIONS.json OUT.json``.
"""

import json
import sys
from pathlib import Path


class Missing:
    """A class of newer habitat-sim releases that habitat-lab names and never makes here."""

    def __init__(self, *_, **__):
        raise NotImplementedError("not in habitat-sim 0.2.2")


def load_lab():
    """habitat-lab 0.3.3 on habitat-sim 0.2.2, which is older than it expects."""
    import fovea_habitat

    hs = fovea_habitat.habitat_sim
    for name in ("ReplayRenderer", "ReplayRendererConfiguration"):
        if not hasattr(hs, name):
            setattr(hs, name, type(name, (Missing,), {}))
    import habitat
    import habitat.sims.habitat_simulator.habitat_simulator as simulator

    # habitat-lab sets attributes these classes lack; a Python subclass can carry them
    for name in ("SimulatorConfiguration", "NavMeshSettings", "Configuration"):
        setattr(hs, name, type(name, (getattr(hs, name),), {}))
    hs.nav.NavMeshSettings, hs.simulator.Configuration = hs.NavMeshSettings, hs.Configuration
    overwrite = simulator.overwrite_config

    def overwrite_what_there_is(config_from, config_to, ignore_keys=None, trans_dict=None):
        absent = {key for key in ("enable_hbao",) if not hasattr(config_to, key)}
        ignored = set(ignore_keys or ()) | absent
        return overwrite(config_from=config_from, config_to=config_to, ignore_keys=ignored, trans_dict=trans_dict)

    simulator.overwrite_config = overwrite_what_there_is
    return habitat


def main(folder, actions, out):
    """Play every episode of ``FOLDER/val/val.json.gz`` with its recorded actions."""
    habitat = load_lab()
    from habitat.config.default import get_config

    config = get_config("benchmark/nav/objectnav/objectnav_hm3d.yaml")
    with habitat.config.read_write(config):
        h = config.habitat
        h.dataset.split, h.dataset.data_path, h.dataset.scenes_dir = (
            "val",
            f"{folder}/{{split}}/{{split}}.json.gz",
            folder,
        )
        h.simulator.habitat_sim_v0.gpu_device_id, h.simulator.scene_dataset = -1, "default"
        h.environment.iterator_options.shuffle = False
        for sensor in h.simulator.agents.main_agent.sim_sensors.values():
            sensor.width = sensor.height = 32  # the measures do not look
    names = {"stop": 0, "move_forward": 1, "turn_left": 2, "turn_right": 3}
    rows = []
    with habitat.Env(config) as env:
        for recorded in json.loads(Path(actions).read_text()):
            env.reset()
            for name in recorded["actions"]:
                env.step(names[name])
            measures = env.get_metrics()
            kept = {k: float(measures[k]) for k in ("success", "spl", "soft_spl", "distance_to_goal")}
            kept["position"] = [float(v) for v in env.sim.get_agent_state().position]
            rows.append({"scene": env.current_episode.scene_id, "over": env.episode_over, **kept})
    Path(out).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
