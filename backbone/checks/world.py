"""``check_world``: what every world must do, as executable checks in the manner of gymnasium's ``check_env``."""

from __future__ import annotations

from collections.abc import Callable

from backbone.checks import world_form as form
from backbone.checks import world_repeats as repeats
from backbone.checks import world_rules as rules
from backbone.checks.report import Check, CheckReport, Finding, run_checks
from backbone.checks.world_probe import WorldProbe
from backbone.worlds.world import WorldConfig


def check_world(
    config: WorldConfig,
    *,
    seed: int = 0,
    index: int = 0,
    steps: int = 12,
    on_finding: Callable[[Finding], None] | None = None,
) -> CheckReport:
    """Check a world against its contract; every finding that failed says what is probably wrong.

    Two episodes are played to their end, others for ``steps`` steps. Pictures and numbers are compared exactly: results
    that do not depend on workers, batches and interruptions need that.

    Raises:
        ConfigError: a negative ``seed`` or ``index``, or too few ``steps`` to see a difference.
    """
    probe = WorldProbe(config, seed, index, steps)
    try:
        return run_checks(f"world {config.world}", CHECKS, probe, mend=probe.close, on_finding=on_finding)
    finally:
        probe.close()


CHECKS: tuple[Check[WorldProbe], ...] = (
    Check("the config is frozen and plain", form.config),
    Check("it opens", form.opens, ground=True),
    Check("a step before a reset is refused", rules.step_before_reset),
    Check("observations are valid and keep their form", form.observations),
    Check("the pictures show something, and it moves", form.pictures),
    Check("observations belong to their receiver", repeats.own_arrays),
    Check("step answers in gymnasium's form", form.answers),
    Check("the same seed gives the same episode", repeats.same_seed),
    Check("other seeds give other episodes", repeats.other_seed),
    Check("an episode does not depend on those before", repeats.history),
    Check("two worlds side by side do not disturb each other", repeats.side_by_side),
    Check("looking changes nothing", repeats.looking),
    Check("impossible actions are refused", rules.refusals),
    Check("step leaves its action alone", rules.action_kept),
    Check("describe is plain", form.describe),
    Check("metrics are finite and agree with info", form.metrics),
    Check("episodes end in time, and stay ended", rules.end),
    Check("draw gives a picture", form.draw),
    Check("the expert acts", rules.expert),
    Check("close may be repeated", rules.close),
)
