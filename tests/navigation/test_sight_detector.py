"""Shipped adapters by name, and the tower's classes as a detector."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from assets import NAVIGATION
from backbone.errors import ConfigError, DataError, ModelError
from navigation.agent_config import HydraConfig, load, resolved_adapter
from navigation.config import NavigationConfig
from navigation.frontier import FrontierConfig
from navigation.sight_detector import SightDetector
from navigation.sight_heads import CLASS_OF, HEADS_FILE, SightHeads
from navigation.worlds.rooms import RoomsConfig

NANO = NavigationConfig.preset("nano")


@pytest.fixture(scope="module")
def sighted():
    vlm, name = load("nano", NANO, "sight", "cpu")
    return SightDetector(vlm, name, NAVIGATION / "sight", NANO)


def test_adapters_have_names(tmp_path):
    assert resolved_adapter("nano", "sight") == str(NAVIGATION / "sight")
    assert resolved_adapter("nano", "") == ""
    assert resolved_adapter("nano", str(tmp_path)) == str(tmp_path)
    assert resolved_adapter("Qwen/Qwen3-VL-4B-Instruct", "auto") == ""
    assert resolved_adapter("nano", "auto", "sight") == str(NAVIGATION / "sight")
    with pytest.raises(ConfigError, match="trained on nano"):
        resolved_adapter("Qwen/Qwen3-VL-4B-Instruct", "sight")
    with pytest.raises(ConfigError, match="whole model"):
        load("Qwen/Qwen3-VL-4B-Instruct", NANO, str(NAVIGATION / "stage2"), "cpu")
    with pytest.raises(ConfigError, match="not to act"):
        HydraConfig(adapter="sight", device="cpu").make(RoomsConfig().make().action_spec)
    with pytest.raises(ConfigError, match="no shipped name"):
        load("nano", NANO, "sigth", "cpu")


def test_the_shipped_tower_knows_what_it_sees(sighted):
    """On homes that training never used: kinds of cells by the simulator's labels."""
    from navigation.glimpse_maps import IGNORE, maps
    from navigation.glimpses import glimpse

    right = known = 0
    things = {"right": 0, "known": 0}
    for seed in range(40):
        shown = glimpse(np.random.default_rng([7, seed]), (NANO.width, NANO.height), split="val")
        labels = maps(shown)["kind"]
        told = sighted.chances(shown.rgb).argmax(-1)
        right += int((told == labels)[labels != IGNORE].sum())
        known += int((labels != IGNORE).sum())
        thing = (labels != IGNORE) & (labels > 5)
        things["right"] += int((told == labels)[thing].sum())
        things["known"] += int(thing.sum())
    assert right / known > 0.8
    assert things["right"] / things["known"] > 0.5  # of some forty kinds


def test_the_middle_of_the_chosen_cells_is_the_mask(sighted, monkeypatch):
    chances = np.zeros((4, 5, len(CLASS_OF)), np.float32)
    chances[..., 0] = 1.0
    chances[1, 2] = 0.0
    chances[1, 2, CLASS_OF["bed"]] = 0.7
    monkeypatch.setattr(sighted, "chances", lambda frame: chances)
    world = RoomsConfig(width=320, height=256).make()
    observation, _ = world.reset(seed=1)
    world.close()
    mask = sighted(observation, "bed")
    assert mask.shape == (256, 320)
    rows, columns = np.nonzero(mask)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (80, 111, 144, 175)
    assert sighted(observation, "chair") is None
    chances[1, 2, CLASS_OF["bed"]] = 0.5
    assert sighted(observation, "bed") is None
    with pytest.raises(DataError, match="no class 'unicorn'"):
        sighted(observation, "unicorn")


def test_wrong_classifiers_are_refused(sighted, tmp_path):
    with pytest.raises(ModelError, match="no classifiers"):
        SightDetector(sighted._vlm, None, tmp_path, NANO)
    other = SightHeads(7)
    save_file(dict(other.state_dict()), tmp_path / HEADS_FILE)
    with pytest.raises(ModelError, match="no classifiers"):
        SightDetector(sighted._vlm, None, tmp_path, NANO)
    with pytest.raises(ConfigError, match="least"):
        SightDetector(sighted._vlm, None, NAVIGATION / "sight", NANO, least=0.0)


def test_the_explorer_can_use_it(sighted):
    world = RoomsConfig(width=160, height=128, depth=True, pose_in_state=True, split="val").make()
    agent = FrontierConfig(detector="sight", device="cpu").make(world.action_spec)
    assert not agent.privileged
    observation, _ = world.reset(seed=3)
    session = agent.session(observation.instruction, 0)
    with torch.no_grad():
        for _ in range(14):
            decision = session.act(observation)
            observation, *_ = world.step(decision.actions.values[0])
    assert session.map.cells.any()
    world.close()
