"""The columns of a recording: which features a world's frames have, and how a frame becomes a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from backbone.contracts import ActionSpec, Observation
from backbone.errors import DataError
from backbone.records.layout import (
    ACTION,
    CAMERA,
    DEFAULT_FEATURES,
    DONE,
    LABELS,
    LABELS_JSON,
    REWARD,
    STATE,
    SUCCESS,
    WORLD_TIME,
    Feature,
)
from backbone.records.video import pixel_format

PICTURE_AXES = ["height", "width", "channels"]


def features_of(
    observation: Observation, spec: ActionSpec, labels: Sequence[str] | None, video: Mapping[str, Any]
) -> dict[str, Feature]:
    """The features of a recording whose first frame is ``observation``; ``labels`` None leaves the privileged ones out.

    ``video`` is what the info file says of every video's coding. Names with a slash raise `DataError`: LeRobot refuses
    them.
    """
    features: dict[str, Feature] = {}
    for name, image in observation.images.items():
        height, width = image.shape[:2]
        about = {"video.height": height, "video.width": width, "video.pix_fmt": pixel_format(width, height), **video}
        features[CAMERA + name] = Feature("video", (height, width, 3), PICTURE_AXES, about)
    if observation.state is not None:
        size = len(observation.state)
        features[STATE] = Feature("float32", (size,), [f"state_{i}" for i in range(size)])
    features[ACTION] = Feature("float32", (len(spec.names),), list(spec.names), _meaning(spec))
    features[REWARD] = Feature("float32", (1,))
    features[DONE] = features[SUCCESS] = Feature("bool", (1,))
    features[WORLD_TIME] = Feature("float64", (1,))
    if labels is not None:
        if labels:
            features[LABELS] = Feature("float64", (len(labels),), list(labels))
        features[LABELS_JSON] = Feature("string", (1,))
    slashed = [key for key in features if "/" in key]
    if slashed:
        raise DataError(f"features may not have a slash in their names, got {slashed}; rename the world's cameras")
    return {**features, **DEFAULT_FEATURES}


def _meaning(spec: ActionSpec) -> dict[str, Any]:
    """What LeRobot has no field for: units, limits, and the words of a discrete action."""
    limits = {"units": list(spec.units), "low": list(spec.low), "high": list(spec.high)}
    words = {"kind": spec.kind, "choices": list(spec.choices), "meanings": list(spec.meanings)}
    return {**limits, **words, "control_hz": spec.control_hz}


def arrow_type(feature: Feature) -> pa.DataType:
    """The column type of a feature that is not a picture: a scalar for shape (1,), else lists of fixed length."""
    scalar = pa.bool_() if feature.dtype == "bool" else pa.type_for_alias(feature.dtype)
    if feature.shape == (1,):
        return scalar
    for size in reversed(feature.shape):
        scalar = pa.list_(scalar, size)
    return scalar


def arrow_schema(features: Mapping[str, Feature]) -> pa.Schema:
    """The schema of a data file: every feature but the videos, in their order."""
    return pa.schema([(key, arrow_type(feature)) for key, feature in features.items() if feature.dtype != "video"])


def check_frame(observation: Observation, features: Mapping[str, Feature], where: str) -> None:
    """`DataError` with both sides if an observation has other cameras, sizes or another state than the data set."""
    got = {CAMERA + name: tuple(image.shape) for name, image in observation.images.items()}
    if observation.state is not None:
        got[STATE] = tuple(observation.state.shape)
    wanted = {key: f.shape for key, f in features.items() if f.dtype == "video" or key == STATE}
    if got != wanted:
        raise DataError(f"{where}: expected {wanted} as in the first frame of the data set, got {got}")


def array_of(column: pa.ChunkedArray, feature: Feature, where: str) -> np.ndarray[Any, Any]:
    """A column as an array (T,) for shape (1,), else (T, *shape); bit for bit what was written.

    Raises:
        DataError: the file's column is of another type or length than the info file says, or has gaps.
    """
    if column.null_count:
        raise DataError(f"{where}: {column.null_count} of {len(column)} values are missing")
    if feature.dtype == "string":
        return np.array(column.to_pylist(), object)
    flat, size = column.combine_chunks(), 1
    while pa.types.is_list(flat.type) or pa.types.is_fixed_size_list(flat.type) or pa.types.is_large_list(flat.type):
        flat = flat.flatten()
    values = np.asarray(flat)
    shape = (len(column),) if feature.shape == (1,) else (len(column), *feature.shape)
    size = int(np.prod(shape))
    if values.size != size or values.dtype != np.dtype(feature.dtype):
        raise DataError(f"{where}: expected {feature.dtype} {shape}, got {values.dtype} with {values.size} values")
    return values.reshape(shape)
