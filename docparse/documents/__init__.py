"""Reading documents: PDFs and pictures as pages with words whose boxes lie on the page as shown."""

from docparse.documents.document import Document
from docparse.documents.embedding import TextEmbedder
from docparse.documents.lines import Neighbours, neighbours
from docparse.documents.opening import Limits, open_document
from docparse.documents.page import Page, PasswordError, Sight, Sights, Word
from docparse.documents.workshop import PageTimeoutError

__all__ = [
    "Document",
    "Limits",
    "Neighbours",
    "Page",
    "PageTimeoutError",
    "PasswordError",
    "Sight",
    "Sights",
    "TextEmbedder",
    "Word",
    "neighbours",
    "open_document",
]
