"""Fonts that packages install, those of the train and the held-out split apart, and exact measures of words in them."""

from __future__ import annotations

import functools
import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import ImageFont

from backbone.errors import ConfigError
from docparse.generator.document import Split

Role = Literal["sans", "serif", "mono", "hand"]


@dataclass(frozen=True)
class Family:
    """A family in four styles; a variable font's bold is an instance of its ``wght`` axis."""

    name: str
    package: str  # importable package that holds the files
    role: Role
    regular: str
    bold: str = ""
    italic: str = ""
    bold_axes: tuple[int, ...] = ()  # values of the variable font's axes for bold, in the file's order


def _pattern(name: str, package: str, role: Role, stem: str, suffix: str = ".ttf") -> Family:
    return Family(name, package, role, f"{stem}-Regular{suffix}", f"{stem}-Bold{suffix}", f"{stem}-Italic{suffix}")


def _plotted(name: str, role: Role, stem: str, bold: str, italic: str) -> Family:
    """A family that matplotlib carries."""
    stem = f"mpl-data/fonts/ttf/{stem}"
    return Family(name, "matplotlib", role, f"{stem}.ttf", f"{stem}{bold}.ttf", f"{stem}{italic}.ttf")


FAMILIES: dict[Split, tuple[Family, ...]] = {
    "train": (
        _plotted("DejaVu Sans", "sans", "DejaVuSans", "-Bold", "-Oblique"),
        _plotted("DejaVu Serif", "serif", "DejaVuSerif", "-Bold", "-Italic"),
        _plotted("DejaVu Sans Mono", "mono", "DejaVuSansMono", "-Bold", "-Oblique"),
        Family("Arimo", "fontpkg_arimo", "sans", "files/Arimo[wght].ttf", "", "files/Arimo-Italic[wght].ttf", (700,)),
        _pattern("PT Sans", "fontpkg_pt_sans", "sans", "files/PT_Sans-Web"),
        _pattern("PT Serif", "fontpkg_pt_serif", "serif", "files/PT_Serif-Web"),
        _pattern("Lato", "font_lato", "sans", "files/Lato"),
        _pattern("Caladea", "font_caladea", "serif", "files/Caladea"),
        Family("Kalam", "fontpkg_kalam", "hand", "files/Kalam-Regular.ttf", "files/Kalam-Bold.ttf"),
    ),
    "held_out": (
        Family(
            "Open Sans",
            "fontpkg_open_sans",
            "sans",
            "files/OpenSans[wdth,wght].ttf",
            "",
            "files/OpenSans-Italic[wdth,wght].ttf",
            (700, 100),
        ),
        _pattern("Hanken Grotesk", "font_hanken_grotesk", "sans", "files/HankenGrotesk", ".otf"),
        _plotted("STIX General", "serif", "STIXGeneral", "Bol", "Italic"),
        _pattern("Crimson Text", "fontpkg_crimson_text", "serif", "files/CrimsonText"),
        _pattern("IBM Plex Mono", "fontpkg_ibm_plex_mono", "mono", "files/IBMPlexMono"),
        Family("Indie Flower", "fontpkg_indie_flower", "hand", "files/IndieFlower-Regular.ttf"),
    ),
}


@dataclass(frozen=True)
class Face:
    """A font at a size: ``size`` is the em in pixels."""

    family: Family
    size: int
    bold: bool = False
    italic: bool = False


@functools.cache
def folder(package: str) -> Path:
    """Where a font package's files lie, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the fonts of package {package} are missing, which generated documents need: pip install -e '.[fonts]'"
        )
    return Path(next(iter(spec.submodule_search_locations)))


@functools.lru_cache(maxsize=512)
def font(face: Face) -> ImageFont.FreeTypeFont:
    """The font to draw with. Plain layout, without ligatures or kerning tables, is the same on every machine."""
    family = face.family
    style = family.bold if face.bold else family.italic if face.italic else ""
    path = folder(family.package) / (style or family.regular)
    loaded = ImageFont.truetype(str(path), face.size, layout_engine=ImageFont.Layout.BASIC)
    if face.bold and family.bold_axes:
        loaded.set_variation_by_axes(list(family.bold_axes))
    return loaded


@functools.lru_cache(maxsize=200_000)
def measure(face: Face, text: str) -> tuple[float, tuple[int, int, int, int]]:
    """``(advance, (x0, y0, x1, y1))`` in pixels of a word: how far the pen moves, and its ink around a pen at 0, 0.

    Put together from the glyphs, which are measured once a face: a word by itself costs the font library far more.
    """
    table, kerned = _glyphs(face)
    pen = 0.0
    x0, y0, x1, y1 = [], [], [], []
    before = ""
    for character in text:
        found = table.get(character)
        if found is None:
            found = table[character] = _glyph(face, character)
        if kerned and before:
            pair = before + character
            kern = table.get(pair)
            if kern is None:
                single = table[before][0] + found[0]
                kern = table[pair] = (float(font(face).getlength(pair)) - single, None)
            pen += kern[0]
        advance, ink = found
        if ink is not None:
            x0.append(pen + ink[0])
            y0.append(ink[1])
            x1.append(pen + ink[2])
            y1.append(ink[3])
        pen += advance
        before = character
    if not x0:
        return pen, (0, 0, max(1, round(pen)), height(face))
    return pen, (round(min(x0)), min(y0), round(max(x1)), max(y1))


Glyph: TypeAlias = tuple[float, tuple[int, int, int, int] | None]  # advance, ink; None for a blank


@functools.lru_cache(maxsize=512)
def _glyphs(face: Face) -> tuple[dict[str, Glyph], bool]:
    """The glyphs (and kerned pairs) of a face measured so far, and whether its file has a kerning table."""
    return {}, _has_kerning(str(font(face).path))


def _glyph(face: Face, character: str) -> Glyph:
    loaded = font(face)
    mask, (left, top) = loaded.getmask2(character, "L")
    box = mask.getbbox()
    ink = None if box is None else (int(left + box[0]), int(top + box[1]), int(left + box[2]), int(top + box[3]))
    return float(loaded.getlength(character)), ink


@functools.cache
def _has_kerning(path: str) -> bool:
    """Whether the font file's table directory names a ``kern`` table, the only kerning that plain layout applies."""
    with open(path, "rb") as file:
        count = struct.unpack(">4xH6x", file.read(12))[0]
        return any(file.read(16)[:4] == b"kern" for _ in range(count))


@functools.lru_cache(maxsize=512)
def height(face: Face) -> int:
    """Ascent plus descent in pixels."""
    ascent, descent = font(face).getmetrics()
    return int(ascent + descent)


def families(split: Split, *roles: Role) -> tuple[Family, ...]:
    """The split's families of these roles."""
    return tuple(f for f in FAMILIES[split] if f.role in roles)
