"""The checker of policies holds for sound ones, and each check bites on one that is broken in just that way."""

from __future__ import annotations

from typing import Any

import pytest
from broken_policies import BROKEN_POLICIES, BrokenPolicyConfig

from backbone.checks import check_policy
from backbone.errors import ConfigError
from backbone.rollout.agents import ConstantConfig, ExpertConfig, RandomConfig
from tests.toy_world import ToyConfig, ToyPolicyConfig


@pytest.mark.parametrize("agent", [ToyPolicyConfig(), ExpertConfig(), RandomConfig(), ConstantConfig()])
def test_sound_policies_pass(agent: Any) -> None:
    report = check_policy(agent, ToyConfig())
    assert report.ok, report.failed
    assert len(report.findings) == 11


@pytest.mark.parametrize("agent", [ExpertConfig(), RandomConfig(), ConstantConfig()])
def test_sound_policies_pass_with_choices(agent: Any) -> None:
    assert check_policy(agent, ToyConfig(discrete=True)).ok


@pytest.mark.parametrize(("change", "check", "words"), BROKEN_POLICIES, ids=lambda value: str(value)[:32])
def test_a_broken_policy_is_found_out(change: dict[str, Any], check: str, words: str) -> None:
    report = check_policy(BrokenPolicyConfig(**change, noise=0.9), ToyConfig(max_steps=12), seed=9)
    messages = {finding.name: finding.message for finding in report.failed}
    assert words in messages.get(check, f"nothing; failed were {messages}")


def test_every_check_of_a_policy_has_a_policy_that_breaks_it() -> None:
    report = check_policy(RandomConfig(), ToyConfig())
    covered = {check for _, check, _ in BROKEN_POLICIES} | {"it is made"}
    assert covered == {finding.name for finding in report.findings}


def test_an_agent_that_cannot_be_made_says_why() -> None:
    report = check_policy(ConstantConfig((1.0, 2.0, 3.0)), ToyConfig())
    assert "needs 2 values" in report.failed[0].message
    assert {f.message for f in report.unchecked} == {"not checked, because of 'it is made'"}


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"steps": 1}])
def test_settings_with_which_nothing_can_be_checked_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        check_policy(RandomConfig(), ToyConfig(), **wrong)
