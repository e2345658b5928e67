"""Actions out of what a model writes in its own words, for replies that were not constrained to the five strings.

The ways a reply is read, in this order: JSON, what stands behind a word such as ``Action:``, the five strings, and
prose in English or Chinese without the clauses that are denied. Of several actions the first counts: one a turn.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from json_repair import repair_json

from navigation.actions import ALL, END, LEFT, MOVE, OBS, RIGHT
from navigation.prompts import THINK_END, THINK_START

LONGEST = 4000  # characters that are read of a reply

_EXACT = re.compile(
    r"\b(move_?ahead|rotate_?left|rotate_?right|obs|end)\b(?:\s*[( ]\s*\d+(?:\.\d+)?\)?)?", re.IGNORECASE
)
_EXACT_WORDS = {"moveahead": MOVE, "rotateleft": LEFT, "rotateright": RIGHT, "obs": OBS, "end": END}
_MARKED = re.compile(
    r"(?:final answer|next action|action|answer|decision|command|动作|行动|答案|操作)"
    r"\s*(?:is|was|为|是)?\s*[:：=]\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
_KEYS = ("action", "next_action", "command", "answer", "decision", "name")
# A clause that denies what it names, or names it as a fact of the past or a condition.
_DENIED = re.compile(
    r"\b(?:not|n't|cannot|never|no longer|without|unable|avoid|instead of|rather than|if|unless|after|before|because)\b"
    r"|n['’]t\b|不能|不要|无法|没有|不应|避免|如果",
    re.IGNORECASE,
)
_CLAUSES = re.compile(
    r"[.!?;\n。！？；，,]+(?!\d)|\b(?:so|therefore|hence|thus|but|then|and then)\b|所以|因此|但是", re.IGNORECASE
)
# In a clause the first that is found counts, but looking around before all, since one stops to look.
_PROSE: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        OBS,
        re.compile(
            r"look(?:ing)? (?:all )?(?:a?round|about)|360|panoram|\bscan\b|\bsurvey\b"
            r"|observe (?:the |my |our )?surroundings|环顾|四周|全景|观察",
            re.IGNORECASE,
        ),
    ),
    (
        LEFT,
        re.compile(
            r"(?:turn|rotate|rotat(?:e|ing)|turning|spin|veer|pivot|go|head|bear|face)s?[\s_-]*"
            r"(?:\d+\S*\s*(?:degrees?)?\s*)?(?:slightly |a bit |to |towards? )*(?:the |my |your )?[\s_-]*left"
            r"|\bleft turn|counter-?clockwise|左转|向左|往左|左旋|逆时针",
            re.I,
        ),
    ),
    (
        RIGHT,
        re.compile(
            r"(?:turn|rotate|rotating|turning|spin|veer|pivot|go|head|bear|face)s?[\s_-]*"
            r"(?:\d+\S*\s*(?:degrees?)?\s*)?(?:slightly |a bit |to |towards? )*(?:the |my |your )?[\s_-]*right"
            r"|\bright turn|\bclockwise|右转|向右|往右|右旋|顺时针",
            re.I,
        ),
    ),
    (
        MOVE,
        re.compile(
            r"(?:move|moving|go|going|walk|walking|step|stepping|drive|head|proceed|continue|advance|keep)\w*[\s_-]*"
            r"(?:\w+ ){0,2}(?:forward|ahead|straight)|\bforward\b|\badvance\b|前进|向前|往前|直走|直行",
            re.I,
        ),
    ),
    (
        END,
        re.compile(
            r"\bstop\w*\b|\bdone\b|\bfinish\w*\b|\barrived\b|\breached\b|goal found|停止|停下|到达|结束|完成", re.I
        ),
    ),
)
_ALONE = {"left": LEFT, "right": RIGHT, "stop": END, "forward": MOVE, "ahead": MOVE, "straight": MOVE, "look": OBS}
_ALONE |= {"左": LEFT, "右": RIGHT, "停": END, "前": MOVE, "l": LEFT, "r": RIGHT}


@dataclass(frozen=True)
class Parsed:
    """What was read: the action, or None with the reason in ``note``; ``note`` also says what was repaired."""

    action: str | None
    note: str = ""


def parse_action(text: str) -> Parsed:
    """The action in a reply; see the module for how it is read."""
    reply = visible(text)[:LONGEST].strip()
    if not reply:
        return Parsed(None, "empty reply")
    if reply in ALL:
        return Parsed(reply)
    if (found := _from_json(reply)) is not None:
        return Parsed(found, "action read from JSON")
    marked = _MARKED.search(reply)
    if marked and (found := _from_words(marked.group(1)) or _from_prose(marked.group(1))):
        return Parsed(found, "action read behind its label")
    several = _exact(reply)
    if several:
        note = f"first of {len(several)} actions" if len(several) > 1 else "action read from a longer reply"
        return Parsed(several[0], note)
    found = _from_prose(reply)
    if found:
        return Parsed(found, "action read from prose")
    return Parsed(None, f"no action in {reply[:80]!r}")


def split_thought(text: str) -> tuple[str, str]:
    """The thought and what follows it; a thought whose end is missing takes the whole text."""
    begin = text.find(THINK_START)
    inside = text[begin + len(THINK_START) :] if begin >= 0 else text
    thought, closed, rest = inside.partition(THINK_END)
    if not closed and begin < 0:
        return "", text
    return clean_thought(thought), rest


def clean_thought(text: str) -> str:
    """A thought without tags and outer spaces, as `navigation.prompts.slow_reply` takes it."""
    for tag in (THINK_START, THINK_END):
        text = text.replace(tag, " ")
    return text.strip()


def visible(text: str) -> str:
    """A reply without its thoughts, in our tags or in those of reasoning models."""
    for start, end in ((THINK_START, THINK_END), ("<think>", "</think>")):
        if end in text:
            text = text.rpartition(end)[2]
        elif start in text:
            text = text.partition(start)[0]
    return text


def _from_json(reply: str) -> str | None:
    begin = min((i for i in (reply.find("{"), reply.find("[")) if i >= 0), default=-1)
    if begin < 0:
        return None
    try:
        value: Any = json.loads(reply[begin:])
    except ValueError:
        value = repair_json(reply[begin:], return_objects=True)
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict):
        lowered = {str(key).lower(): item for key, item in value.items()}
        value = next((lowered[key] for key in _KEYS if key in lowered), None)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            value = value.get("name")
    return _from_words(value) or _from_prose(value) if isinstance(value, str) and value.strip() else None


def _from_words(text: str) -> str | None:
    found = _exact(text)
    return found[0] if found else None


def _exact(text: str) -> list[str]:
    """The five strings in order of appearance, with or without their numbers; no ``end`` in the middle of prose."""
    found = []
    for match in _EXACT.finditer(text):
        action = _EXACT_WORDS[match.group(1).lower().replace("_", "")]
        in_prose = action == END and len(text) > len(match.group(0)) + 3
        if not in_prose:
            found.append(action)
    return found


def _from_prose(text: str) -> str | None:
    alone = re.sub(r"[^\w]+", "", text).lower()
    if alone in _ALONE:
        return _ALONE[alone]
    for clause in _CLAUSES.split(text):
        if clause and not _DENIED.search(clause):
            found = [(match.start(), action) for action, pattern in _PROSE if (match := pattern.search(clause))]
            if found:
                first = next((f for f in found if f[1] == OBS), min(found))
                return first[1]
    return None
