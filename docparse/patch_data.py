"""Patch fields of training records: what the pages of a record look like to each of its questions, a file a record.

They lie in ``RECORDS/patches/NAME-LONGEST-LAYER/``, beside ``about.json`` with the settings and the fingerprint of the
backbone. The pages of a generated document are drawn anew from its seed, so that a folder can be filled in parts.
"""

from __future__ import annotations

import functools
import json
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from backbone.errors import ConfigError, DataError
from docparse.data import Example, GeneratedConfig, load_document, make_generated, record_paths
from docparse.fields.patches import PagePatches, PatchConfig, PatchField, PatchSeer

VERSION = 1
FOLDER = "patches"


def patch_folder(records: Path, config: PatchConfig) -> Path:
    """Where the patch fields of these settings lie."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", config.backbone).strip("-")
    return records / FOLDER / f"{name}-{config.longest}-{config.layer}"


def make_patches(config: GeneratedConfig, seer: PatchSeer) -> Iterator[Path]:
    """Make the patch fields that are missing of records that are there, in order; yields each file's path.

    Raises:
        DataError: a record is missing or its questions are not those of its document, or the folder was begun with
            other settings or other weights of the backbone.
    """
    folder = patch_folder(config.output, seer.config)
    if (folder / "about.json").is_file():
        _begin(folder, seer.config)
    for seed, path in record_paths(config):
        target = folder / path.name
        if not target.is_file():
            _make(config, seed, path, target, seer)
        yield target


def _begin(folder: Path, config: PatchConfig) -> None:
    """Write ``about.json``, or check that what is there says the same."""
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / "about.json"
    if not about.is_file():
        partial = folder / f".about.{os.getpid()}.json"
        partial.write_text(json.dumps({"version": VERSION, "config": asdict(config)}, indent=1) + "\n")
        os.replace(partial, about)
    if (found := read_about(folder)) != config:
        raise DataError(f"{folder} was begun with {found}, not with {config}; use another folder of records")


def read_about(folder: Path) -> PatchConfig:
    """The settings that the fields of a folder were made with. Raises `DataError` if it holds none."""
    try:
        about = json.loads((folder / "about.json").read_text())
        if about["version"] != VERSION:
            raise DataError(f"{folder} holds patches of version {about['version']}, expected {VERSION}; make them anew")
        return PatchConfig(**about["config"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{folder} holds no patch fields: {error}; make some: fovea data records --patches") from error


def find_patches(records: Path, backbone: str) -> PatchConfig:
    """The settings of the patch fields that a folder of records has of a backbone.

    Raises:
        DataError: there are none.
        ConfigError: there are several.
    """
    found = [read_about(path.parent) for path in sorted((records / FOLDER).glob("*/about.json"))]
    fit = [config for config in found if config.backbone == backbone]
    if not fit:
        known = ", ".join(sorted({c.backbone for c in found})) or "none at all"
        raise DataError(
            f"{records} holds no patch fields of the backbone {backbone} (there are: {known}); make them with: "
            f"fovea data records --output {records} --patches {backbone}"
        )
    if len(fit) > 1:
        said = ", ".join(f"{c.longest} pixels, layer {c.layer}" for c in fit)
        raise ConfigError(
            f"{records} holds several patch fields of {backbone} ({said}); keep one of them in the folder"
        )
    return fit[0]


def _make(config: GeneratedConfig, seed: int, record: Path, target: Path, seer: PatchSeer) -> None:
    document = make_generated(config, seed, render=True)
    asked = [example.question for example in load_document(record)] if record.is_file() else None
    if asked != [question.text for question in document.questions]:
        raise DataError(
            f"{record} is missing or holds other questions than document {seed} has; give --pages, --hops and "
            "--sights as for the records, or make them anew"
        )
    arrays: dict[str, Any] = {}
    for number, question in enumerate(document.questions):
        for page in range(min(len(document.pages), seer.config.pages)):
            image = document.pages[page].image
            if image is None:
                raise DataError(f"document {seed} came without pictures")
            seen = seer.look(image, question.text)
            arrays[f"{number}/{page}"] = seen.values.astype(np.float16)
            arrays[f"ink/{page}"] = np.packbits(seen.ink)
            arrays[f"size/{page}"] = np.array(seen.ink.shape, np.int32)
    _begin(target.parent, seer.config)  # not before: what fails leaves no folder that training would find
    partial = target.with_name(f".{target.name}.{os.getpid()}.npz")
    np.savez(partial, **arrays)
    os.replace(partial, target)


def load_patches(path: Path, question: int) -> PatchField:
    """The field of a record's question by number. Raises `DataError` for a file that is none, or has no such one."""
    try:
        pages = {}
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                number, _, page = name.partition("/")
                if number == str(question):
                    height, width = file[f"size/{page}"].tolist()
                    ink = np.unpackbits(file[f"ink/{page}"], count=height * width).reshape(height, width)
                    pages[int(page)] = PagePatches(file[name].astype(np.float32), ink.astype(bool))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} holds no patch fields: {error}; make them: fovea data records --patches") from error
    if not pages:
        raise DataError(f"{path} has no patch fields of question {question}; delete it and make it anew")
    return PatchField(pages, next(iter(pages.values())).values.shape[2])


_about = functools.lru_cache(maxsize=16)(read_about)


def with_patches(examples: list[Example], records: Path, config: PatchConfig | None) -> list[Example]:
    """Examples of records with their patch fields; as they are without a ``config``.

    Raises `DataError` where there are none, or none of these settings.
    """
    if config is None:
        return examples
    folder = patch_folder(records, config)
    if (found := _about(folder)) != config:
        raise DataError(f"{folder} was made with {found}, the reader sees {config}; make patches with that backbone")
    out = []
    for example in examples:
        stem, number = example.name.rsplit("/", 1)
        out.append(replace(example, patches=load_patches(folder / f"{stem}.npz", int(number))))
    return out
