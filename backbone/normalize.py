"""Normalisation of actions and states: statistics from data, stored with mode, dims and names, and exact inverses.

Statistics are computed through the very transforms the model will see (`NormalizerSet.fit` takes them), are stored as
JSON that says so, and refuse to be used for anything of another name, mode, size, or transform chain.

For each dimension, with centre ``c`` and scale ``s > 0``::

    normalise(x)   = (x - c) / s
    unnormalise(y) = y * s + c

``mean_std``: c mean, s standard deviation. ``min_max``: [minimum, maximum] goes to [-1, 1]. ``quantile``: the same for
the 1st and 99th percentile, so that outliers do not set the scale; values beyond lie outside [-1, 1] and are not
clipped. A dimension that does not vary (see `DEGENERATE`) has s = 1 and is only centred: its
constant goes to 0, and 0 comes back as the constant. No epsilon is added, so none can differ between the directions.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from backbone.errors import ConfigError, DataError

FORMAT = 1
DEGENERATE = 1e-6  # spread below this part of the center's absolute value, or below 1e-12, counts as constant
QUANTILES = (0.01, 0.99)

Mode = Literal["mean_std", "min_max", "quantile"]
FloatArray = NDArray[np.floating[Any]]
Transform = Callable[[Mapping[str, FloatArray]], Mapping[str, FloatArray]]


@dataclass(frozen=True)
class Normalizer:
    """Centre and scale of one feature: ``names``, ``center`` and ``scale`` have one entry per dimension."""

    mode: Mode
    names: tuple[str, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]
    constant: tuple[str, ...] = ()  # names of dimensions that do not vary
    count: int = 0  # values per dimension the statistics come from

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise DataError(f"normalisation mode {self.mode!r} is unknown; known: {', '.join(get_args(Mode))}")
        lengths = {"names": len(self.names), "center": len(self.center), "scale": len(self.scale)}
        if len(set(lengths.values())) != 1 or not self.names:
            raise DataError(f"statistics need one equal, non-zero number of names, centers and scales, got {lengths}")
        if len(set(self.names)) != len(self.names):
            raise DataError(f"dimension names must differ, got {self.names}")
        for name, center, scale in zip(self.names, self.center, self.scale, strict=True):
            if not (math.isfinite(center) and math.isfinite(scale) and scale > 0):
                raise DataError(f"dimension {name!r}: needs a finite center and scale > 0, got {center} and {scale}")
        if unknown := set(self.constant) - set(self.names):
            raise DataError(f"constant dimensions {sorted(unknown)} are not among the names {self.names}")

    @classmethod
    def fit(cls, values: FloatArray, names: Sequence[str], mode: Mode) -> Normalizer:
        """Statistics of ``values`` (..., D) over all but the last axis.

        Raises:
            DataError: not D values per row, no rows, or a value that is NaN or infinite.
        """
        rows = _rows(values, len(names), f"values of {tuple(names)}")
        if len(rows) == 0:
            raise DataError(f"no values to compute statistics of {tuple(names)} from")
        if not np.isfinite(rows).all():
            bad = [n for i, n in enumerate(names) if not np.isfinite(rows[:, i]).all()]
            raise DataError(f"values of {bad} are NaN or infinite; remove those records before computing statistics")
        if mode == "mean_std":
            center, spread = rows.mean(0), rows.std(0)
        else:
            low, high = np.quantile(rows, QUANTILES if mode == "quantile" else (0.0, 1.0), axis=0)
            center, spread = low + (high - low) / 2, (high - low) / 2
        still = spread <= np.maximum(DEGENERATE * np.abs(center), 1e-12)
        scale = np.where(still, 1.0, spread)
        constant = tuple(n for n, s in zip(names, still, strict=True) if s)
        return cls(mode, tuple(names), tuple(center.tolist()), tuple(scale.tolist()), constant, len(rows))

    def normalize(self, values: FloatArray) -> FloatArray:
        """``(values - center) / scale`` for (..., D); computed in float64, returned in the dtype of ``values``."""
        return self._apply(values, lambda x: (x - np.array(self.center)) / np.array(self.scale))

    def unnormalize(self, values: FloatArray) -> FloatArray:
        """``values * scale + center`` for (..., D); computed in float64, returned in the dtype of ``values``."""
        return self._apply(values, lambda x: x * np.array(self.scale) + np.array(self.center))

    def _apply(self, values: FloatArray, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> FloatArray:
        rows = _rows(values, len(self.names), f"values for statistics of {self.names}")
        return function(rows).reshape(values.shape).astype(values.dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "mode": self.mode,
            "dims": len(self.names),
            "names": list(self.names),
            "center": list(self.center),
            "scale": list(self.scale),
            "constant": list(self.constant),
            "count": self.count,
        }

    @classmethod
    def make_example(cls) -> Normalizer:
        """Statistics of a two-dimensional action."""
        return cls("mean_std", ("forward", "turn"), (0.5, 0.0), (0.25, 0.5), (), 100)


def _rows(values: FloatArray, dims: int, where: str) -> NDArray[np.float64]:
    if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, np.floating):
        found = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{where}: expected an array of floats, got {found}")
    if values.ndim < 1 or values.shape[-1] != dims:
        got = values.shape[-1] if values.ndim else 0
        raise DataError(f"{where}: expected {dims} dims, got {got} (shape {values.shape})")
    return values.astype(np.float64).reshape(-1, dims)


@dataclass(frozen=True)
class NormalizerSet:
    """Normalisers of several features by key, and the names of the transforms the data went through first."""

    features: Mapping[str, Normalizer]
    transforms: tuple[str, ...] = ()
    source: str = field(default="memory", compare=False)  # file it was read from, for messages

    @classmethod
    def fit(
        cls,
        records: Iterable[Mapping[str, FloatArray]],
        names: Mapping[str, Sequence[str]],
        modes: Mapping[str, Mode],
        transforms: Mapping[str, Transform],
    ) -> NormalizerSet:
        """Statistics of every key of ``names`` over ``records``, each passed through ``transforms`` in order.

        Args:
            records: Mappings of key to (..., D) floats, as stored.
            names: Per key to be normalised, the names of its D dimensions after the transforms.
            modes: Per key the mode.
            transforms: By name; the same chain the model's input goes through before normalisation.

        Raises:
            DataError: a record lacks a key after the transforms, or has other dims.
            ConfigError: ``names`` and ``modes`` have different keys.
        """
        if names.keys() != modes.keys():
            raise ConfigError(
                f"names are given for {sorted(names)}, modes for {sorted(modes)}; they must be the same keys"
            )
        kept: dict[str, list[NDArray[np.float64]]] = {key: [] for key in names}
        for number, record in enumerate(records):
            for transform in transforms.values():
                record = transform(record)
            for key, rows in kept.items():
                if key not in record:
                    raise DataError(f"record {number}: {_missing(key, record)} after transforms {list(transforms)}")
                rows.append(_rows(record[key], len(names[key]), f"record {number}, key {key!r}"))
        if any(not rows for rows in kept.values()) or not kept:
            raise DataError(f"no records to compute statistics of {sorted(names)} from")
        features = {k: Normalizer.fit(np.concatenate(rows), names[k], modes[k]) for k, rows in kept.items()}
        return cls(features, tuple(transforms))

    def require(
        self, names: Mapping[str, Sequence[str]], modes: Mapping[str, Mode], transforms: Sequence[str]
    ) -> NormalizerSet:
        """Check, at load, that these statistics are those of the model; returns self.

        Raises:
            DataError: a key is missing, unknown or renamed; dims, names, mode or transforms differ. Both are shown.
        """
        for key in names:
            if key not in self.features:
                raise DataError(
                    f"{_missing(key, self.features)} in the statistics of {self.source}; compute them again"
                )
        if extra := sorted(self.features.keys() - names.keys()):
            raise DataError(
                f"statistics of {self.source} have keys {extra} that the model does not have: {sorted(names)}"
            )
        for key, wanted in names.items():
            found, where = self.features[key], f"(key {key!r} in {self.source})"
            if len(found.names) != len(wanted):
                raise DataError(f"the model has {len(wanted)} dims, the statistics have {len(found.names)} {where}")
            if found.names != tuple(wanted):
                raise DataError(f"the model has dimensions {tuple(wanted)}, the statistics have {found.names} {where}")
            if found.mode != modes[key]:
                raise DataError(f"the model expects mode {modes[key]!r}, the statistics have {found.mode!r} {where}")
        if self.transforms != tuple(transforms):
            raise DataError(
                f"the model's data goes through {list(transforms)}, the statistics of {self.source} were computed "
                f"through {list(self.transforms)}; compute them again through the model's chain"
            )
        return self

    def __getitem__(self, key: str) -> Normalizer:
        if key not in self.features:
            raise DataError(f"{_missing(key, self.features)} in the statistics of {self.source}")
        return self.features[key]

    def normalize(self, record: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """``record`` with every feature normalised; a feature it lacks is an error, other keys pass unchanged."""
        return {**record, **{k: f.normalize(self._value(record, k)) for k, f in self.features.items()}}

    def unnormalize(self, record: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """The inverse of `normalize`."""
        return {**record, **{k: f.unnormalize(self._value(record, k)) for k, f in self.features.items()}}

    def _value(self, record: Mapping[str, FloatArray], key: str) -> FloatArray:
        if key not in record:
            raise DataError(f"{_missing(key, record)} in the record, but the statistics of {self.source} declare it")
        return record[key]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        features = {key: feature.to_dict() for key, feature in self.features.items()}
        return {"format": FORMAT, "transforms": list(self.transforms), "features": features}

    def save(self, path: Path) -> None:
        """Write the statistics as JSON."""
        path.write_text(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> NormalizerSet:
        """Read what `save` wrote; raises `DataError` naming the file and what is wrong in it. Then call `require`."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"statistics {path} are unreadable: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise DataError(f"statistics {path}: expected format {FORMAT}, found {found}; compute them again")
        _check_keys(content, {"format", "transforms", "features"}, str(path))
        for key, kind in (("transforms", list), ("features", dict)):
            if not isinstance(content[key], kind):
                raise DataError(f"statistics {path}: {key} must be a {kind.__name__}, got {content[key]!r}")
        features = {k: _feature(v, f"{path}, key {k!r}") for k, v in content["features"].items()}
        return cls(features, tuple(content["transforms"]), str(path))

    @classmethod
    def make_example(cls) -> NormalizerSet:
        """Statistics of one feature."""
        return cls({"actions": Normalizer.make_example()}, ("delta",))


def _feature(value: Mapping[str, Any], where: str) -> Normalizer:
    _check_keys(value, {"mode", "dims", "names", "center", "scale", "constant", "count"}, where)
    try:
        lists = {k: tuple(value[k]) for k in ("names", "center", "scale", "constant")}
        feature = Normalizer(mode=value["mode"], count=int(value["count"]), **lists)
    except (DataError, TypeError, ValueError) as error:
        raise DataError(f"{where}: {error}") from error
    if value["dims"] != len(feature.names):
        raise DataError(f"{where}: dims is {value['dims']}, but there are {len(feature.names)} names")
    return feature


def _check_keys(value: Any, expected: set[str], where: str) -> None:
    found = set(value) if isinstance(value, Mapping) else set()
    if found != expected:
        missing, extra = sorted(expected - found), sorted(found - expected)
        raise DataError(f"{where}: missing {missing or 'nothing'}, unknown {extra or 'nothing'}")


def _missing(key: str, available: Iterable[str]) -> str:
    keys = sorted(available)
    close = difflib.get_close_matches(key, keys, 1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"key {key!r} is missing; there are {keys}{hint}"
