"""Runs in LeRobot's own interpreter, with nothing of Fovea: opens data sets with LeRobot, and writes one with it.

``python inside.py read ROOT OUT.npz BACKEND`` stores what `LeRobotDataset` gives for every frame of ``ROOT``.
``python inside.py write SOURCE.npz ROOT CODEC`` records the frames of ``SOURCE`` with LeRobot's own writer.
``python inside.py resume ROOT`` appends an episode to a data set that is already there.
``python inside.py merge ROOT_A ROOT_B OUT`` joins two data sets.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs import RGBEncoderConfig
from lerobot.datasets.aggregate import aggregate_datasets
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from torch.utils.data import DataLoader

NAME = "local/check"


def read(root: str, out: str, backend: str) -> None:
    """Every frame as `LeRobotDataset` gives it; also through a data loader and with a window of two frames."""
    dataset = LeRobotDataset(NAME, root=root, video_backend=backend, return_uint8=True)
    items = [dataset[index] for index in range(len(dataset))]
    found: dict[str, Any] = {}
    for key, value in items[0].items():
        column = [item[key] for item in items]
        found[key] = np.stack([v.numpy() for v in column]) if isinstance(value, torch.Tensor) else np.array(column)
    cameras = dataset.meta.video_keys
    window = {key: [0.0, 1 / dataset.fps] for key in (*cameras, "action")}
    ahead = LeRobotDataset(NAME, root=root, video_backend=backend, return_uint8=True, delta_timestamps=window)
    found["ahead/action"] = np.stack([ahead[index]["action"].numpy() for index in range(len(ahead))])
    found["ahead/picture"] = np.stack([ahead[index][cameras[0]].numpy() for index in range(len(ahead))])
    loaded = list(DataLoader(dataset, batch_size=4, shuffle=False))
    found["loader/index"] = np.concatenate([batch["index"].numpy() for batch in loaded])
    only = LeRobotDataset(NAME, root=root, video_backend=backend, episodes=[1])
    found["only/index"] = np.array([int(only[index]["index"]) for index in range(len(only))])
    # As they are stored: LeRobot's own tensors of them are single precision.
    table = dataset.hf_dataset.data
    exact = [key for key, feature in dataset.features.items() if feature["dtype"] == "float64"]
    found |= {f"stored/{key}": np.array(table.column(key).to_pylist(), np.float64) for key in exact}
    about = {
        "frames": len(dataset),
        "episodes": dataset.num_episodes,
        "fps": float(dataset.fps),
        "tasks": list(dataset.meta.tasks.index),
        "cameras": list(cameras),
        "stats": sorted(dataset.meta.stats),
        "successes": dataset.meta.filter_episodes(lambda row: bool(row.get("rollout/success"))),
    }
    np.savez(out, about=json.dumps(about), **found)


def write(source: str, root: str, codec: str) -> None:
    """Record given frames with LeRobot's writer; the codec ``image`` keeps single pictures instead of videos."""
    data = np.load(source)
    shape = data["picture"].shape[1:]
    kind = "image" if codec == "image" else "video"
    features = {
        "observation.images.front": {"dtype": kind, "shape": shape, "names": ["height", "width", "channels"]},
        "observation.state": {"dtype": "float32", "shape": data["state"].shape[1:], "names": None},
        "action": {"dtype": "float32", "shape": data["action"].shape[1:], "names": None},
        "grip": {"dtype": "float64", "shape": (1,), "names": None},
        "grid": {"dtype": "int64", "shape": data["grid"].shape[1:], "names": None},
    }
    encoder = None if codec == "image" else RGBEncoderConfig(vcodec=codec, crf=20)
    dataset = LeRobotDataset.create(
        NAME, 10, features, root=root, use_videos=kind == "video", rgb_encoder=encoder, video_backend="pyav"
    )
    for episode in sorted(set(data["episode"].tolist())):
        _add(dataset, data, episode)
    dataset.finalize()


def _add(dataset: LeRobotDataset, data: Any, episode: int) -> None:
    for at in np.flatnonzero(data["episode"] == episode):
        frame = {
            "observation.images.front": data["picture"][at],
            "observation.state": data["state"][at],
            "action": data["action"][at],
            "grip": data["grip"][at : at + 1],
            "grid": data["grid"][at],
        }
        dataset.add_frame({**frame, "task": f"task {episode % 2}"})
    dataset.save_episode(parallel_encoding=False)


def resume(root: str) -> None:
    """Append a short episode of noughts to a data set that another program recorded."""
    dataset = LeRobotDataset.resume(NAME, root=root, rgb_encoder=RGBEncoderConfig(vcodec="h264", crf=20))
    for _ in range(4):
        frame: dict[str, Any] = {"task": "appended by LeRobot"}
        for key, feature in dataset.features.items():
            if key in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
                continue
            shape = tuple(feature["shape"])
            if feature["dtype"] == "video":
                frame[key] = np.zeros(shape, np.uint8)
            else:
                frame[key] = "{}" if feature["dtype"] == "string" else np.zeros(shape, feature["dtype"])
        dataset.add_frame(frame)
    dataset.save_episode(parallel_encoding=False)
    dataset.finalize()


def merge(first: str, second: str, out: str) -> None:
    """Join two data sets into files as LeRobot lays them out."""
    roots = [Path(first), Path(second)]
    aggregate_datasets([f"local/{i}" for i in range(2)], NAME, roots=roots, aggr_root=Path(out))


if __name__ == "__main__":
    {"read": read, "write": write, "resume": resume, "merge": merge}[sys.argv[1]](*sys.argv[2:])
