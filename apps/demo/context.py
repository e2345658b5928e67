"""What every tab of the demo shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.demo.config import DemoConfig
from apps.demo.documents_desk import Desk
from apps.demo.jobs import Jobs
from backbone.vlm import VLM


@dataclass(frozen=True)
class DemoContext:
    """The one loaded model, the settings, and the turn-taking of the model, of worlds, and of documents."""

    vlm: VLM
    config: DemoConfig
    jobs: Jobs
    worlds: Jobs
    documents: Desk = field(default_factory=Desk)
