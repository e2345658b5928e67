"""A trained reader on disk: ``network.safetensors`` and ``config.json``, strictly loaded."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from backbone.errors import ModelError
from docparse.config import DocparseConfig
from docparse.fields.patches import PatchConfig
from docparse.flow.config import FlowConfig
from docparse.model import EvidenceNetwork, NetworkConfig
from docparse.regions import RegionConfig
from docparse.rivals import DetectorNetwork

VERSION = 1


NETWORKS: dict[str, type[EvidenceNetwork]] = {"flow": EvidenceNetwork, "detector": DetectorNetwork}


def save_reader(network: EvidenceNetwork, config: DocparseConfig, folder: Path) -> None:
    """Write weights as float16, the configuration and which network it is."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().to(torch.float16).contiguous() for name, value in network.state_dict().items()}
    save_file(state, folder / "network.safetensors")
    method = next(name for name, kind in NETWORKS.items() if type(network) is kind)
    about = {"version": VERSION, "method": method, "widths": list(network.widths), "config": asdict(config)}
    (folder / "config.json").write_text(json.dumps(about, indent=1) + "\n")


def load_reader(folder: Path) -> tuple[EvidenceNetwork, DocparseConfig]:
    """The flow's network in eval mode and its configuration.

    Raises:
        ModelError: files missing or broken, another version or method, or weights that do not fit the configuration.
    """
    network, config = load_network(folder)
    if type(network) is not EvidenceNetwork:
        raise ModelError(f"{folder} holds a rival of the flow ({type(network).__name__}), not a reader")
    return network, config


def load_network(folder: Path) -> tuple[EvidenceNetwork, DocparseConfig]:
    """As `load_reader`, and also the networks of rivals."""
    try:
        about = json.loads((folder / "config.json").read_text())
        if about["version"] != VERSION:
            raise ModelError(f"{folder}: a reader of version {about['version']}, expected {VERSION}")
        config = _config(about["config"])
        network = NETWORKS[about["method"]](config.network, *about["widths"])
        state = {name: value.float() for name, value in load_file(folder / "network.safetensors").items()}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder} holds no reader (config.json and network.safetensors): {error}") from error
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in state.items()}
    if wrong := sorted(set(wanted.items()) ^ set(found.items())):
        raise ModelError(f"{folder}: the weights do not fit the configuration: {wrong[:4]}")
    network.load_state_dict(state)
    return network.eval(), config


def _config(values: dict[str, Any]) -> DocparseConfig:
    nested = {
        "flow": FlowConfig(**values["flow"] | {"levels": tuple(values["flow"]["levels"])}),
        "network": NetworkConfig(**values["network"]),
        "regions": RegionConfig(**values["regions"]),
        "patches": PatchConfig(**patches) if (patches := values.get("patches")) else None,
    }
    return DocparseConfig(**values | nested)
