"""Generated documents with exact words, questions, answers and evidence; train and held-out kept apart."""

from docparse.generator.document import (
    SPLITS,
    GeneratedDocument,
    GeneratedPage,
    Question,
    Region,
    Split,
    Word,
)
from docparse.generator.make import MAXIMUM_PAGES, make_document
from docparse.generator.misreading import misread
from docparse.generator.templates import KINDS

__all__ = [
    "KINDS",
    "MAXIMUM_PAGES",
    "SPLITS",
    "GeneratedDocument",
    "GeneratedPage",
    "Question",
    "Region",
    "Split",
    "Word",
    "make_document",
    "misread",
]
