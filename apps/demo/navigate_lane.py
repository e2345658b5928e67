"""One contender's episode in the Navigate tab: plays it step by step and keeps what the page shows of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apps.demo.navigate_choices import Contender, NavigateRequest
from apps.demo.navigate_map import GrowingMap, Mark, Phase
from apps.demo.navigate_pilot import Steering
from backbone.contracts import ActionSpec, Agent, Decision, Image
from backbone.errors import CancelledError
from backbone.rollout.config import Episode
from backbone.rollout.episode import EpisodeRun, EpisodeSettings, Moment
from backbone.rollout.results import EpisodeResult
from navigation.agent import HydraAgent
from navigation.agent_config import HydraConfig
from navigation.decisions import NavigationDecision, ThoughtPiece
from navigation.looking import Views, panorama_of
from navigation.parsing import clean_thought
from navigation.playing import absolute
from navigation.records import Pose
from navigation.worlds.navigation_world import LOOK_AROUND, heading_of

HALF_TAG = re.compile(r"<[a-z_]*$")  # at the end of what was written so far
LOOKING = "look around"  # the frontier agent's word for its turns at the start


@dataclass(frozen=True)
class Thought:
    """A thought at the landmark with this number; ``action`` is what it ended in, empty while it is written."""

    number: int
    why: str = ""
    text: str = ""
    action: str = ""
    repaired: bool = False


@dataclass(frozen=True)
class Counts:
    """What was done so far. Seconds of thinking are those measured here."""

    steps: int = 0
    moves: int = 0
    turns: int = 0
    looks: int = 0
    thinking_s: float = 0.0
    encoded: int = 0
    written: int = 0


@dataclass(frozen=True, eq=False)
class Pictures:
    """What the camera shows ahead, the four views of the newest look around, and the map."""

    ahead: Image
    around: Views | None
    drawing: Image


@dataclass(frozen=True)
class LaneShown:
    """One moment of a lane, independent of its world. ``measures`` are those of the episode so far."""

    contender: Contender
    instruction: str
    pictures: Pictures
    phase: Phase
    counts: Counts
    measures: Mapping[str, float]
    max_steps: int
    thoughts: tuple[Thought, ...]  # oldest first
    ended: bool
    success: bool


@dataclass
class _Course:
    """What happened so far."""

    way: list[Mark] = field(default_factory=list)
    landmarks: list[tuple[float, float]] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    phase: Phase = "fast"
    around: Views | None = None
    why: str = ""  # of the newest look around
    writing: str | None = None  # the thought that is being written


class Lane:
    """Opens a world and an agent; ``tell`` is called at every piece of a thought."""

    def __init__(
        self,
        request: NavigateRequest,
        contender: Contender,
        hydra: HydraConfig,
        steering: Steering,
        stop: threading.Event,
        tell: Callable[[], None],
    ) -> None:
        """Nothing happens before `start`."""
        self.contender = contender
        self._stop, self._tell = stop, tell
        self._request, self._hfov = request, hydra.navigation().hfov_deg
        self._course = _Course()
        self._pictures: Pictures | None = None
        self._moment: Moment | None = None
        config = contender.agent(hydra)
        self._world = request.world_for(config, hydra).make()
        try:
            spec = self._world.action_spec
            made = self._hydra(config, spec, steering) if isinstance(config, HydraConfig) else config.make(spec)
        except BaseException:
            self._world.close()
            raise
        episode = Episode(request.start, request.start, {})
        settings = EpisodeSettings(max_steps=request.max_steps)
        self._run = EpisodeRun(self._world, made, episode, settings, (self._watch,))

    def _hydra(self, config: HydraConfig, spec: ActionSpec, steering: Steering) -> Agent:
        return HydraAgent(
            steering.vlm,
            spec,
            config.navigation(),
            config.switch(),
            adapter=steering.adapter,
            cached=config.cached,
            cancel=self._stop,
            on_thought=self._written,
        )

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._run.ended

    def start(self) -> None:
        """Reset the world and look for the first time."""
        self._run.start()

    def step(self) -> None:
        """Decide and act once. Raises `CancelledError` once it was stopped."""
        if self._run.wants_decision:
            self._run.decide()
        self._check()
        self._run.step()

    def finish(self) -> EpisodeResult:
        """The row of the ended episode."""
        return self._run.finish()

    def close(self) -> None:
        """Close session and world; in the thread that opened them, which OpenGL wants."""
        try:
            self._run.close()
        finally:
            self._world.close()

    def shown(self) -> LaneShown:
        """This moment; the pictures are drawn only where they have changed."""
        moment, course = self._moment, self._course
        assert moment is not None  # noqa: S101 - for the type checker: started before it is shown
        if self._pictures is None:
            drawing = self._map.draw(course.way, course.landmarks, self._pose)
            ahead = next(iter(moment.observation.images.values())).copy()
            self._pictures = Pictures(ahead, course.around, drawing)
        thoughts = tuple(course.thoughts)
        if course.writing is not None:
            number = len(course.landmarks)
            thoughts += (Thought(number, course.why, clean_thought(HALF_TAG.sub("", course.writing))),)
        return LaneShown(
            self.contender,
            moment.observation.instruction,
            self._pictures,
            course.phase,
            course.counts,
            dict(self._world.metrics()),
            self._request.max_steps,
            thoughts,
            self.ended,
            bool(moment.info.get("success", False)),
        )

    def _check(self) -> None:
        if self._stop.is_set():
            raise CancelledError("stopped")

    def _written(self, piece: ThoughtPiece) -> None:
        course = self._course
        course.phase = "slow"
        course.writing = (course.writing or "") + piece.text
        self._tell()

    def _watch(self, moment: Moment) -> None:
        self._check()
        self._pictures, self._moment = None, moment
        course, observation = self._course, moment.observation
        if moment.step == 0:
            told = self._world.describe()
            x, _, z = told["position"]
            self._start: Pose = (float(x), float(z), heading_of(tuple(told["rotation_xyzw"])))
            self._map = GrowingMap(self._request.scene(), self._request.category, self._start, self._hfov)
        self._pose = absolute(self._start, observation)
        looked = False
        if moment.action is not None and moment.decision is not None:
            name = moment.world.action_spec.choices[int(moment.action[0])]
            looked = name == LOOK_AROUND
            course.counts = counted(course.counts, name, moment.decision)
            course.phase = phase_of(moment.decision)
            course.way.append(Mark(self._pose[0], self._pose[1], course.phase))
            self._note_look(moment.decision, panorama_of(observation.images) if looked else None)
            self._note_thought(moment.decision)
        self._map.see(self._pose, around=looked)

    def _note_look(self, decision: Decision, views: Views | None) -> None:
        if views is None:
            return
        course = self._course
        course.around = views
        course.landmarks.append(self._pose[:2])
        course.why = getattr(decision, "why", None) or ""

    def _note_thought(self, decision: Decision) -> None:
        """What was written stays where no thought could be read out of it."""
        course = self._course
        written, course.writing = course.writing or "", None
        if isinstance(decision, NavigationDecision) and decision.mode == "slow":
            text = decision.thought or clean_thought(written)
            number = len(course.landmarks)
            course.thoughts.append(Thought(number, course.why, text, decision.action, bool(decision.notes)))


def phase_of(decision: Decision) -> Phase:
    """How a decision came about: thought about, by looking around, or at once."""
    if isinstance(decision, NavigationDecision):
        return "looking" if decision.mode in ("obs", "looking") else "slow" if decision.mode == "slow" else "fast"
    return "looking" if decision.status == LOOKING else "fast"


def counted(counts: Counts, action: str, decision: Decision) -> Counts:
    """``counts`` with one more step."""
    total = decision.ledger.total()
    added: dict[str, Any] = {
        "steps": counts.steps + 1,
        "moves": counts.moves + (action == "move_forward"),
        "turns": counts.turns + (action in ("turn_left", "turn_right")),
        "looks": counts.looks + (action == LOOK_AROUND),
        "thinking_s": counts.thinking_s + total.milliseconds / 1000,
        "encoded": counts.encoded + total.prompt_tokens,
        "written": counts.written + total.generated_tokens,
    }
    return replace(counts, **added)
