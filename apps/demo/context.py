"""What every tab of the demo shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.demo.config import DemoConfig
from apps.demo.documents_desk import Desk
from apps.demo.jobs import Jobs
from apps.demo.navigate_pilot import Pilot
from backbone.vlm import VLM


@dataclass(frozen=True)
class DemoContext:
    """The one loaded model, the settings, the turn-taking of model, worlds and documents, and the model that steers."""

    vlm: VLM
    config: DemoConfig
    jobs: Jobs
    worlds: Jobs
    documents: Desk = field(default_factory=Desk)
    pilot: Pilot = field(default_factory=Pilot)
