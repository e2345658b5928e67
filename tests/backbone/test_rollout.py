"""Rollouts: the same results however they are run, resumed runs equal straight ones, summaries, films."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.contracts import ActionSpec, Decision, Observation, Session
from backbone.errors import CancelledError, ConfigError, DataError
from backbone.rollout.agents import (
    ConstantConfig,
    ExpertConfig,
    RandomConfig,
    check_specs,
    open_session,
    resting_action,
)
from backbone.rollout.config import ALL_VIDEOS, RolloutConfig, differing_fields, episode_seed
from backbone.rollout.frame import Caption, Layout, wrapped
from backbone.rollout.ray_backend import _imports_as_here, _patience
from backbone.rollout.results import EpisodeError, EpisodeResult, RolloutResult, comparable, summary
from backbone.rollout.runner import run_rollout
from backbone.rollout.store import RunStore
from backbone.statistics import wilson
from tests.toy_world import CONTINUOUS, DISCRETE, ToyConfig, ToyPolicy, ToyPolicyConfig, ToyWorld

POLICY = ToyPolicyConfig(noise=0.9)
BASE = RolloutConfig(world=ToyConfig(max_steps=12), agent=POLICY, episodes=7, seed=3, execute=2)


def results_of(result: RolloutResult) -> dict[str, Any]:
    found: dict[str, Any] = comparable(result.to_dict())
    return found


@pytest.fixture(scope="module")
def straight() -> dict[str, Any]:
    result = run_rollout(BASE)
    assert 0 < sum(row.success for row in result.episodes) < 7  # or the comparisons below would see little
    return results_of(result)


# The same results however they are run


@pytest.mark.parametrize("batch", [3, 8])
def test_batches_do_not_change_results(straight: dict[str, Any], batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    act_many = ToyPolicy.act_many

    def spied(self: ToyPolicy, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        sizes.append(len(sessions))
        return act_many(self, sessions, observations)

    monkeypatch.setattr(ToyPolicy, "act_many", spied)
    assert results_of(run_rollout(replace(BASE, batch=batch))) == straight
    assert max(sizes) == min(batch, BASE.episodes)


@pytest.mark.parametrize(("workers", "batch"), [(1, 1), (2, 3), (4, 1)])
def test_workers_do_not_change_results(straight: dict[str, Any], workers: int, batch: int) -> None:
    config = replace(BASE, backend="processes", workers=workers, batch=batch)
    result = run_rollout(config)
    assert results_of(result) == straight
    assert len({row.timing["worker"] for row in result.episodes}) <= workers
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_ray_does_not_change_results(straight: dict[str, Any]) -> None:
    pytest.importorskip("ray", reason="needs the extra 'scale'")
    assert results_of(run_rollout(replace(BASE, backend="ray", workers=2, batch=3))) == straight


def test_ray_is_given_time_to_start_and_then_left_as_it_was() -> None:
    asked: list[int] = []

    def get_node(number: int) -> str:
        asked.append(number)
        if len(asked) < 4:
            raise RuntimeError("not there yet")
        return "node"

    ray = SimpleNamespace(_private=SimpleNamespace(services=SimpleNamespace(get_node=get_node)))
    with _patience(ray, 60.0):
        assert ray._private.services.get_node(7) == "node"
    assert asked == [7] * 4
    assert ray._private.services.get_node is get_node
    asked.clear()
    with _patience(ray, 0.0), pytest.raises(RuntimeError, match="not there yet"):
        ray._private.services.get_node(7)
    with _patience(SimpleNamespace(), 1.0):  # another version of Ray
        pass


def test_what_rays_workers_import_is_what_this_process_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["", "/one", "/two"])
    for before in ("/theirs", None):
        if before is None:
            monkeypatch.delenv("PYTHONPATH", raising=False)
        else:
            monkeypatch.setenv("PYTHONPATH", before)
        with _imports_as_here():
            assert os.environ["PYTHONPATH"] == "/one:/two"
        assert os.environ.get("PYTHONPATH") == before


def test_a_common_inference_that_fails_is_made_up_for(straight: dict[str, Any]) -> None:
    result = results_of(run_rollout(replace(BASE, batch=3, agent=replace(POLICY, batch_fault=True))))
    assert result["episodes"] == straight["episodes"]


def test_experts_read_the_world() -> None:
    result = run_rollout(replace(BASE, agent=ExpertConfig(), execute=1, batch=2, world=ToyConfig()))
    assert all(row.success for row in result.episodes)
    assert all(row.decisions == row.steps for row in result.episodes)


# Seeds, chunks, limits


def test_seeds_depend_on_run_and_index_alone() -> None:
    assert [episode_seed(0, index) for index in range(3)] == [1878776328, 336614359, 1620722436]  # for ever
    seeds = {episode_seed(seed, index) for seed in range(20) for index in range(50)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize("execute", [1, 3, 4])
def test_execute_is_how_much_of_a_chunk_is_carried_out(execute: int) -> None:
    for row in run_rollout(replace(BASE, execute=execute)).episodes:
        assert row.decisions == -(-row.steps // execute)


def test_a_chunk_too_short_is_an_error_that_names_both_numbers() -> None:
    row = run_rollout(replace(BASE, execute=5, episodes=1)).episodes[0]
    assert row.error is not None
    assert "4 actions" in row.error.message
    assert "5" in row.error.message


def test_max_steps_ends_an_episode_early() -> None:
    result = run_rollout(replace(BASE, agent=ConstantConfig(), execute=1, max_steps=5, world=ToyConfig(max_steps=5)))
    assert {(row.end, row.steps) for row in result.episodes} == {("truncated", 5)}
    result = run_rollout(replace(BASE, agent=ConstantConfig(), execute=1, max_steps=4))
    assert {(row.end, row.steps) for row in result.episodes} == {("limit", 4)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"episodes": 0}, "episodes = 0"),
        ({"execute": 0}, "execute = 0"),
        ({"workers": 2}, "serial backend"),
        ({"ray": "auto"}, "ray backend"),
        ({"video": 1}, "output"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(BASE, **change)


# Going on


def test_a_longer_run_goes_on_and_equals_a_straight_one(tmp_path: Path, straight: dict[str, Any]) -> None:
    run_rollout(replace(BASE, output=tmp_path, episodes=3))
    new: list[int] = []
    result = run_rollout(replace(BASE, output=tmp_path), on_row=lambda row: new.append(row.index))
    assert new == [3, 4, 5, 6]
    assert results_of(result) == straight
    assert comparable(json.loads((tmp_path / "result.json").read_text())) == straight
    again = run_rollout(replace(BASE, output=tmp_path), on_row=lambda row: pytest.fail("nothing was missing"))
    assert results_of(again) == straight


@pytest.mark.parametrize("cut", [1, 40])
def test_a_torn_last_line_is_run_again(tmp_path: Path, straight: dict[str, Any], cut: int) -> None:
    run_rollout(replace(BASE, output=tmp_path))
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    new: list[int] = []
    assert results_of(run_rollout(replace(BASE, output=tmp_path), on_row=lambda row: new.append(row.index))) == straight
    assert len(new) == (cut > 1)  # without its newline alone the row is whole
    assert all(json.loads(line) for line in file.read_text().splitlines())


def test_a_broken_line_amid_others_is_an_error_that_names_it(tmp_path: Path) -> None:
    run_rollout(replace(BASE, output=tmp_path, episodes=3))
    file = tmp_path / "episodes.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:30], lines[2]]) + "\n")
    with pytest.raises(DataError, match="line 2"):
        run_rollout(replace(BASE, output=tmp_path))


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    run_rollout(replace(BASE, output=tmp_path, episodes=1))
    other = replace(BASE, output=tmp_path, seed=4, world=ToyConfig(max_steps=13), agent=replace(POLICY, noise=0.1))
    with pytest.raises(ConfigError) as caught:
        run_rollout(other)
    assert "agent.noise: 0.9 -> 0.1; seed: 3 -> 4; world.max_steps: 12 -> 13" in str(caught.value)
    assert "no episode" not in str(caught.value)
    run_rollout(replace(BASE, output=tmp_path, episodes=2, batch=2, episode_timeout_s=50))  # these change no result
    with pytest.raises(ConfigError, match="up to 1, this run asks for 1"):
        run_rollout(replace(BASE, output=tmp_path, episodes=1))


def test_a_run_that_ended_before_its_first_episode_is_told_of(tmp_path: Path) -> None:
    RunStore(tmp_path, replace(BASE, output=tmp_path)).close()
    with pytest.raises(ConfigError, match=r"seed: 3 -> 4.*no episode yet: delete the directory"):
        RunStore(tmp_path, replace(BASE, output=tmp_path, seed=4))


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, straight: dict[str, Any]) -> None:
    def interrupt(row: EpisodeResult) -> None:
        if row.index == 2:
            raise KeyboardInterrupt

    with pytest.raises(CancelledError, match="3 of 7"):
        run_rollout(replace(BASE, output=tmp_path), on_row=interrupt)
    assert results_of(run_rollout(replace(BASE, output=tmp_path))) == straight


# Summaries


def row(index: int, success: bool, **more: Any) -> EpisodeResult:
    metrics = {"success": float(success), "path_length": float(index)}
    given: dict[str, Any] = {"status": "scored", "end": "terminated", "steps": 10, "metrics": metrics, **more}
    return EpisodeResult(index, index, {}, success=success, **given)


def test_summary_counts_every_episode() -> None:
    failed = EpisodeResult(3, 3, {}, "failed", error=EpisodeError("WorldError", "gone"))
    found = summary([row(0, True), row(1, True), row(2, False), failed], expected=6)
    assert found["n"] == {"expected": 6, "scored": 3, "failed": 1, "missing": 2}
    rate = wilson(2, 3)
    assert (found["success_rate"]["estimate"], found["success_rate"]["low"]) == (rate.estimate, rate.low)
    assert found["success_rate_of_expected"]["estimate"] == 2 / 6  # crashing gains nothing
    assert found["metrics"]["path_length"]["estimate"] == 1.0
    assert found["metrics"]["steps"]["n"] == 3
    assert found["errors"] == {"WorldError": 1}
    assert summary([failed], expected=1)["success_rate"] is None


@given(
    st.lists(
        st.builds(
            row,
            st.integers(0, 99),
            st.booleans(),
            total_reward=st.floats(-9, 9),
            notes=st.lists(st.text(max_size=5)).map(tuple),
            error=st.none() | st.builds(EpisodeError, st.text(max_size=9), st.text(max_size=9)),
        ),
        max_size=3,
    )
)
def test_rows_survive_json(rows: list[EpisodeResult]) -> None:
    for one in rows:
        assert EpisodeResult.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@pytest.mark.parametrize(
    "broken", [{}, {"index": 0}, {"index": 0, "seed": 0, "options": {}, "status": "scored", "x": 1}]
)
def test_what_is_no_row_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="not an episode's row"):
        EpisodeResult.from_dict(broken)


def test_comparable_drops_only_how_it_was_run() -> None:
    assert comparable({"a": 1, "timing": {"s": 2}, "b": [{"execution": 3, "c": 4}]}) == {"a": 1, "b": [{"c": 4}]}


def test_differing_fields_are_dotted() -> None:
    assert differing_fields({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": 4}) == [
        "a.b: 1 -> 3",
        "c: 2 -> (absent)",
        "d: (absent) -> 4",
    ]


# Agents


def test_random_actions_are_within_limits_and_seeded() -> None:
    for spec in (CONTINUOUS, DISCRETE):
        agent = RandomConfig().make(spec)
        observation = Observation.make_example()
        seen = [[agent_act(agent.session("", seed), observation) for _ in range(2)] for seed in (1, 1, 2)]
        assert seen[0] == seen[1] != seen[2]
        values = np.concatenate([agent.session("", seed).act(observation).actions.values for seed in range(200)])
        assert (values >= np.array(spec.low)).all()
        assert (values <= np.array(spec.high)).all()
        assert spec.kind == "continuous" or set(values.ravel().tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}


def agent_act(session: Session, observation: Observation) -> list[float]:
    return [v for _ in range(3) for v in session.act(observation).actions.values.ravel().tolist()]


def test_what_stands_still() -> None:
    assert resting_action(CONTINUOUS) == (0.0, 0.0)
    assert resting_action(ActionSpec(("speed",), ("m/s",), (2.0,), (5.0,), 10.0)) == (2.0,)
    assert resting_action(ActionSpec.discrete(("left", "Idle", "stop"), 5.0)) == (1.0,)
    with pytest.raises(DataError, match="stands still"):
        resting_action(ActionSpec.discrete(("left", "right"), 5.0))
    with pytest.raises(ConfigError, match="2 values"):
        ConstantConfig((0.5,)).make(CONTINUOUS)


def test_an_agent_of_another_world_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind discrete against continuous"):
        check_specs(DISCRETE, CONTINUOUS)
    with pytest.raises(ConfigError, match=r"units .*cm/step"):
        check_specs(replace(CONTINUOUS, units=("cm/step", "m/step")), CONTINUOUS)
    world = ToyConfig().make()
    world.reset(seed=0)
    with pytest.raises(ConfigError):
        open_session(RandomConfig().make(DISCRETE), world, "", 0)


# Films


def read_film(file: Path) -> list[Any]:
    imageio = pytest.importorskip("imageio.v2")
    with imageio.get_reader(file) as reader:
        return [frame for frame in reader]  # noqa: C416 - list() would ask for its length, which is infinite


def test_a_film_shows_every_moment_and_changes_no_result(tmp_path: Path, straight: dict[str, Any]) -> None:
    result = run_rollout(replace(BASE, output=tmp_path, video=2, batch=2))
    assert results_of(result) == straight
    films = sorted(file.name for file in (tmp_path / "videos").iterdir())
    assert films == ["episode-00000.mp4", "episode-00001.mp4"]
    frames = read_film(tmp_path / "videos" / films[0])
    assert len(frames) == result.episodes[0].steps + 1 + CONTINUOUS.control_hz  # and one second of the end
    height, width, _ = frames[0].shape
    assert height % 2 == width % 2 == 0
    assert np.abs(frames[0].astype(int) - frames[3].astype(int)).max() > 50


def test_an_encoder_that_fails_costs_no_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imageio = pytest.importorskip("imageio.v2")

    def no_encoder(*args: Any, **more: Any) -> None:
        raise RuntimeError("no ffmpeg exe could be found")

    monkeypatch.setattr(imageio, "get_writer", no_encoder)
    result = run_rollout(replace(BASE, output=tmp_path, episodes=2, video=ALL_VIDEOS))
    assert result.complete
    assert all("no ffmpeg" in row.notes[0] for row in result.episodes)


def test_a_map_that_cannot_be_drawn_costs_no_episode(
    tmp_path: Path, straight: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_map(self: ToyWorld) -> None:
        raise ValueError("no paper")

    monkeypatch.setattr(ToyWorld, "draw", no_map)
    result = run_rollout(replace(BASE, output=tmp_path, video=1))
    assert result.episodes[0].notes == ("no video: ValueError: no paper",)
    assert results_of(result)["episodes"][1:] == straight["episodes"][1:]
    assert not (tmp_path / "videos").exists()


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=1, max_size=4), st.text(max_size=300))
def test_frames_have_one_even_size(sizes: list[tuple[int, int]], text: str) -> None:
    pictures = {f"camera {i}": np.zeros((*size, 3), np.uint8) for i, size in enumerate(sizes)}
    layout = Layout(pictures)
    caption = Caption(text, text, 3, 10, DISCRETE, [2.0], text, True, text, {"distance": 1.0}, "failed")
    for shown in (pictures, {}):
        frame = layout.compose(shown, caption)
        assert frame.shape == (layout.height, layout.width, 3)
        assert layout.height % 2 == layout.width % 2 == 0


def test_long_thoughts_are_wrapped_and_shortened() -> None:
    lines = wrapped("the door is behind the sofa " * 20, 13, 300, 2)
    assert len(lines) == 2
    assert lines[1].endswith("...")
    assert wrapped("short", 13, 300, 2) == ["short"]
    assert wrapped("", 13, 300, 2) == []
