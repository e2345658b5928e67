"""One walk over a msgpack frame before anything is built from it, so that a small frame cannot become a large object.

Unpacking makes Python objects of up to 64 times a frame's size, and recursion as deep as the frame says. The walk
builds nothing: it counts values and depth, skips over texts and bytes, and refuses what no observation needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from backbone.errors import ConfigError
from backbone.serving.errors import WireError


@dataclass(frozen=True)
class WireLimits:
    """What one message may hold."""

    max_bytes: int = 32 * 2**20
    max_values: int = 20_000  # numbers, texts, lists, maps, keys: everything that is not the inside of an array
    max_depth: int = 16
    max_images: int = 16
    max_pixels: int = 4096 * 4096  # of one picture

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) < 1:
                raise ConfigError(f"wire limits: {name} must be at least 1, got {getattr(self, name)}")


# First byte -> (bytes of the length field, bytes that follow in any case); see the msgpack specification.
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # bin and str of 8, 16 and 32 bits of length
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_FIXED.update({0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8})
_ARRAYS, _MAPS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}


def scan(data: bytes, limits: WireLimits) -> None:
    """Check that ``data`` is exactly one msgpack value within ``limits``; raises `WireError` saying what is wrong."""
    size = len(data)
    if size > limits.max_bytes:
        raise WireError(f"the message has {size} bytes; at most {limits.max_bytes} are taken")
    position = values = 0
    open_counts = [1]  # values still to come at every level
    while open_counts:
        if open_counts[-1] == 0:
            open_counts.pop()
            continue
        open_counts[-1] -= 1
        values += 1
        if position >= size:
            raise WireError(f"the message is cut short: a value is missing after byte {size}")
        position, children = _value(data, position)
        if position > size:
            raise WireError(f"the message is cut short: it has {size} bytes and needs at least {position}")
        if children is not None:
            if values + children > limits.max_values:
                raise WireError(f"the message has more than {limits.max_values} values; send long data as arrays")
            if len(open_counts) >= limits.max_depth:
                raise WireError(f"the message is nested deeper than {limits.max_depth} levels")
            open_counts.append(children)
    if position != size:
        raise WireError(f"the message has {size - position} bytes after its end; send one value in one message")


def _value(data: bytes, position: int) -> tuple[int, int | None]:
    """The position after the value that starts at ``position``, and how many values a list or map holds."""
    code = data[position]
    position += 1
    if code < 0x80 or code >= 0xE0:
        return position, None
    if code < 0x90:
        return position, 2 * (code & 0x0F)
    if code < 0xA0:
        return position, code & 0x0F
    if code < 0xC0:
        return position + (code & 0x1F), None
    if code in _FIXED:
        return position + _FIXED[code], None
    if code in _SIZED:
        end = position + _SIZED[code]
        return end + int.from_bytes(data[position:end], "big"), None
    if code in _ARRAYS:
        end = position + _ARRAYS[code]
        return end, int.from_bytes(data[position:end], "big")
    if code in _MAPS:
        end = position + _MAPS[code]
        return end, 2 * int.from_bytes(data[position:end], "big")
    raise WireError(f"byte {code:#04x} at {position - 1} begins no value that is taken (extension types are refused)")
