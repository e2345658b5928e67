"""Make habitat-sim's extension loadable on glibc before 2.38, although its wheel's tag promises 2.31.

Eight of its symbols carry the versions GLIBC_2.38 or GLIBCXX_3.4.32. The loader refuses a library whose wanted versions
are missing, unless they are marked weak; and a symbol without a version binds to whatever provides its name. So both
are changed in the file's version tables; what provides the names is the system's libm and ``older_glibc.c``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from backbone.errors import WorldError

TOO_NEW = (b"GLIBC_2.38", b"GLIBCXX_3.4.32")
VERSION_NEEDS, VERSION_OF_SYMBOLS = 0x6FFFFFFE, 0x6FFFFFFF  # section types SHT_GNU_verneed and SHT_GNU_versym
WEAK, HIDDEN_BIT, ANY_VERSION = 2, 0x8000, 1


def relax_versions(library: Path) -> int:
    """Change ``library`` in place; the number of symbols changed, 0 if it was changed before.

    Raises `WorldError` if it is no 64-bit ELF file.
    """
    data = bytearray(library.read_bytes())
    if data[:6] != b"\x7fELF\x02\x01":
        raise WorldError(f"{library} is no 64-bit little-endian ELF file; remove the environment and install again")
    sections = list(_sections(data))
    numbers = set()
    for kind, offset, _, link in sections:
        if kind == VERSION_NEEDS:
            numbers |= _weaken(data, offset, sections[link][1])
    changed = 0
    for kind, offset, size, _ in sections:
        if kind == VERSION_OF_SYMBOLS:
            for at in range(offset, offset + size, 2):
                (version,) = struct.unpack_from("<H", data, at)
                if version & ~HIDDEN_BIT in numbers:
                    struct.pack_into("<H", data, at, ANY_VERSION)
                    changed += 1
    library.write_bytes(data)
    return changed


def _sections(data: bytearray) -> Iterator[tuple[int, int, int, int]]:
    """Type, offset, size and linked section of every section."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count = struct.unpack_from("<HH", data, 0x3A)
    for i in range(count):
        _, kind, _, _, offset, size, link, *_ = struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry)
        yield kind, offset, size, link


def _weaken(data: bytearray, offset: int, names: int) -> set[int]:
    """Mark the versions that are too new as weak; the numbers symbols refer to them by."""
    numbers = set()
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", data, offset)
        at = offset + first
        for _ in range(count):
            _, flags, number, name, step = struct.unpack_from("<IHHII", data, at)
            if data[names + name : data.index(0, names + name)] in TOO_NEW:
                struct.pack_into("<H", data, at + 4, flags | WEAK)
                numbers.add(number & ~HIDDEN_BIT)
            at += step
        if not following:
            return numbers
        offset += following
