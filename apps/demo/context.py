"""What every tab of the demo shares."""

from __future__ import annotations

from dataclasses import dataclass

from apps.demo.config import DemoConfig
from apps.demo.jobs import Jobs
from backbone.vlm import VLM


@dataclass(frozen=True)
class DemoContext:
    """The one loaded model, the settings, and the turn-taking: of the model across all tabs, and of worlds."""

    vlm: VLM
    config: DemoConfig
    jobs: Jobs
    worlds: Jobs
