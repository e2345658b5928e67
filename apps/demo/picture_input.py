"""The upload field: hands on where the server stored the upload, and reads it once, within limits."""

from __future__ import annotations

from abc import ABCMeta
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.component_meta import ComponentMeta
from gradio.data_classes import ImageData

from apps.demo.config import DemoConfig
from backbone.errors import DataError
from backbone.images import SourceImage, read_image


class NoStubs(ComponentMeta):
    """Makes a component class without writing a .pyi file beside its source, which Gradio's own metaclass does."""

    def __new__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> Any:
        """The class as it stands."""
        return ABCMeta.__new__(cls, name, bases, attributes)


class PictureInput(gr.Image, metaclass=NoStubs):
    """`gr.Image` that leaves decoding to `read_picture`, takes uploads only, and never fetches an address.

    Make it with ``type="filepath"``. It has no constructor of its own: Gradio reads a component's settings for the page
    from the constructor's parameters.
    """

    is_template = True  # the page shows gr.Image's own widget

    def preprocess(self, payload: ImageData | None) -> str | None:
        """The stored upload's path; gr.Image would open the file here and fail without a readable message."""
        if payload is None:
            return None
        if payload.path is None or (payload.url or "").startswith("data:"):
            raise gr.Error("Pictures are taken as uploads only; send the file.", print_exception=False)
        return str(payload.path)

    async def async_move_resource_to_block_cache(self, url_or_file_path: str | Path | None) -> str | None:
        """Refuses addresses, which gr.Image would download."""
        if str(url_or_file_path).lower().startswith(("http:", "https:", "//", "ftp:", "data:")):
            raise gr.Error("Pictures are taken as uploads only; addresses are not fetched.", print_exception=False)
        return await super().async_move_resource_to_block_cache(url_or_file_path)


def read_picture(path: str | None, config: DemoConfig) -> SourceImage:
    """Decode a stored upload, whose path no message repeats.

    Raises:
        DataError: no picture was given, or it is over the limits, broken or of another kind.
    """
    content = stored_bytes(path, config, "picture", "shrink it or compress it")
    return read_image(content, limits=config.image_limits)


def stored_bytes(path: str | None, config: DemoConfig, kind: str, remedy: str) -> bytes:
    """A stored upload's bytes; raises `DataError` where there is none, or where it is over the limit."""
    if path is None:
        raise DataError(f"choose a {kind} first")
    with Path(path).open("rb") as file:
        content = file.read(config.max_upload_bytes + 1)  # one byte more shows that the limit is passed
    if len(content) > config.max_upload_bytes:
        raise DataError(f"the {kind} is over the limit of {config.max_upload_mb:g} MB; {remedy}")
    return content
