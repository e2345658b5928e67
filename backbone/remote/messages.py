"""Conversations in the form of the OpenAI chat API, pictures as PNG data URLs made from decoded arrays only."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image

from backbone.contracts import Image, check_image
from backbone.errors import DataError
from backbone.pixels import Pixels
from backbone.vlm import Messages

ROLES = ("system", "user", "assistant", "tool")


def to_chat(messages: Messages, pixels: Pixels) -> tuple[list[dict[str, Any]], tuple[tuple[int, int], ...]]:
    """Messages for ``/chat/completions``, and ``(width, height)`` of every picture in order, as the caller gave it.

    Every picture is resized here to the size that ``pixels`` gives it, as the model's processor would do. The
    server's own resize then changes nothing, and the limits that box conversion uses are the ones that were applied.

    Raises:
        DataError: an empty conversation, an unknown role or part, a picture that is no uint8 (H, W, 3) array.
    """
    if isinstance(messages, (str, bytes)) or not messages:
        raise DataError(f"messages: expected a non-empty list of messages, got {type(messages).__name__}")
    sizes: list[tuple[int, int]] = []
    chat = []
    for index, message in enumerate(messages):
        where = f"message {index}"
        if set(message) != {"role", "content"} or message["role"] not in ROLES:
            raise DataError(f"{where}: expected role (one of {', '.join(ROLES)}) and content, got {_brief(message)}")
        content = message["content"]
        if not isinstance(content, str):
            content = [
                _part(part, f"{where}, part {i}", pixels, sizes) for i, part in enumerate(_parts(content, where))
            ]
        chat.append({"role": message["role"], "content": content})
    return chat, tuple(sizes)


def png_data_url(image: Image) -> str:
    """A lossless ``data:image/png;base64,`` URL of a uint8 (H, W, 3) RGB array."""
    buffer = io.BytesIO()
    # Level 1: the picture travels once, so encoding time matters more than the last tenth of size.
    PIL.Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def resize(image: Image, size: tuple[int, int]) -> Image:
    """Resize to ``(width, height)`` by antialiased bicubic on uint8, exactly as the families' image processors do."""
    if (image.shape[1], image.shape[0]) == size:
        return image
    # Imported here: torch takes seconds to load, and a remote model whose pictures fit does not need it.
    import torch
    from torchvision.transforms.v2 import InterpolationMode  # type: ignore[import-untyped]
    from torchvision.transforms.v2 import functional as transforms

    # torch takes no read-only arrays, which decoded originals are: those are copied.
    planes = torch.from_numpy(np.require(image, requirements=["C", "W"])).permute(2, 0, 1)  # (3, H, W)
    planes = transforms.resize(planes, [size[1], size[0]], InterpolationMode.BICUBIC, antialias=True)
    resized: Image = planes.permute(1, 2, 0).contiguous().numpy()
    return resized


def _part(part: Any, where: str, pixels: Pixels, sizes: list[tuple[int, int]]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image" and "image" in part:
        image = check_image(part["image"], where)
        size = image.shape[1], image.shape[0]
        sizes.append(size)
        return {"type": "image_url", "image_url": {"url": png_data_url(resize(image, pixels.resize(*size)))}}
    raise DataError(
        f'{where}: expected {{"type": "text", "text": str}} or {{"type": "image", "image": uint8 array}}, '
        f"got {_brief(part)}"
    )


def _parts(content: Any, where: str) -> Sequence[Any]:
    if not isinstance(content, (list, tuple)) or not content:
        raise DataError(f"{where}: content must be a string or a non-empty list of parts, got {type(content).__name__}")
    return content


def _brief(value: Any) -> str:
    """The structure of a message or part without its pixels or a long text."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{k}: {v if k in ('role', 'type') else type(v).__name__}" for k, v in value.items()) + "}"
        )
    return type(value).__name__
