"""Inputs and counters shared by the tests of the local engine."""

from contextlib import contextmanager

import numpy as np

FAMILIES = ("qwen3_vl", "qwen2_5_vl", "qwen2_vl")


def picture(seed, height=64, width=96):
    """Noise, different for every seed."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def message(*parts):
    """One user turn of arrays and texts."""
    content = [{"type": "text", "text": p} if isinstance(p, str) else {"type": "image", "image": p} for p in parts]
    return [{"role": "user", "content": content}]


def assistant(text):
    return [{"role": "assistant", "content": text}]


@contextmanager
def calls_of(module):
    """Counts the forward calls of a module."""
    seen = []
    hook = module.register_forward_hook(lambda *_: seen.append(1))
    try:
        yield seen
    finally:
        hook.remove()
