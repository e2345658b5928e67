"""Picture files as documents: one page, or the pages of a TIFF. Runs in the reading process only."""

from __future__ import annotations

from backbone.contracts import Image
from backbone.image_files import ImageLimits, count_pages, decode
from docparse.documents.characters import RawWords
from docparse.documents.sheets import Sheet


class Picture:
    """An open picture file; pages count from 0 and are shown pixel for pixel."""

    notes: tuple[str, ...] = ()

    def __init__(self, data: bytes, max_pixels: int) -> None:
        """Open the bytes. Raises `DataError` if they are no readable picture, or one of more than ``max_pixels``."""
        self._data = data
        self.pages = count_pages(data, _limits(data, max_pixels))

    def close(self) -> None:
        """Free its memory."""
        self._data = b""

    def read(self, index: int, dpi: float, max_pixels: int, picture: bool) -> tuple[Sheet, Image | None, Image | None]:
        """The page and its picture, which is also to be read; ``dpi`` does not matter.

        Raises `DataError` if it is broken or too large.
        """
        image, notes = decode(self._data, _limits(self._data, max_pixels), frame=index)
        sheet = Sheet(image.shape[1], image.shape[0], None, None, RawWords.none(), notes)
        return sheet, image, image

    def look(self, index: int, side: int, max_pixels: int) -> Image:
        """The picture as it is. Raises `DataError` if it is broken or too large."""
        return decode(self._data, _limits(self._data, max_pixels), frame=index)[0]


def _limits(data: bytes, max_pixels: int) -> ImageLimits:
    return ImageLimits(max_pixels, max(len(data), 1))  # the bytes were counted when the file was read
