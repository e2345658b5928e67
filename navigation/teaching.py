"""Thoughts from a large model: two calls for each slow turn, and a filter against what it must not tell (section 4.3).

The first call summarises where the robot has been, from all past landmarks and the actions between them. The second
plans, and is shown one picture more than the robot has: where it will be next. It has to reason as though it had not
seen it, and what speaks of it all the same is thrown away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backbone.contracts import Image
from backbone.errors import ConfigError
from backbone.vlm import VLM, Message
from navigation.memory import Memory, edge_text
from navigation.prompts import THINK_END, THINK_START
from navigation.records import Recorded, with_thoughts

# What gives away that the picture of what comes next was used.
_PICTURE = r"(image|picture|view|photo|panorama)"
LEAKS = re.compile(
    rf"\bfuture\b|\b(fifth|last|final|extra|additional|next) {_PICTURE}\b|\b{_PICTURE} (5|five)\b"
    r"|\bground[- ]truth\b|\boracle\b|\bhindsight\b|\bwill (later|then) (see|find)\b",
    re.IGNORECASE,
)
SUMMARISE = (
    "These are the places where a robot looked around in a home while it searched, oldest first, each with its views "
    "ahead, left, behind and right, and the actions that led from one to the next. In one paragraph, say which areas "
    "it has explored and what it found there. Begin with the first area; write nothing before or after."
)
PLAN = (
    "A robot has to {task}. What it explored so far: {summary}\n"
    "Four pictures show what it sees now: ahead, left, behind, right. A fifth one shows where it really goes next; "
    "the robot cannot see it. Write what the robot should think: first 'Visual analysis:', what the four pictures "
    "hold, then 'High-level plan:', where to go. Use the fifth picture only to settle on the right direction. Reason "
    "as though it did not exist, and never speak of it. Give the summary as a reason for going somewhere new or for "
    "turning back. At most 150 words."
)
JUDGE = (
    "A robot sees four pictures: ahead, left, behind and right. Here is what it thought:\n{thought}\n"
    "Does the thought tell of anything that cannot be known from these four pictures and from its memory of earlier "
    "places, such as what lies in rooms it has not seen? Answer yes or no."
)


def leaks(thought: str) -> bool:
    """Whether a thought speaks of what the robot cannot have seen, by its words."""
    return LEAKS.search(thought) is not None


@dataclass(frozen=True)
class TeachingConfig:
    """How the teacher is asked."""

    tokens: int = 400  # longest reply of each call; OUR CHOICE: thoughts of about 250
    attempts: int = 2  # OUR CHOICE: sampled anew when one is thrown away
    temperature: float = 0.7
    judge: bool = True  # OUR CHOICE: the teacher is also asked whether the thought tells too much
    memory_limit: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.attempts < 1 or self.memory_limit < 1 or not 0 <= self.temperature <= 5:
            raise ConfigError(f"teaching: tokens, attempts and memory_limit must be at least 1, got {self}")


@dataclass
class VLMTeacher:
    """Any model behind the `VLM` interface. ``counts`` says how many thoughts were kept, and why others were not."""

    vlm: VLM
    config: TeachingConfig = field(default_factory=TeachingConfig)
    counts: Counter[str] = field(default_factory=Counter)

    def write(self, recorded: Recorded, cycle: int) -> str:
        """The thought of one cycle; empty if every attempt was thrown away."""
        memory = recorded.memory(cycle, self.config.memory_limit).shown()
        here = recorded.trajectory.cycles[cycle]
        views = [recorded.picture(v) for v in here.views]
        future = self._future(recorded, cycle)
        for attempt in range(self.config.attempts):
            seed = self.config.seed + 1009 * attempt + cycle
            summary = self._ask(summary_messages(memory), seed) if len(memory.landmarks) > 1 else ""
            plan = self._ask(plan_messages(recorded.trajectory.task, summary, views, future), seed)
            thought = joined(summary, plan)
            why = self._refused(thought, views, seed)
            self.counts[why or "kept"] += 1
            if why is None:
                return thought
        return ""

    def _future(self, recorded: Recorded, cycle: int) -> Image:
        """What is seen where the next segment begins, or at the end."""
        cycles = recorded.trajectory.cycles
        frame = cycles[cycle + 1].views[0] if cycle + 1 < len(cycles) else cycles[cycle].frames[-1]
        return recorded.picture(frame)

    def _ask(self, messages: list[Message], seed: int) -> str:
        generation = self.vlm.generate(
            messages,
            max_new_tokens=self.config.tokens,
            temperature=self.config.temperature,
            seed=seed,
            stage="teaching",
        )
        return generation.texts[0].strip()

    def _refused(self, thought: str, views: list[Image], seed: int) -> str | None:
        if not thought:
            return "empty"
        if THINK_START in thought or THINK_END in thought:
            return "tags"
        if leaks(thought):
            return "leak by its words"
        if not self.config.judge:
            return None
        content: list[dict[str, Any]] = [{"type": "image", "image": v} for v in views]
        content.append({"type": "text", "text": JUDGE.format(thought=thought)})
        said = self.vlm.generate(
            [{"role": "user", "content": content}], choices=("yes", "no"), max_new_tokens=4, seed=seed, stage="judging"
        )
        return "leak by judgement" if said.texts[0].strip().lower().startswith("yes") else None


def teach(recorded: Recorded, write: Callable[[Recorded, int], str]) -> Recorded:
    """The trajectory with thoughts by a teacher; cycles whose thought was thrown away are not learned from."""
    return with_thoughts(recorded, [write(recorded, i) for i in range(len(recorded.trajectory.cycles))])


def summary_messages(memory: Memory) -> list[Message]:
    """The first call: all landmarks but the newest, where the robot stands, with the actions after each."""
    content: list[dict[str, Any]] = [{"type": "text", "text": SUMMARISE}]
    for number, (landmark, edge) in enumerate(zip(memory.landmarks, memory.edges, strict=False), 1):
        content.append({"type": "text", "text": f"\nPlace {number}: "})
        content += [{"type": "image", "image": view} for view in landmark.views]
        content.append({"type": "text", "text": f"\nthen {edge_text(edge, 'list')}"})
    return [{"role": "user", "content": content}]


def plan_messages(task: str, summary: str, views: list[Image], future: Image) -> list[Message]:
    """The second call: four views, the one that is to come, and the summary."""
    told = PLAN.format(task=task, summary=summary or "nothing yet.")
    content: list[dict[str, Any]] = [{"type": "image", "image": v} for v in (*views, future)]
    content.append({"type": "text", "text": told})
    return [{"role": "user", "content": content}]


def joined(summary: str, plan: str) -> str:
    """The thought that is stored: summary and plan."""
    return f"{summary} {plan}".strip()
