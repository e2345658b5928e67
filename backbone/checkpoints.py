"""Checkpoints of a training run: safetensors and JSON, complete or absent, never half written.

A checkpoint is a directory ``step-000001000`` with ``weights.safetensors`` (parameters that train, and buffers),
``optimizer.safetensors``, ``random.safetensors`` and ``state.json``. It is written under another name, flushed to the
disk, and renamed; whatever carries the final name is therefore whole.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from backbone.errors import DataError, ModelError
from backbone.sharding import split_like

FORMAT = 1
WEIGHTS, OPTIMIZER, RANDOM = "weights", "optimizer", "random"
_SHOWN = 12  # names listed in a message before the rest is counted


def write_checkpoint(
    root: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], keep: int
) -> Path:
    """Write ``root/step-<step>`` atomically, then delete all but the newest ``keep`` checkpoints.

    Args:
        root: Folder of the run's checkpoints; made when absent.
        step: Optimiser steps done.
        tensors: Per file name (without suffix) the tensors it holds.
        state: JSON values; finite numbers only.
        keep: How many checkpoints stay, at least 1.
    """
    root.mkdir(parents=True, exist_ok=True)
    final, partial = root / f"step-{step:09d}", root / f".partial-{step:09d}"
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()
    for name, group in tensors.items():
        save_file({k: v.detach().cpu().contiguous() for k, v in group.items()}, partial / f"{name}.safetensors")
    text = json.dumps({"format": FORMAT, "step": step, **state}, indent=1, allow_nan=False)
    (partial / "state.json").write_text(text, encoding="utf-8")
    for path in (*partial.iterdir(), partial):
        _flush(path)
    partial.rename(final)
    _flush(root)
    for old in list_checkpoints(root)[:-keep]:
        shutil.rmtree(old)
    return final


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def list_checkpoints(root: Path) -> list[Path]:
    """The complete checkpoints under ``root``, oldest first."""
    return sorted(p for p in root.glob("step-*") if p.is_dir())


def remove_partial(root: Path) -> None:
    """Delete what a killed process left half written."""
    for path in root.glob(".partial-*"):
        shutil.rmtree(path)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The ``state.json`` of a checkpoint; raises `DataError` if it is broken or of another format."""
    path = checkpoint / "state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is unreadable ({error}); delete {checkpoint} to resume from the one before") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise DataError(f"{path}: expected checkpoint format {FORMAT}, found {found}; train anew in another folder")
    return state


def read_tensors(checkpoint: Path, name: str) -> dict[str, Tensor]:
    """All tensors of one file of a checkpoint, on the CPU; raises `DataError` if it is missing or broken."""
    path = checkpoint / f"{name}.safetensors"
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is unreadable ({error}); delete {checkpoint} to resume from the one before") from error


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters that require a gradient and all persistent buffers, by name; a tied tensor appears once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            raise ModelError(f"module state {name!r} is a {type(value).__name__}; only tensors can be checkpointed")
        if id(value) in seen or (isinstance(value, nn.Parameter) and not value.requires_grad):
            continue
        seen.add(id(value))
        found[name] = value
    return found


def check_names(found: Iterable[str], expected: Iterable[str], where: str) -> None:
    """Raise `ModelError` naming every tensor that is missing from ``where`` or unexpected in it."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if missing or extra:
        raise ModelError(
            f"{where} does not fit this model: missing {_listed(missing)}; unexpected {_listed(extra)}; "
            "build the model as it was, or train in another output folder"
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN]) or 'none'}{more}"


def load_weights(model: nn.Module, checkpoint: Path) -> None:
    """Copy a checkpoint's weights into ``model``, whose trained parameters must be the same set.

    Raises:
        ModelError: a tensor is missing, unexpected, or has another shape; the message names it.
        DataError: the file is missing or broken.
    """
    stored, target = read_tensors(checkpoint, WEIGHTS), trained_tensors(model)
    where = str(checkpoint / f"{WEIGHTS}.safetensors")
    check_names(stored, target, where)
    wrong = [
        f"{n} {tuple(stored[n].shape)} != {tuple(t.shape)}" for n, t in target.items() if stored[n].shape != t.shape
    ]
    if wrong:
        raise ModelError(f"{where}: shapes differ from the model's (stored != model): {_listed(wrong)}")
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(stored[name])


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    """Optimiser state as ``<parameter name>|<entry>``; ``names`` maps ``id(parameter)`` to its name."""
    return {
        f"{names[id(parameter)]}|{key}": torch.as_tensor(value)
        for parameter, entries in optimizer.state.items()
        for key, value in entries.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, names: Mapping[int, str], checkpoint: Path) -> None:
    """Give ``optimizer`` its stored state; its groups and their settings stay as they are.

    The names that had state are listed in ``state.json`` (a parameter that never got a gradient has none).

    Raises:
        ModelError: state of a parameter is missing or belongs to none; the message names it.
        DataError: a file is missing or broken.
    """
    stored, path = read_tensors(checkpoint, OPTIMIZER), checkpoint / f"{OPTIMIZER}.safetensors"
    check_names(stored, read_state(checkpoint)["optimizer_tensors"], str(path))
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in stored.items():
        name, _, entry = key.rpartition("|")
        by_name.setdefault(name, {})[entry] = value
    parameters = {names[id(p)]: p for group in optimizer.param_groups for p in group["params"]}
    check_names(set(by_name) | set(parameters), parameters, str(path))
    state = {
        i: {key: split_like(value, parameter) for key, value in by_name[name].items()}
        for i, (name, parameter) in enumerate(parameters.items())
        if name in by_name
    }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_state() -> dict[str, Tensor]:
    """State of the random generators of Python, numpy, torch and the current GPU, as tensors of fixed shape."""
    _, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state = {
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor([float("nan") if gauss is None else gauss], dtype=torch.float64),
        "numpy": torch.tensor([*(int(k) for k in keys), position, has_gauss], dtype=torch.int64),
        "numpy_gauss": torch.tensor([cached], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: Mapping[str, Tensor]) -> None:
    """Set the generators to what `random_state` gave."""
    gauss = float(state["python_gauss"][0])
    random.setstate((3, tuple(state["python"].tolist()), None if gauss != gauss else gauss))
    *keys, position, has_gauss = state["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, float(state["numpy_gauss"][0])))
    torch.set_rng_state(state["torch"].clone())  # cloned: torch reads from the start of the storage, not of the view
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].clone())


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, numpy, torch and every GPU."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
