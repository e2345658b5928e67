"""Rounds of stage 3: each starts from the weights of the one before, and a finished one is not repeated."""

import dataclasses
import json

import pytest
from nav_records import stage_two

from backbone.errors import ConfigError, TrainingError, UnsupportedError
from backbone.local import LocalVLM
from backbone.training import TrainingResult
from navigation import rounds
from navigation.config import DataConfig
from navigation.data import MakingConfig
from navigation.producing import Report
from navigation.records import write_episode
from navigation.rounds import RoundsConfig, run_rounds, told_of
from navigation.train import StageTraining

MAKING = MakingConfig(stage="stage2", data=DataConfig(rounds=3))
LORA = StageTraining(language="lora", tower="frozen", batch=2, accumulate=1)


class Stage:
    """Stands for producing, loading and training; keeps what it was asked."""

    def __init__(self, monkeypatch, made=2, stopped_at=None):
        self.rolled, self.trained, self.made, self.stopped_at = [], [], made, stopped_at
        for name in ("produce", "load", "train_stage"):
            monkeypatch.setattr(rounds, name, getattr(self, name))

    def produce(self, job, episodes, folder, *, workers, progress):
        self.rolled.append((job.round, job.model, job.adapter))
        for number in range(self.made):
            made = stage_two()
            outcome = {"outcome": "success" if number else "timeout"}
            trajectory = dataclasses.replace(made.trajectory, facts={**made.trajectory.facts, **outcome})
            write_episode(dataclasses.replace(made, trajectory=trajectory), folder, number)
        return Report(episodes, self.made, episodes - self.made, 0, 0, {"dropped: too long": episodes - self.made})

    def load(self, model, config, adapter, device):
        return object.__new__(LocalVLM), None

    def train_stage(self, vlm, folders, output, agent, settings, *, record):
        self.trained.append(record)
        stopped = "SIGINT" if record["round"] == self.stopped_at else None
        return TrainingResult(3, 1.0, {}, output / "checkpoint", stopped)


def test_each_round_goes_on_from_the_one_before(tmp_path, monkeypatch):
    stage = Stage(monkeypatch)
    done = run_rounds(RoundsConfig("base", "first", MAKING, LORA, rollouts=4), tmp_path)
    adapters = [str(tmp_path / f"round-{k}" / "training" / "adapter") for k in (1, 2, 3)]
    assert stage.rolled == [(1, "base", "first"), (2, "base", adapters[0]), (3, "base", adapters[1])]
    assert [r["adapter"] for r in stage.trained] == ["first", *adapters[:2]]
    assert [d.adapter for d in done] == adapters
    assert done[0].outcomes == {"timeout": 1, "success": 1}
    assert done[0].looks_per_step == pytest.approx(3 / 7)
    again = run_rounds(RoundsConfig("base", "first", MAKING, LORA, rollouts=4), tmp_path)
    assert again == done
    assert len(stage.rolled) == 3


def test_rounds_may_all_start_from_stage_two(tmp_path, monkeypatch):
    stage = Stage(monkeypatch)
    run_rounds(RoundsConfig("base", "first", MAKING, LORA, rollouts=4, restart=True), tmp_path)
    assert [r[2] for r in stage.rolled] == ["first"] * 3


def test_a_trained_base_is_the_next_rounds_model(tmp_path, monkeypatch):
    stage = Stage(monkeypatch)
    run_rounds(RoundsConfig("base", "", MAKING, dataclasses.replace(LORA, tower="full"), rollouts=4), tmp_path)
    assert stage.rolled[1] == (2, str(tmp_path / "round-1" / "training" / "model"), "")


def test_a_stopped_round_is_gone_on_with(tmp_path, monkeypatch):
    stage = Stage(monkeypatch, stopped_at=2)
    done = run_rounds(RoundsConfig("base", "", MAKING, LORA, rollouts=4), tmp_path)
    assert [d.stopped for d in done] == [None, "SIGINT"]
    stage.stopped_at = None
    assert [d.number for d in run_rounds(RoundsConfig("base", "", MAKING, LORA, rollouts=4), tmp_path)] == [1, 2, 3]
    assert [r[0] for r in stage.rolled] == [1, 2, 2, 3]
    assert json.loads((tmp_path / "round-2" / "round.json").read_text())["stopped"] is None


def test_nothing_to_learn_is_said(tmp_path, monkeypatch):
    Stage(monkeypatch, made=0)
    with pytest.raises(TrainingError, match="none of 4 rollouts"):
        run_rounds(RoundsConfig("base", "", MAKING, LORA, rollouts=4), tmp_path)


def test_a_model_behind_a_server_cannot_be_trained(tmp_path, monkeypatch):
    stage = Stage(monkeypatch)
    monkeypatch.setattr(rounds, "load", lambda *_: (object(), None))
    with pytest.raises(UnsupportedError, match="not local"):
        run_rounds(RoundsConfig("http://x/v1#m", "", MAKING, LORA, rollouts=4), tmp_path)
    assert not stage.trained


def test_looks_are_counted_against_actions(tmp_path):
    made = stage_two()
    facts = {**made.trajectory.facts, "outcome": "success"}
    write_episode(dataclasses.replace(made, trajectory=dataclasses.replace(made.trajectory, facts=facts)), tmp_path, 0)
    assert told_of(tmp_path) == ({"success": 1}, 3 / 7)
    with pytest.raises(ConfigError, match="at least 1"):
        RoundsConfig(rollouts=0)
