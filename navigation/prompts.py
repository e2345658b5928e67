"""What the model is told and how its turns are written: pure functions, for the agent and for every training record.

A cycle is one conversation: a system text, a user turn with the memory and the present view, the slow reply (a thought
and an action), then a user turn with one frame and a reply with one action, again and again, until ``obs``. Stage 1 has
only frames and actions.
"""

from __future__ import annotations

from collections.abc import Sequence

from backbone.contracts import Image
from backbone.errors import DataError
from backbone.vlm import Message
from navigation.actions import ALL, LEFT, MOTOR_OR_END, MOVE, RIGHT
from navigation.config import NavigationConfig
from navigation.memory import Memory, edge_text

THINK_START, THINK_END = "<think_start>", "<think_end>"

_FAST_SHORT = "{task}. Reply with one action."
_FAST_FULL = (
    "You steer a robot through a home by what its camera shows. Task: {task}.\n"
    "Each picture is the view ahead at this moment. Reply with exactly one action and nothing else:\n"
    f"{MOVE}: go a quarter of a metre forward. {LEFT} or {RIGHT}: turn by 30 degrees. "
    "end: stop for good, once you are sure to stand within one metre of the object."
)
_CYCLE_SHORT = "{task}. Think, then act; obs looks around."
_CYCLE_FULL = (
    "You steer a robot through a home by what its camera shows. Task: {task}.\n"
    f"Actions: {MOVE} (go a quarter of a metre forward), {LEFT} and {RIGHT} (turn by 30 degrees), "
    "obs (stop, look around, and think anew), end (stop for good, once you are sure to stand within one metre of the "
    "object).\n"
    "You are first shown the places where you looked around before, oldest first, each with its views ahead, left, "
    "behind and right, and the actions that led from one to the next. The last place is where you are.\n"
    f"Answer that turn with a thought between {THINK_START} and {THINK_END}: what the memory says was explored, what "
    "can be seen around you, and where to go therefore. Then write one action, not obs.\n"
    "Answer every later turn, which shows the view ahead alone, with exactly one action and nothing else. Write obs "
    "when you are blocked, lost, or unsure where to go, and after {offer} actions at the latest."
)


def system_turn(task: str, config: NavigationConfig, *, cycle: bool) -> Message:
    """The rules, for the slow and fast cycle of stages 2 and 3 or for stage 1; ``task`` as in ``find the bed``."""
    if not task.strip():
        raise DataError("the task is empty; say what to find, as in 'find the bed'")
    short = config.prompt_style == "short"
    text = (_CYCLE_SHORT if short else _CYCLE_FULL) if cycle else (_FAST_SHORT if short else _FAST_FULL)
    task = task.strip().rstrip(".")
    return {
        "role": "system",
        "content": [_text(text.format(task=task[:1].upper() + task[1:], offer=config.offer_after))],
    }


def cycle_messages(task: str, memory: Memory, view: Image, config: NavigationConfig) -> list[Message]:
    """The conversation that a slow turn answers: rules, every landmark with the edge to the next, the present view.

    The newest landmark is where the robot stands, ``view`` what it sees ahead there.

    Raises:
        DataError: the memory is empty; the robot looks around before it thinks.
    """
    if not memory.landmarks:
        raise DataError("a slow turn needs a landmark: look around first")
    shown = memory.shown()
    content: list[Message] = []
    for number, landmark in enumerate(shown.landmarks, 1):
        content += [_text(f"{_break(content)}Place {number}: "), *(_image(v) for v in landmark.views)]
        if number <= len(shown.edges):
            content.append(_text(f"\nthen {edge_text(shown.edges[number - 1], config.edge_style)}"))
    content += [_text("\nAhead: "), _image(view)]
    return [system_turn(task, config, cycle=True), {"role": "user", "content": content}]


def base_messages(task: str, frame: Image, config: NavigationConfig) -> list[Message]:
    """The conversation of stage 1 at its first frame: rules and the frame, no memory and no thought."""
    return [system_turn(task, config, cycle=False), fast_turn(frame)]


def fast_turn(frame: Image) -> Message:
    """A user turn that shows one frame and says nothing."""
    return {"role": "user", "content": [_image(frame)]}


def fast_reply(action: str) -> str:
    """A fast reply: the action; `DataError` for a word that is no action."""
    if action not in ALL:
        raise DataError(f"no action {action!r}; there are {', '.join(ALL)}")
    return action


def slow_reply(thought: str, action: str) -> str:
    """A slow reply: the thought between its tags, and a motor action or ``end`` on the next line.

    Raises:
        DataError: the thought holds a tag, or the action is ``obs``, which would look around for ever.
    """
    if THINK_START in thought or THINK_END in thought:
        raise DataError(f"a thought must not contain {THINK_START} or {THINK_END}: {thought[:80]!r}")
    if action not in MOTOR_OR_END:
        raise DataError(f"a slow turn ends with one of {', '.join(MOTOR_OR_END)}, got {action!r}")
    return f"{THINK_START}{thought.strip()}{THINK_END}\n{action}"


def reply_turn(text: str) -> Message:
    """An assistant turn."""
    return {"role": "assistant", "content": [_text(text)]}


def fast_messages(frames: Sequence[Image], actions: Sequence[str]) -> list[Message]:
    """Alternating turns ``(frame, action), ...``; one more frame than actions leaves the last one to be answered."""
    if not 0 <= len(frames) - len(actions) <= 1:
        raise DataError(f"{len(frames)} frames do not alternate with {len(actions)} actions")
    turns: list[Message] = []
    for i, frame in enumerate(frames):
        turns.append(fast_turn(frame))
        if i < len(actions):
            turns.append(reply_turn(fast_reply(actions[i])))
    return turns


def _break(content: Sequence[Message]) -> str:
    return "\n" if content else ""


def _image(image: Image) -> Message:
    return {"type": "image", "image": image}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}
