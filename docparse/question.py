"""What can be asked of a document; checked before anything is loaded."""

from __future__ import annotations

from backbone.errors import ConfigError
from docparse.fields.text import content_tokens

MAX_QUESTION = 1000  # characters
CANNOT_READ = (
    "nano cannot read text, so it cannot write answers from close-ups of a document; leave the model out for answers "
    "in the document's own words, or give one that reads, such as Qwen/Qwen3-VL-4B-Instruct"
)


def check_question(question: str) -> None:
    """Raise `ConfigError` for a question that is empty, has no word in it, or is longer than `MAX_QUESTION`."""
    if not question.strip() or len(question) > MAX_QUESTION:
        raise ConfigError(f"a question needs 1 to {MAX_QUESTION} characters, got {len(question.strip())}")
    if not content_tokens(question):
        raise ConfigError(f"the question {question!r} has no words; ask for something that may stand in the document")
