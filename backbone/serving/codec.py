"""NumPy arrays in msgpack, in the forms of two protocols: openpi's (bytes keys) and vla-eval's (text keys, pictures).

Decoding trusts nothing: `scan` bounds the frame first, then an array needs a plain number type from a fixed list, a
shape of few, not negative sizes, and exactly as many bytes as these say. A key may come once in a map. No pickle, no
object or record types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from backbone.errors import DataError
from backbone.serving.errors import WireError
from backbone.serving.keys import without_twins
from backbone.serving.scan import WireLimits, scan

Dialect = Literal["openpi", "vla-eval"]
Array = NDArray[Any]
MAX_AXES = 8
_KINDS = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}
_PLAIN = [np.dtype(f"{kind}{size}") for kind, sizes in _KINDS.items() for size in sizes] + [np.dtype(np.bool_)]
# Every spelling of a plain number type that a client may use: "<f4", ">f4", "=f4", "|u1", "f4", "float32", "bool".
DTYPES: dict[str, np.dtype[Any]] = {
    spelling: dtype.newbyteorder(">") if spelling[0] == ">" else dtype
    for dtype in _PLAIN
    for spelling in {dtype.str, dtype.str[1:], dtype.name, *(f"{order}{dtype.str[1:]}" for order in "<>=|")}
    if dtype.itemsize == 1 or spelling[0] != "|"
}


def pack(value: Any, dialect: Dialect = "openpi") -> bytes:
    """``value`` (dicts, lists, texts, numbers, arrays) as one msgpack frame.

    Raises:
        WireError: it holds something else, or an array of objects, records, texts or complex numbers.
    """
    try:
        packed: bytes = msgpack.packb(value, default=_PACKERS[dialect])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"cannot be sent: {error}; send dicts, lists, texts, numbers and arrays of numbers") from error
    return packed


def unpack(data: bytes, dialect: Dialect = "openpi", limits: WireLimits | None = None) -> Any:
    """One msgpack frame as Python values; arrays are read-only views of its bytes, except decoded pictures.

    Raises:
        WireError: the frame is broken, hostile, over ``limits``, or in the other dialect's form, or has a key twice.
    """
    limits = limits or WireLimits()
    scan(data, limits)
    try:
        return msgpack.unpackb(data, object_pairs_hook=_hook(dialect, limits), strict_map_key=True)
    except WireError:
        raise
    except (ValueError, TypeError, RecursionError) as error:  # not UTF-8, keys that are lists or numbers, ...
        raise WireError(f"not a msgpack message: {error}") from error


def array_from(data: Any, dtype: Any, shape: Any) -> Array:
    """A read-only array over ``data``; raises `WireError` unless type, shape and length are plain and agree."""
    if isinstance(dtype, bytes):
        dtype = dtype.decode("ascii", "replace")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise WireError(f"array of type {dtype!r:.60} refused; send bool, integers, or floats of 16, 32 or 64 bits")
    if not isinstance(shape, list | tuple) or len(shape) > MAX_AXES:
        raise WireError(f"array shape {shape!r:.60} refused; send a list of at most {MAX_AXES} sizes")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise WireError(f"array shape {shape!r:.60} refused; every size must be a whole number, not negative")
    if not isinstance(data, bytes):
        raise WireError(f"array data must be bytes, got {type(data).__name__}")
    kind = DTYPES[dtype]
    wanted = math.prod(shape) * kind.itemsize  # Python's integers do not overflow
    if wanted != len(data):
        raise WireError(f"array of {kind.name} {tuple(shape)} needs {wanted} bytes, got {len(data)}"[:200])
    if kind == np.bool_:  # any byte but 0 and 1 is no boolean to NumPy
        flags: Array = np.ndarray(tuple(shape), np.uint8, buffer=data) != 0
        return flags
    try:
        return np.ndarray(tuple(shape), kind, buffer=data)
    except ValueError as error:  # an empty array whose other sizes overflow
        raise WireError(f"array shape {shape!r:.60} refused: {error}") from error


def _hook(dialect: Dialect, limits: WireLimits) -> Callable[[list[tuple[Any, Any]]], Any]:
    """What msgpack calls for every map; bound to one message because it counts that message's pictures."""
    own: Callable[[str], Any] = str.encode if dialect == "openpi" else str
    other: Callable[[str], Any] = str if dialect == "openpi" else str.encode
    array_key, scalar_key, foreign = own("__ndarray__"), own("__npgeneric__"), other("__ndarray__")
    data, dtype, shape = own("data"), own("dtype"), own("shape")
    pictures = 0

    def decode(pairs: list[tuple[Any, Any]]) -> Any:
        nonlocal pictures
        found = without_twins(pairs, WireError)
        if array_key in found:
            return array_from(found.get(data), found.get(dtype), found.get(shape))
        if foreign in found:
            there = "/vla-eval" if dialect == "openpi" else "/"
            raise WireError(f"arrays in another protocol's form; connect to the path {there}, or use its client")
        if dialect == "openpi" and scalar_key in found:
            return _scalar(found.get(data), found.get(dtype))
        if dialect == "vla-eval" and "__image__" in found:
            pictures += 1
            if pictures > limits.max_images:
                raise WireError(f"the message has more than {limits.max_images} pictures")
            return _picture(found, limits)
        return found

    return decode


