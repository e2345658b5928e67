from dataclasses import replace

import pytest

from backbone.errors import ConfigError
from perception.config import PRESETS, PerceptionConfig


def test_defaults_are_the_papers() -> None:
    config = PerceptionConfig()
    assert (config.regime, config.fusion_iou, config.temperature, config.longest) == (256, 0.5, 0.7, 256)
    assert (config.crop_cap, replace(config, regime="full").crop_cap) == (512, 1024)
    assert replace(config, regime="full").longest is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "fast"}, {"regime": 128}, {"regime": True}, {"rollouts": 0}, {"rollouts": 4, "temperature": 0.0},
        {"temperature": float("nan")}, {"fusion_iou": 0.0}, {"fusion_iou": 1.5}, {"box_expand": 0.5},
        {"max_crops": 0},
        {"crop_longest": 100}, {"zoom_expand": 0.5}, {"zoom_prompt": "long"},
        {"min_side": 2.5}, {"max_answer_tokens": -1},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as error:
        PerceptionConfig(**wrong)  # type: ignore[arg-type]
    assert str(next(iter(wrong.values()))) in str(error.value)


def test_presets() -> None:
    assert {"nano", "qwen3-vl-4b", "qwen2.5-vl-3b"} <= set(PRESETS)
    with pytest.raises(ConfigError, match="did you mean 'qwen3-vl-4b'"):
        PerceptionConfig.preset("qwen3-vl-4")
