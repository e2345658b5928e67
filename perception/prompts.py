"""What the model is asked in each stage. Nano is trained on exactly these; larger models read them as instructions."""

from __future__ import annotations

from collections.abc import Sequence

from backbone.contracts import Box, Image
from backbone.vlm import Message

LETTERS = "ABCDEFGHIJ"

# Stage 1. The question is context only; the closing prohibition keeps the model from answering instead of looking.
PERCEPTION = (
    "Question: {question}\n"
    "Which parts of the image must be seen up close to answer it? "
    'Reply with JSON only: [{{"bbox_2d": [x0, y0, x1, y1], "label": "..."}}]\n'
    "DO NOT ANSWER THE QUESTION."
)
# Stage 2 with close-ups, and without any (nothing was found, or the native method).
REASONING = "Use the close-ups for fine details.\n{question}"
DIRECT = "{question}"
# The zoom-tool loop, short form; hub models get the tool through their own chat template instead.
ZOOM = "{question}\nYou may call image_zoom_in_tool with bbox_2d and label to look closer."
# What XLRS-Bench asks where several options may be right: all their letters, separated by spaces.
SEVERAL = "More than one option may be right. Answer with the letters of all right options only, separated by spaces."
TOOL_NAME = "image_zoom_in_tool"


def multiple_choice(question: str, options: Sequence[str], several: bool = False) -> str:
    """The question with lettered options and the request for a letter, or for ``several``; without options itself."""
    if not options:
        return question
    lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=False)]
    return "\n".join([question, *lines, SEVERAL if several else "Answer with the letter only."])


def perception_messages(image: Image, question: str) -> list[Message]:
    """Stage 1: one small image and the question; the reply is a JSON list of boxes."""
    return [_user([_image(image), _text(PERCEPTION.format(question=question))])]


def crop_tag(label: str, numbers: Sequence[int]) -> str:
    """The text before a close-up: its label and its box in the numbers of the model's family."""
    return f"{label} [{', '.join(str(n) for n in numbers)}]:"


def reasoning_messages(image: Image, crops: Sequence[tuple[str, Image]], question: str) -> list[Message]:
    """Stage 2: the small image, every close-up behind its `crop_tag`, the question (with its options)."""
    content = [_image(image)]
    for tag, crop in crops:
        content += [_text(tag), _image(crop)]
    prompt = REASONING if crops else DIRECT
    return [_user([*content, _text(prompt.format(question=question))])]


def direct_messages(image: Image, question: str) -> list[Message]:
    """The native method: one image, one question."""
    return reasoning_messages(image, (), question)


def zoom_messages(image: Image, question: str) -> list[Message]:
    """First turn of the zoom loop in its short form."""
    return [_user([_image(image), _text(ZOOM.format(question=question))])]


def tool_call(numbers: Sequence[int], label: str) -> str:
    """A zoom call as the model writes it."""
    box = ", ".join(str(n) for n in numbers)
    return (
        f'<tool_call>\n{{"name": "{TOOL_NAME}", "arguments": {{"bbox_2d": [{box}], "label": "{label}"}}}}\n</tool_call>'
    )


def tool_turn(call: str, crop: Image) -> list[Message]:
    """The assistant's call and the tool's reply, as Qwen's template writes them: the reply is a user turn."""
    reply = [_text("<tool_response>\n"), _image(crop), _text("\n</tool_response>")]
    return [{"role": "assistant", "content": [_text(call)]}, _user(reply)]


def boxes_json(items: Sequence[tuple[Sequence[int], str]]) -> str:
    """The canonical stage-1 reply for ``(numbers, label)`` pairs; also the training target."""
    parts = [f'{{"bbox_2d": [{", ".join(str(n) for n in numbers)}], "label": "{label}"}}' for numbers, label in items]
    return f"[{', '.join(parts)}]"


def box_region(box: Box) -> str:
    """Short human description of a region, for notes."""
    return f"{box.label or 'region'} at {box.x0:.0f},{box.y0:.0f}-{box.x1:.0f},{box.y1:.0f}"


def _image(image: Image) -> Message:
    return {"type": "image", "image": image}


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _user(content: list[Message]) -> Message:
    return {"role": "user", "content": content}
