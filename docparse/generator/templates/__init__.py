"""The templates of every kind of document, those of the train and the held-out split apart."""

from __future__ import annotations

from collections.abc import Callable

from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.templates.forms import TEMPLATES as FORMS
from docparse.generator.templates.invoices import TEMPLATES as INVOICES
from docparse.generator.templates.letters import TEMPLATES as LETTERS
from docparse.generator.templates.manuals import TEMPLATES as MANUALS
from docparse.generator.templates.reports import TEMPLATES as REPORTS
from docparse.generator.templates.slides import TEMPLATES as SLIDES
from docparse.generator.templates.tabular import TEMPLATES as TABLES

Template = Callable[[Draft], None]
TEMPLATES: dict[str, dict[Split, dict[str, Template]]] = {
    "invoice": INVOICES,
    "form": FORMS,
    "letter": LETTERS,
    "table": TABLES,
    "report": REPORTS,
    "slides": SLIDES,
    "manual": MANUALS,
}
KINDS: tuple[str, ...] = tuple(TEMPLATES)
