"""Hydra-Nav's agent: one model that thinks slowly where it looks around and acts fast in between (section 2).

A cycle is one conversation over one prefix. Its first turn shows the memory and the present view and is answered with a
thought and an action (slow); every further turn shows one frame and is answered with one action (fast). ``obs`` ends
the cycle: the robot looks around, the place becomes a landmark, and the next cycle starts with an empty context.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, Image, Ledger, Observation, Session
from backbone.errors import DataError, UnsupportedError, WorldError
from backbone.rollout.agents import CLOSED
from backbone.vlm import VLM
from navigation import prompts
from navigation.actions import ALL, END, LEFT, MOTOR, MOTOR_OR_END, MOVE, OBS, RIGHT, ActionMap
from navigation.config import NavigationConfig
from navigation.decisions import Mode, NavigationDecision, ThoughtPiece
from navigation.looking import Look, Views, fitted, front_of
from navigation.memory import Landmark, Memory
from navigation.parsing import parse_action, split_thought
from navigation.switching import Switch, SwitchConfig, Why
from navigation.talking import Add, Asking, Begin, Choose, LogProbs, Speaker, Talk, Write

STREAM = 0x4A5  # keeps the decoding's dice apart from a world's with the same seed
RETRY_TEMPERATURE = 0.7  # a second thought that differs from the first
REPLY_ROOM = 32  # tokens of a slow reply beside its thought: tags and action
TURN_ROOM = 64  # tokens of a fast turn beside its picture
FALLBACK = LEFT  # what is done after replies nobody can read: it bumps into nothing and shows something new


class HydraAgent:
    """Weights and settings, shareable between sessions."""

    def __init__(
        self,
        vlm: VLM,
        spec: ActionSpec,
        config: NavigationConfig | None = None,
        switch: SwitchConfig | None = None,
        *,
        adapter: str | None = None,
        cached: bool = True,
        cancel: threading.Event | None = None,
        on_thought: Callable[[ThoughtPiece], None] | None = None,
    ) -> None:
        """An agent for worlds with ``spec``.

        Args:
            vlm: local weights; an engine without prefixes works too, with everything encoded at every step.
            spec: the world's actions; with ``look_around`` among them a look takes one, without it twelve turns.
            config: sizes, limits and prompts; nano's preset by default.
            switch: when to think; by default the model decides.
            adapter: name of an attached adapter.
            cached: False encodes every conversation anew, for comparison.
            cancel: set it to end a thought within one token; the step raises `CancelledError`.
            on_thought: is told every piece of a thought as it is written.

        Raises:
            ConfigError: the world's actions are not those of navigation.
            UnsupportedError: the rule needs probabilities, which this engine does not give.
        """
        self.spec = spec
        self.vlm, self.adapter = vlm, adapter
        self.config = config or NavigationConfig.preset("nano")
        self.switch = switch or SwitchConfig()
        self.actions = ActionMap.of(spec)
        self.speaker = Speaker.of(vlm, adapter, cached, cancel)
        self.on_thought = on_thought
        if self.switch.needs_probability and not self.speaker.knows_probabilities:
            raise UnsupportedError(
                f"{vlm.name}: a threshold needs the probability of obs, which this engine does not give; "
                "load local weights, or use strategy learned"
            )
        if self.config.end_confidence > 0 and not self.speaker.knows_probabilities:
            raise UnsupportedError(
                f"{vlm.name}: end_confidence {self.config.end_confidence:g} needs the probability of end, known "
                "with local weights and prefixes (cached) only; use those, or end_confidence 0"
            )

    def session(self, instruction: str, seed: int) -> HydraSession:
        """Start an episode."""
        return HydraSession(self, instruction, seed)

    def act_many(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        """Decide for several episodes together, whatever each of them is at; the same as each session's own ``act``.

        Raises:
            WorldError: a session is closed, before any of the others did anything.
            DataError: a session is not of this agent, or there is not one observation for each.
        """
        own = [s for s in sessions if isinstance(s, HydraSession) and s.agent is self]
        if len(own) != len(sessions) or len(observations) != len(sessions) or len(set(own)) != len(own):
            raise DataError(
                f"act_many: expected different sessions of this agent with one observation each, got {len(sessions)} "
                f"sessions, {len(set(own))} different ones of this agent, and {len(observations)} observations"
            )
        for session in own:
            session.check_open()
        pairs = zip(own, observations, strict=True)
        return list(self.speaker.drive([session.step(observation) for session, observation in pairs]))


class HydraSession:
    """One episode: its memory, its conversation, and where in the cycle it is."""

    def __init__(self, agent: HydraAgent, instruction: str, seed: int) -> None:
        """Nothing seen yet."""
        self.agent, self._config = agent, agent.config
        self._task, self._seed = instruction, seed
        self._switch = Switch(agent.switch, agent.config, seed)
        self._generator = np.random.default_rng((STREAM, seed))
        self.memory = Memory(agent.config.memory_limit)
        self._way: list[str] = []  # motor actions since the newest landmark
        self._steps = 0  # motor actions since the start
        self._since = 0  # actions since the last look around
        self._talk: Talk | None = None
        self._reply = ""  # what the conversation's last turn was answered with
        self._turns = 0  # fast turns of this conversation
        self._look: Look | None = None
        self._why: Why = "start"
        self._seen: Image | None = None  # the last picture that was acted on
        self._ahead: Image | None = None  # the same, if what was done was a step ahead
        self._asked = False
        self._closed = False

    def act(self, observation: Observation) -> NavigationDecision:
        """Decide for one observation; the pictures of a look around follow the action that asked for them."""
        self.check_open()
        return self.agent.speaker.drive([self.step(observation)])[0]

    def check_open(self) -> None:
        """Raise `WorldError` if the session is closed."""
        if self._closed:
            raise WorldError(CLOSED)

    def step(self, observation: Observation) -> Asking[NavigationDecision]:
        """`act` as a generator of what it asks of the model."""
        if self._look is not None:
            found = self._look.feed(observation)
            if isinstance(found, str):
                return self._decided(found, "looking", why=self._why)
            self._look = None
            return (yield from self._slow(found))
        why = self._due(observation)
        return self._begin_look(observation, why) if why is not None else (yield from self._fast(observation))

    def ask_to_think(self) -> None:
        """Look around and think at the next step, whatever the rule says (as stagnation does in rollouts)."""
        self._asked = True

    def close(self) -> None:
        """Release the conversation."""
        self._closed = True
        self._talk = None

    # Looking

    def _due(self, observation: Observation) -> Why | None:
        if not self.agent.switch.thinks:
            return None
        if not self.memory.landmarks:
            return "start"
        if self._asked:
            return "asked"
        if self._blocked(observation):
            return "blocked"
        why = self._switch.before(self._since)
        return why if why is not None or self._fits() else "context"

    def _blocked(self, observation: Observation) -> bool:
        """Whether the last action was a step ahead that changed nothing in the picture."""
        config = self._config
        if self._ahead is None or config.blocked_change == 0:
            return False
        now = fitted(front_of(observation), config.width, config.height).astype(np.int16)
        return float(np.abs(now - self._ahead).mean()) < config.blocked_change

    def _fits(self) -> bool:
        """Whether one more fast turn has room in the context."""
        config = self._config
        room = self.agent.vlm.visual_tokens(config.width, config.height) + TURN_ROOM
        return self._talk is None or self._talk.length + room <= config.context_tokens

    def _begin_look(self, observation: Observation, why: Why, notes: tuple[str, ...] = ()) -> NavigationDecision:
        self._look, self._why, self._asked = Look(self.agent.actions), why, False
        return self._decided(self._look.first(observation), "obs", why=why, notes=notes)

    # Slow

    def _slow(self, views: Views) -> Asking[NavigationDecision]:
        """A new landmark, a new conversation, a thought and an action."""
        config = self._config
        ahead, left, behind, right = (fitted(view, config.width, config.height) for view in views)
        self.memory = self.memory.add(Landmark((ahead, left, behind, right), self._steps), self._way)
        self._way, self._since = [], 0
        messages = prompts.cycle_messages(self._task, self.memory, ahead, config)
        self._talk = talk = yield Begin(messages, "reading")
        self._turns, self._seen = 0, ahead
        thought, action, notes = yield from self._think(talk)
        if self._why == "blocked" and action == MOVE:
            action, notes = self._aside(thought), (*notes, "ahead is blocked: a turn instead")
        self._reply = prompts.slow_reply(thought, action)
        return self._moved(action, "slow", why=self._why, thought=thought, notes=notes)

    def _think(self, talk: Talk) -> Asking[tuple[str, str, tuple[str, ...]]]:
        """A thought, the action that follows it, and what had to be repaired."""
        config = self._config
        thought, notes = "", list[str]()
        for attempt in range(config.slow_retries + 1):
            temperature = config.temperature if attempt == 0 else max(config.temperature, RETRY_TEMPERATURE)
            seed = int(self._generator.integers(2**31)) if temperature > 0 else 0
            limit = config.thought_tokens + REPLY_ROOM
            generation = yield Write(talk, limit, temperature, seed, self._listener(), "thinking")
            thought, rest = split_thought(generation.texts[0])
            parsed = parse_action(rest)
            if parsed.action is not None and parsed.action in MOTOR_OR_END:
                return thought, parsed.action, (*notes, parsed.note) if parsed.note else tuple(notes)
            notes.append(f"thought without an action: {parsed.note or parsed.action}")
            if not generation.finished[0]:
                break  # too long: another one would be so as well
        return thought, (yield from self._pick(talk, MOTOR_OR_END)), tuple(notes)

    def _aside(self, thought: str) -> str:
        """The turn to the side that a thought names last; by the dice where it names none."""
        named = re.findall(r"\b(left|right)\b", thought.lower())
        return {"left": LEFT, "right": RIGHT}[named[-1] if named else str(self._generator.choice(("left", "right")))]

    def _pick(self, talk: Talk, choices: Sequence[str]) -> Asking[str]:
        if not self._config.constrained:
            return FALLBACK
        choice = yield Choose(talk, choices, self._config.temperature, self._generator)
        share = choice.log_probs.get(END) if choice.text == END else None
        if share is not None and np.exp(share) < self._config.end_confidence:
            others = [c for c in choices if c != END]
            choice = yield Choose(talk, others, self._config.temperature, self._generator)
        return str(choice.text)

    def _listener(self) -> Callable[[str], None] | None:
        tell = self.agent.on_thought
        if tell is None:
            return None
        landmark = len(self.memory.landmarks)
        return lambda text: tell(ThoughtPiece(self._seed, landmark, text))

    # Fast

    def _fast(self, observation: Observation) -> Asking[NavigationDecision]:
        """One frame, one action."""
        talk = yield from self._see(observation)
        notes: tuple[str, ...] = ()
        log_obs = (yield LogProbs(talk, ALL)).get(OBS) if self.agent.switch.thinks else None
        probability = None if log_obs is None else float(np.exp(log_obs))
        why = self._switch.after(log_obs, self._since)
        action = OBS
        if why is None:
            action, notes = yield from self._choose(talk, ALL if self._switch.policy_may else MOTOR_OR_END)
            why = "policy" if action == OBS else None
        if why is not None:
            return replace(self._begin_look(observation, why, notes), obs_probability=probability)
        self._reply = prompts.fast_reply(action)
        return self._moved(action, "fast", probability=probability, notes=notes)

    def _see(self, observation: Observation) -> Asking[Talk]:
        """The conversation with the present frame as its last turn."""
        config = self._config
        self._seen = frame = fitted(front_of(observation), config.width, config.height)
        full = not self.agent.switch.thinks and (self._turns >= config.window or not self._fits())
        if self._talk is None or full:
            talk: Talk = yield Begin(prompts.base_messages(self._task, frame, config), "reading")
            self._talk, self._turns = talk, 0
        else:
            talk = self._talk
            yield Add(talk, [prompts.reply_turn(self._reply), prompts.fast_turn(frame)], "seeing")
        self._turns += 1
        return talk

    def _choose(self, talk: Talk, choices: Sequence[str]) -> Asking[tuple[str, tuple[str, ...]]]:
        """The reply of a fast turn, and what had to be repaired."""
        config = self._config
        if config.constrained:
            return (yield from self._pick(talk, choices)), ()
        notes = []
        for attempt in range(config.fast_retries + 1):
            temperature = config.temperature if attempt == 0 else max(config.temperature, RETRY_TEMPERATURE)
            seed = int(self._generator.integers(2**31)) if temperature > 0 else 0
            generation = yield Write(talk, REPLY_ROOM, temperature, seed, None, "choosing")
            parsed = parse_action(generation.texts[0])
            notes += [parsed.note] if parsed.note else []
            if parsed.action is not None and parsed.action in choices:
                return parsed.action, tuple(notes)
        return FALLBACK, (*notes, f"unreadable {config.fast_retries + 1} times: {FALLBACK} instead")

    # Decisions

    def _moved(
        self,
        action: str,
        mode: Mode,
        *,
        why: Why | None = None,
        thought: str = "",
        probability: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> NavigationDecision:
        self._since += 1
        self._ahead = self._seen if action == MOVE else None
        if action in MOTOR:
            self._way.append(action)
            self._steps += 1
        decision = self._decided(action, mode, why=why, thought=thought, notes=notes)
        return replace(decision, obs_probability=probability)

    def _decided(
        self,
        action: str,
        mode: Mode,
        *,
        why: Why | None = None,
        thought: str = "",
        notes: tuple[str, ...] = (),
    ) -> NavigationDecision:
        spent = self._talk.spent() if self._talk is not None else ()
        reason = why or ""
        if mode == "slow":
            spent = tuple(replace(s, reasoned=s.name == "thinking", reason=reason) for s in spent)
        chunk = ActionChunk(np.array([[self.agent.actions.index(action)]], np.float32), self.agent.spec)
        status = f"obs: {why}" if mode == "obs" else mode
        return NavigationDecision(
            chunk,
            Ledger(spent),
            thought,
            status + (", repaired" if notes else ""),
            action,
            mode,
            why,
            None,
            len(self.memory.landmarks),
            self._talk.length if self._talk is not None else 0,
            notes,
        )
