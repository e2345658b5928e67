"""Executable specifications: what a world, a policy or a server must do, and what is wrong where it does not."""

from backbone.checks.policy import check_policy
from backbone.checks.report import CheckReport, Finding
from backbone.checks.world import check_world

__all__ = ["CheckReport", "Finding", "check_policy", "check_world"]
