"""Our measures against habitat-lab's own, episode by episode: ``python tests/navigation/habitat_lab_check.py``.

Episodes of generated homes are written as an ObjectNav file, played in `habitat` by the expert, by one that errs and
stops at random, and by a wanderer; habitat-lab (0.3.3, in an environment of its own that borrows the habitat
environment's packages) plays the same file with the recorded actions. Every success, SPL, SoftSPL and distance to the
goal must agree to 1e-6; where no path leads to a goal, and habitat-lab's are NaN and infinity, ours must be the values
that `navigation.metrics` states. Exit code 1 if one does not.
"""

# ruff: noqa: S603, T201 - a script for the terminal that runs its own environment
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from backbone.worlds.environments import environment_python, worlds_folder
from navigation.episode_files import write_episodes
from navigation.episode_making import make_episodes
from navigation.episodes import EpisodeSet
from navigation.homes.generate import generate_home
from navigation.metrics import UNREACHABLE_M
from navigation.worlds.habitat import HabitatConfig
from navigation.worlds.habitat_export import export_home

WORKER = Path(__file__).with_name("habitat_lab_worker.py")
REQUIREMENTS = Path(__file__).with_name("habitat_lab.txt")
COMPARED = ("success", "spl", "soft_spl", "distance_to_goal")


def lab_python() -> Path:
    """The interpreter of the environment with habitat-lab, made now if it is not there."""
    base = environment_python("habitat")
    folder = worlds_folder() / "habitat-lab"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    subprocess.run([str(base), "-m", "venv", str(folder)], check=True)
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site, own = (
        subprocess.run([str(p), "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
        for p in (base, python)
    )
    Path(own, "habitat_environment.pth").write_text(site + "\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
    (folder / "complete").touch()
    return python


def prepare(folder: Path, homes: int, each: int) -> EpisodeSet:
    """Export ``homes`` homes below ``folder`` and write ``each`` episodes of every one to ``folder/val``."""
    episodes, goals = [], {}
    for seed in range(homes):
        home = generate_home(seed, "val")
        scene = export_home(home, folder).scene
        part = make_episodes(home, 1000 * seed, each, scene.relative_to(folder).as_posix())
        episodes += part.episodes
        goals |= dict(part.goals)
    whole = EpisodeSet(tuple(episodes), goals, part.task_ids, part.scene_ids)
    write_episodes(whole, folder / "val" / "val.json.gz")
    return whole


def play(folder: Path, count: int, max_steps: int) -> list[dict[str, Any]]:
    """Play all episodes here; per episode the actions and our measures."""
    config = HabitatConfig(
        width=32, height=32, episodes=str(folder / "val"), scenes=str(folder), scene_dataset="default", max_steps=500
    )
    world, rows = config.make(), []
    try:
        for index in range(count):
            random = np.random.default_rng(index)
            world.reset(seed=0, options=config.options(index))
            names: list[str] = []
            while len(names) < max_steps:
                names.append(_choose(world, index % 4, random))
                _, _, ended, cut, _ = world.step(np.array([world.action_spec.choices.index(names[-1])], np.float32))
                if ended or cut:
                    break
            rows.append({"actions": names, "kind": index % 4, **world.metrics(), "at": world.describe()["position"]})
    finally:
        world.close()
    return rows


def _choose(world: Any, kind: int, random: np.random.Generator) -> str:
    """The expert's action (0), often another (1), stop too early at times (2), or anything (3)."""
    names = world.action_spec.choices
    if kind == 3 or (kind == 1 and random.random() < 0.3):
        return str(random.choice(["move_forward", "move_forward", "turn_left", "turn_right"]))
    if kind == 2 and random.random() < 0.05:
        return "stop"
    return str(names[int(world.expert_action()[0])])


def compare(folder: Path, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let habitat-lab play the same; per episode the largest difference, and both sides' measures."""
    actions, out = folder / "actions.json", folder / "lab.json"
    actions.write_text(json.dumps(ours))
    done = subprocess.run(
        [str(lab_python()), str(WORKER), str(folder), str(actions), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"habitat-lab failed:\n{done.stderr[-3000:]}")
    lab = json.loads(out.read_text())
    if len(lab) != len(ours):
        raise RuntimeError(f"habitat-lab played {len(lab)} episodes of {len(ours)}")
    return [
        {
            "kind": mine["kind"],
            "steps": mine["steps"],
            "difference": max(_difference(mine[k], theirs[k], mine["reachable"]) for k in COMPARED),
            "ours": {k: mine[k] for k in COMPARED},
            "lab": {k: theirs[k] for k in COMPARED},
        }
        for mine, theirs in zip(ours, lab, strict=True)
    ]


def _difference(ours: float, theirs: float, reachable: float) -> float:
    """Where no path leads to a goal, habitat-lab's formulas give NaN or infinity, and ours their stated values."""
    if not reachable and not np.isfinite(theirs):
        return 0.0 if ours in (0.0, UNREACHABLE_M) else np.inf
    return abs(ours - theirs)


def main() -> int:
    """Check, print a summary, and say whether all agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=int, default=10)
    parser.add_argument("--each", type=int, default=10, help="episodes of every home")
    parser.add_argument("--max-steps", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("runs/habitat_lab_check"))
    options = parser.parse_args()
    folder = options.folder.absolute()
    count = len(prepare(folder, options.homes, options.each).episodes)
    rows = compare(folder, play(folder, count, options.max_steps))
    wrong = [(i, row) for i, row in enumerate(rows) if row["difference"] > 1e-6]
    for i, row in wrong:
        print(f"episode {i}: {row}")
    means = {
        k: (float(np.mean([r["ours"][k] for r in rows])), float(np.mean([r["lab"][k] for r in rows]))) for k in COMPARED
    }
    print(json.dumps({"episodes": count, "agree": count - len(wrong), "means (ours, habitat-lab)": means}))
    print("largest difference", max(row["difference"] for row in rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
