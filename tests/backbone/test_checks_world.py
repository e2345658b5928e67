"""The checker of worlds holds for a sound world, and each check bites on one that is broken in just that way."""

from __future__ import annotations

import pytest
from broken_worlds import BROKEN_WORLDS, ArrayOptionsConfig, BrokenConfig, ThawedConfig

from backbone.checks import check_world
from backbone.errors import ConfigError
from tests.toy_world import ToyConfig


@pytest.mark.parametrize("discrete", [False, True])
def test_a_sound_world_passes(discrete: bool) -> None:
    report = check_world(ToyConfig(discrete=discrete))
    assert report.ok, report.failed
    assert len(report.findings) == 20


@pytest.mark.parametrize(("kind", "check", "words"), BROKEN_WORLDS, ids=lambda value: str(value).replace(" ", "-")[:24])
def test_a_broken_world_is_found_out(kind: str, check: str, words: str) -> None:
    report = check_world(BrokenConfig(kind=kind, max_steps=15), seed=1)
    messages = {finding.name: finding.message for finding in report.failed}
    assert words in messages.get(check, f"nothing; failed were {messages}")


def test_a_fractional_choice_is_found_out() -> None:
    report = check_world(BrokenConfig(kind="Rounding", max_steps=15, discrete=True), seed=1)
    assert [f.name for f in report.failed] == ["impossible actions are refused"]
    assert "fractional choice is accepted" in report.failed[0].message


def test_configs_that_cannot_travel_are_found_out() -> None:
    for config, words in ((ThawedConfig(), "frozen"), (ArrayOptionsConfig(), "options are not plain")):
        report = check_world(config)
        assert words in report.failed[0].message


def test_every_check_of_a_world_has_a_world_that_breaks_it() -> None:
    report = check_world(ToyConfig())
    covered = {check for _, check, _ in BROKEN_WORLDS} | {"the config is frozen and plain"}
    assert covered == {finding.name for finding in report.findings}


def test_a_world_that_cannot_be_opened_says_so_once_and_nothing_else_is_checked() -> None:
    report = check_world(ToyConfig(broken=True))
    assert [f.name for f in report.failed] == ["it opens"]
    assert "close may be repeated" in {f.name for f in report.unchecked}
    assert not report.ok
    assert "buy another one" in report.failed[0].message
    assert {f.message for f in report.unchecked} == {"not checked, because of 'it opens'"}


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"index": -1}, {"steps": 1}])
def test_settings_with_which_nothing_can_be_checked_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        check_world(ToyConfig(), **wrong)
