"""The upload field for documents: hands on where the server stored the upload, and reads it once, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from apps.demo.config import DemoConfig
from apps.demo.picture_input import NoStubs, stored_bytes
from backbone.errors import DataError

READABLE = (".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".gif", ".bmp")  # offered by the file chooser
ONLY_UPLOADS = "Documents are taken as uploads only; addresses are not fetched."


class DocumentInput(gr.File, metaclass=NoStubs):
    """`gr.File` for one file that leaves opening it to `read_upload`, and never fetches an address.

    It has no constructor of its own: Gradio reads a component's settings for the page from the constructor's
    parameters.
    """

    is_template = True  # the page shows gr.File's own widget

    def preprocess(self, payload: Any) -> str | None:
        """The stored upload's path; what the file is shows its content, not its name."""
        if payload is None:
            return None
        files = getattr(payload, "root", payload)  # a list of files has them there
        file = files[0] if isinstance(files, list) else files
        if not file.path or (file.url or "").startswith("data:"):
            raise gr.Error(ONLY_UPLOADS, print_exception=False)
        return str(file.path)

    async def async_move_resource_to_block_cache(self, url_or_file_path: str | Path | None) -> str | None:
        """Refuses addresses, which gr.File would download."""
        if str(url_or_file_path).lower().startswith(("http:", "https:", "//", "ftp:", "data:")):
            raise gr.Error(ONLY_UPLOADS, print_exception=False)
        return await super().async_move_resource_to_block_cache(url_or_file_path)


def read_upload(path: str | None, config: DemoConfig) -> tuple[bytes, str]:
    """The bytes of a stored upload and its name; no message repeats the path.

    Raises:
        DataError: no document was given, or it is over the limit.
    """
    content = stored_bytes(path, config, "document", "split it")
    if not content:
        raise DataError("the document is empty (0 bytes); choose another file")
    return content, Path(str(path)).name
