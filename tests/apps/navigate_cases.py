"""Runs of the Navigate tab and what they show, for its tests."""

from __future__ import annotations

import re
from typing import Any

from apps.demo.config import DemoConfig
from apps.demo.context import DemoContext
from apps.demo.jobs import Jobs
from apps.demo.navigate_choices import (
    NavigateRequest,
    read_request,
)
from apps.demo.navigate_pilot import Pilot
from apps.demo.navigate_run import run_navigation
from backbone.vlm import VLM
from navigation.agent_config import HydraConfig
from tests.apps.fakes import ScriptedVLM

FAST, WATCHED = "full speed", "10 steps a second"
THOUGHT = "The <door> to the left was not tried yet, so I go there."
SPOKEN = f"<think_start>{THOUGHT}<think_end>\nMoveAhead 0.25"
HOME = 3


def context_of(vlm: VLM | None = None, hydra: HydraConfig | None = None, turns: int = 2) -> DemoContext:
    """A model that always walks on, and thinks of doors."""
    model = vlm or ScriptedVLM(step_s=0.0, answer=SPOKEN)
    return DemoContext(model, DemoConfig(), Jobs(60), Jobs(60, turns=turns), pilot=Pilot(hydra or HydraConfig()))


def ask(*ways: tuple[str, float | None], limit: int = 12, pace: str = FAST, **changes: Any) -> NavigateRequest:
    given = {"world": "rooms", "home": HOME, "category": "bed", "start": 1, **changes}
    return read_request(**given, ways=ways, max_steps=limit, pace=pace)


def run(context: DemoContext, request: NavigateRequest, owner: str = "me") -> list[dict[str, Any]]:
    """All updates by name; what stayed as it was is left out."""
    return [named(values) for values in run_navigation(context, owner, lambda: request)]


def named(values: tuple[Any, ...]) -> dict[str, Any]:
    pairs = zip(("status", "view", "thoughts", "results"), values, strict=True)
    return {name: value for name, value in pairs if isinstance(value, str)}


def last(updates: list[dict[str, Any]], name: str) -> str:
    return str(next(update[name] for update in reversed(updates) if name in update))


def cells(results: str) -> dict[str, list[str]]:
    """The table of measures by row."""
    rows = re.findall(r'<tr data-measure="([^"]+)">(.*?)</tr>', results)
    return {name: re.findall(r"<td[^>]*>([^<]*)</td>", row) for name, row in rows}