def _scalar(value: Any, dtype: Any) -> Any:
    if isinstance(dtype, bytes):
        dtype = dtype.decode("ascii", "replace")
    if not isinstance(dtype, str) or dtype not in DTYPES or not isinstance(value, bool | int | float):
        raise WireError(f"number of type {dtype!r:.60} refused; send bool, integers or floats")
    try:
        return DTYPES[dtype].type(value)
    except (OverflowError, ValueError) as error:
        raise WireError(f"the number {value!r:.60} is no {DTYPES[dtype].name}") from error


def _picture(found: dict[str, Any], limits: WireLimits) -> Image:
    """vla-eval's picture: PNG, JPEG or raw bytes of a uint8 (H, W, 3) array of the stated shape."""
    form, data, shape = found.get("format"), found.get("data"), found.get("shape")
    if form == "raw":
        return array_from(data, "uint8", shape).copy()
    if form not in ("png", "jpeg") or not isinstance(data, bytes):
        raise WireError(f"picture format {form!r:.40} refused; send png, jpeg or raw bytes")
    from backbone.images import ImageLimits, read_image  # brings OpenCV, which a client has no need of

    try:
        picture = read_image(data, limits=ImageLimits(limits.max_pixels, limits.max_bytes)).array
    except DataError as error:
        raise WireError(f"picture refused: {error}") from error
    if shape is not None and list(picture.shape) != list(shape if isinstance(shape, list) else []):
        raise WireError(f"picture of shape {picture.shape} where {shape!r:.60} was stated")
    return picture


def _check_sendable(value: Array | np.generic) -> None:
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise WireError(f"an array of {value.dtype} cannot be sent; convert it to numbers of at most 64 bits")


def _bytes(value: Array) -> memoryview | bytes:
    """The array's bytes in C order; where they lie so already, not copied: msgpack takes its own copy."""
    plain = type(value) is np.ndarray and value.flags.c_contiguous and value.size > 0
    return value.data if plain else value.tobytes()


def _pack_openpi(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        _check_sendable(value)
        shape = list(value.shape)
        return {b"__ndarray__": True, b"data": _bytes(value), b"dtype": value.dtype.str, b"shape": shape}
    if isinstance(value, np.generic):
        _check_sendable(value)
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"a {type(value).__name__}")


def _pack_vla_eval(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        _check_sendable(value)
        return {"__ndarray__": True, "data": _bytes(value), "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        _check_sendable(value)
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


_PACKERS: dict[Dialect, Callable[[Any], Any]] = {"openpi": _pack_openpi, "vla-eval": _pack_vla_eval}
