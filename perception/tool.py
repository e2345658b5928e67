"""The zoom tool as a model sees it, and its calls read back from imperfect output."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from backbone.contracts import Image
from backbone.vlm import Message
from perception.parsing import Region, first_object, parse_regions
from perception.prompts import TOOL_NAME

# The interface of Qwen3-VL's own tool (cookbook "Think with Images"): names, types and order as the model knows them.
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Zoom in on a region of an image by cropping it to a bounding box, with an object label",
        "parameters": {
            "type": "object",
            "properties": {
                "bbox_2d": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 4,
                    "maxItems": 4,
                    "description": "The region as [x1, y1, x2, y2]: top-left corner, then bottom-right corner",
                },
                "label": {"type": "string", "description": "What is in the region"},
                "img_idx": {"type": "number", "description": "Index of the image to zoom in on, starting from 0"},
            },
            "required": ["bbox_2d", "label", "img_idx"],
        },
    },
}
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MARK = re.compile(rf"{_OPEN}|\b{TOOL_NAME}\b")


@dataclass(frozen=True)
class ZoomCall:
    """A request to zoom into ``region`` of image ``image_index`` (0 is the original); ``text`` is what was written."""

    text: str
    region: Region
    image_index: int = 0


@dataclass(frozen=True)
class InvalidCall:
    """A call that cannot be carried out, and why, in words for the model."""

    text: str
    reason: str


def system_message() -> Message:
    """The tool's description as Qwen's chat templates write it into the system turn (Hermes format)."""
    text = (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
        f"{json.dumps(TOOL, ensure_ascii=False)}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        f"{_OPEN}{_CLOSE} XML tags:\n{_OPEN}\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n' + _CLOSE
    )
    return {"role": "system", "content": [{"type": "text", "text": text}]}


def first_turn(image: Image, question: str) -> list[Message]:
    """System turn with the tool, then the image and the question."""
    content = [{"type": "image", "image": image}, {"type": "text", "text": question}]
    return [system_message(), {"role": "user", "content": content}]


def error_turn(call: str, reason: str) -> list[Message]:
    """The assistant's call and a tool reply that says what was wrong with it."""
    reply = f"<tool_response>\nError: {reason}\n</tool_response>"
    return [
        {"role": "assistant", "content": [{"type": "text", "text": call}]},
        {"role": "user", "content": [{"type": "text", "text": reply}]},
    ]


def parse_call(text: str) -> ZoomCall | InvalidCall | None:
    """The first tool call in a turn; None if the turn is an answer. Never raises."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    tag = text.find(_OPEN)
    start = tag if tag >= 0 else text.rfind("{", 0, mark.start()) if "{" in text[: mark.start()] else mark.start()
    end = text.find(_CLOSE, start)
    body = text[start + (len(_OPEN) if tag >= 0 else 0) : end if end >= 0 else None]
    written = f"{text[:end]}{_CLOSE}" if end >= 0 else f"{text.rstrip()}\n{_CLOSE}" if tag >= 0 else text
    value = first_object(body)
    if value is None:
        if tag < 0:
            return None  # the tool is mentioned in prose
        return InvalidCall(written, "the call is not a JSON object with name and arguments")
    name = value.get("name", TOOL_NAME)
    if name != TOOL_NAME:
        return InvalidCall(written, f"there is no tool {str(name)[:40]!r}; the only tool is {TOOL_NAME}")
    return _checked_call(written, _arguments(value))


def _arguments(value: dict[str, Any]) -> dict[str, Any]:
    inner = value.get("arguments", value.get("parameters", value))
    if isinstance(inner, str):
        inner = first_object(inner)
    return inner if isinstance(inner, dict) else {}


def _checked_call(text: str, arguments: dict[str, Any]) -> ZoomCall | InvalidCall:
    parsed = parse_regions(json.dumps(arguments, default=str))
    if not parsed.regions:
        return InvalidCall(text, f"bbox_2d must be 4 numbers ({'; '.join(parsed.notes)})")
    index = arguments.get("img_idx", 0)
    try:
        index = int(index)
    except (TypeError, ValueError, OverflowError):
        return InvalidCall(text, f"img_idx must be a whole number, got {str(index)[:40]!r}")
    return ZoomCall(text, parsed.regions[0], index)
