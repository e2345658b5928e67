"""Normalisation: exact inverses, degenerate dimensions, and refusal of statistics that are not the model's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from backbone.errors import ConfigError, DataError
from backbone.normalize import QUANTILES, Mode, Normalizer, NormalizerSet

MODES: tuple[Mode, ...] = get_args(Mode)
NAMES = {"actions": ("x", "y", "gripper"), "state": ("q0", "q1")}
CHAIN = {"delta": lambda r: {**r, "actions": r["actions"] - r["state"][..., :1]}, "scale": lambda r: r}
elements = st.floats(-1e6, 1e6, width=32)
tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(3)), elements=elements)


def records(n: int = 50) -> list[dict[str, np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(0)
    return [{"actions": rng.normal(5, 2, (4, 3)), "state": rng.uniform(-1, 1, (4, 2))} for _ in range(n)]


def fitted() -> NormalizerSet:
    return NormalizerSet.fit(records(), NAMES, {"actions": "quantile", "state": "mean_std"}, CHAIN)


@given(tables, tables, st.sampled_from(MODES))
def test_round_trip_both_ways(data: Any, values: Any, mode: Mode) -> None:
    n = Normalizer.fit(data, ("x", "y", "z"), mode)
    size = np.abs(data).max() + np.abs(values).max() + 1
    np.testing.assert_allclose(n.unnormalize(n.normalize(values)), values, rtol=1e-9, atol=1e-9 * size)
    unit = np.clip(values, -3, 3)
    back = n.normalize(n.unnormalize(unit))
    rounding = (
        1e-15 * np.abs(np.array(n.center)) / np.array(n.scale)
    )  # what adding the center costs, in units of the scale
    np.testing.assert_array_less(np.abs(back - unit), 1e-12 + 10 * rounding + 1e-12 * np.abs(unit))


@given(tables)
def test_modes_do_what_they_are_called(data: Any) -> None:
    spread = np.ptp(data, axis=0)
    assume((spread > 1e-3 * (1 + np.abs(data).max(0))).all())
    z = Normalizer.fit(data, ("x", "y", "z"), "mean_std").normalize(data)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-8)
    np.testing.assert_allclose(z.std(0), 1, rtol=1e-8)
    m = Normalizer.fit(data, ("x", "y", "z"), "min_max").normalize(data)
    np.testing.assert_allclose(m.min(0), -1, rtol=1e-9)
    np.testing.assert_allclose(m.max(0), 1, rtol=1e-9)


def test_quantile_ignores_outliers_and_does_not_clip() -> None:
    data = np.concatenate([np.linspace(0, 1, 10001), [1e6]])[:, None]
    n = Normalizer.fit(data, ("x",), "quantile")
    low, high = np.quantile(data, QUANTILES)
    np.testing.assert_allclose(n.normalize(np.array([[low], [high], [1.0]])).ravel()[:2], [-1, 1])
    assert n.normalize(np.array([[2.0]]))[0, 0] > 2
    assert n.unnormalize(n.normalize(np.array([[1e6]])))[0, 0] == pytest.approx(1e6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("constant", [0.0, 7.0, -1e-9, 1e9])
def test_constant_dimension_is_centred_and_comes_back(mode: Mode, constant: float) -> None:
    data = np.stack([np.arange(10.0), np.full(10, constant)], 1)
    n = Normalizer.fit(data, ("moves", "still"), mode)
    assert n.constant == ("still",)
    assert n.scale[1] == 1.0
    np.testing.assert_allclose(n.normalize(data)[:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(n.unnormalize(np.zeros((1, 2)))[0, 1], constant, rtol=1e-12)


def test_one_value_and_rounding_noise_count_as_constant() -> None:
    assert Normalizer.fit(np.array([[3.0]]), ("x",), "mean_std").constant == ("x",)
    noisy = (np.float32(0.1) + np.float32(1e-9) * np.arange(10, dtype=np.float32))[:, None]
    assert Normalizer.fit(noisy, ("x",), "min_max").constant == ("x",)
    small = np.array([[1e-5], [2e-5]])  # small but truly varying values are no noise
    assert Normalizer.fit(small, ("x",), "min_max").constant == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_and_dtype_are_kept(dtype: Any) -> None:
    n = Normalizer.make_example()
    for shape in [(2,), (5, 2), (3, 4, 2), (0, 2)]:
        values = np.ones(shape, dtype)
        assert n.normalize(values).shape == shape
        assert n.unnormalize(values).dtype == dtype


def test_hand_values() -> None:
    n = Normalizer("mean_std", ("a", "b"), (1.0, -2.0), (2.0, 4.0))
    np.testing.assert_array_equal(n.normalize(np.array([5.0, 2.0])), [2.0, 1.0])
    np.testing.assert_array_equal(n.unnormalize(np.array([2.0, 1.0])), [5.0, 2.0])


def test_wrong_dims_show_both_numbers() -> None:
    n = Normalizer.fit(np.random.default_rng(0).normal(size=(9, 7)), [f"d{i}" for i in range(7)], "mean_std")
    for call in (n.normalize, n.unnormalize):
        with pytest.raises(DataError, match=r"expected 7 dims, got 8"):
            call(np.zeros((3, 8)))
        with pytest.raises(DataError, match="expected 7 dims, got 1"):
            call(np.zeros((7, 1)))
    with pytest.raises(DataError, match="int64"):
        n.normalize(np.zeros(7, np.int64))
    with pytest.raises(DataError, match="list"):
        n.normalize([0.0] * 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_without_numbers_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"\['y'\] are NaN or infinite"):
        Normalizer.fit(np.array([[1.0, bad], [2.0, 3.0]]), ("x", "y"), "mean_std")
    with pytest.raises(DataError, match="no values"):
        Normalizer.fit(np.zeros((0, 2)), ("x", "y"), "mean_std")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "zscore"}, "zscore"),
        ({"center": (0.0,)}, "'center': 1"),
        ({"scale": (1.0, 0.0)}, "'turn'"),
        ({"scale": (-1.0, 1.0)}, "'forward'"),
        ({"center": (np.inf, 0.0)}, "'forward'"),
        ({"names": ("a", "a")}, "must differ"),
        ({"constant": ("up",)}, "up"),
    ],
)
def test_impossible_statistics_are_refused(changes: dict[str, Any], message: str) -> None:
    values = {"mode": "mean_std", "names": ("forward", "turn"), "center": (0.5, 0.0), "scale": (0.25, 0.5)} | changes
    with pytest.raises(DataError, match=message):
        Normalizer(**values)


def test_statistics_go_through_the_transform_chain() -> None:
    data = records()
    stats = NormalizerSet.fit(iter(data), NAMES, {"actions": "mean_std", "state": "mean_std"}, CHAIN)
    changed = np.concatenate([CHAIN["delta"](r)["actions"] for r in data])
    np.testing.assert_allclose(stats["actions"].center, changed.mean(0))
    assert stats.transforms == ("delta", "scale")
    assert stats["actions"].count == 200
    raw = NormalizerSet.fit(data, NAMES, {"actions": "mean_std", "state": "mean_std"}, {})
    assert raw["actions"].center != stats["actions"].center


def test_file_round_trip_is_exact(tmp_path: Path) -> None:
    stats, path = fitted(), tmp_path / "statistics.json"
    stats.save(path)
    loaded = NormalizerSet.load(path)
    assert loaded == stats
    assert json.loads(path.read_text())["features"]["actions"] | {} == stats["actions"].to_dict()
    record = {**records(1)[0], "other": np.ones(1)}
    both = loaded.unnormalize(loaded.normalize(record))
    assert both.keys() == record.keys()
    for key in record:
        np.testing.assert_allclose(both[key], record[key], rtol=1e-12)


REQUIRED: dict[str, Any] = {
    "names": NAMES,
    "modes": {"actions": "quantile", "state": "mean_std"},
    "transforms": ["delta", "scale"],
}


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"names": {**NAMES, "action": ("x", "y", "gripper")}}, ["'action' is missing", "did you mean 'actions'"]),
        ({"names": {"actions": NAMES["actions"]}}, ["['state']", "['actions']"]),
        ({"names": {**NAMES, "state": ("q0", "q1", "q2")}}, ["3 dims", "have 2", "'state'"]),
        ({"names": {**NAMES, "state": ("q1", "q0")}}, ["('q1', 'q0')", "('q0', 'q1')"]),
        ({"modes": {"actions": "mean_std", "state": "mean_std"}}, ["'mean_std'", "'quantile'", "'actions'"]),
        ({"transforms": ["scale"]}, ["['scale']", "['delta', 'scale']"]),
        ({"transforms": ["scale", "delta"]}, ["['scale', 'delta']", "['delta', 'scale']"]),
    ],
)
def test_statistics_of_another_representation_are_refused_naming_both(
    tmp_path: Path, changes: dict[str, Any], messages: list[str]
) -> None:
    path = tmp_path / "statistics.json"
    fitted().save(path)
    stats = NormalizerSet.load(path)
    assert stats.require(**REQUIRED) is stats
    with pytest.raises(DataError) as error:
        stats.require(**(REQUIRED | changes))
    for message in [*messages, str(path)]:
        assert message in str(error.value)


def test_renamed_key_is_refused_and_never_passed_through() -> None:
    stats, record = fitted(), records(1)[0]
    renamed = {"action": record["actions"], "state": record["state"]}
    for call in (stats.normalize, stats.unnormalize):
        with pytest.raises(DataError, match=r"'actions' is missing; there are \['action', 'state'\].*'action'"):
            call(renamed)
    with pytest.raises(DataError, match=r"'velocity' is missing; there are \['actions', 'state'\]"):
        stats["velocity"]
    with pytest.raises(DataError, match="record 0: key 'actions' is missing"):
        NormalizerSet.fit([renamed], NAMES, {"actions": "mean_std", "state": "mean_std"}, {})
    with pytest.raises(DataError, match=r"record 0, key 'state': expected 2 dims, got 3"):
        NormalizerSet.fit([{**record, "state": np.zeros(3)}], NAMES, {"actions": "mean_std", "state": "mean_std"}, {})
    with pytest.raises(DataError, match="no records"):
        NormalizerSet.fit([], NAMES, {"actions": "mean_std", "state": "mean_std"}, {})
    with pytest.raises(ConfigError, match="same keys"):
        NormalizerSet.fit([record], NAMES, {"actions": "mean_std"}, {})


def edit(content: dict[str, Any], *path: str, value: Any = None, delete: bool = False) -> None:
    for key in path[:-1]:
        content = content[key]
    if delete:
        del content[path[-1]]
    else:
        content[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), 2, "expected format 1, found 2"),
        (("features", "actions", "mode"), None, r"'actions'.*missing \['mode'\]"),
        (("features", "actions", "std"), [1.0], r"'actions'.*unknown \['std'\]"),
        (("features", "actions", "dims"), 8, "dims is 8, but there are 3"),
        (("features", "actions", "scale"), [1.0], "'scale': 1"),
        (("features", "actions", "scale"), [1.0, "a", 1.0], "'actions'"),
        (("features", "actions", "center"), 5, "'actions'"),
        (("features", "state"), [1], "'state'"),
        (("features",), [1], "features"),
        (("transforms",), "delta", "transforms"),
    ],
)
def test_broken_file_is_refused_naming_it(tmp_path: Path, path: tuple[str, ...], value: Any, message: str) -> None:
    content = fitted().to_dict()
    edit(content, *path, value=value, delete=value is None)
    file = tmp_path / "statistics.json"
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as error:
        NormalizerSet.load(file)
    assert str(file) in str(error.value)


def test_missing_file_is_refused_naming_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.json"):
        NormalizerSet.load(tmp_path / "nowhere.json")
    (tmp_path / "half.json").write_text('{"format": 1')
    with pytest.raises(DataError, match=r"half\.json"):
        NormalizerSet.load(tmp_path / "half.json")
