"""Questions for a chat server, and the pieces of its answers."""

from __future__ import annotations

import numpy as np

from backbone.pixels import Pixels


def picture(width=64, height=32):
    """Red left half, blue right half: asymmetric, so that channel order and orientation are visible."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, : width // 2, 0] = 255
    image[:, width // 2 :, 2] = 200
    return image


def ask(text="what is it", *images):
    content = [{"type": "image", "image": image} for image in images] + [{"type": "text", "text": text}]
    return [{"role": "user", "content": content}]


SMALL = Pixels(32 * 32, 64 * 64, 32)


def answer(*events, tail="[DONE]"):
    """A fault that streams the given events."""

    def fault(handler):
        handler.begin_stream()
        for event in events:
            handler.event(event)
        if tail:
            handler.event(tail)
        handler.end_stream()

    return fault


def chunk(index=0, content="a", finish="stop", **more):
    return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": finish, **more}]}


def cut(handler):
    handler.begin_stream()
    handler.event(chunk(finish=None))
    handler.connection.close()
    handler.close_connection = True
