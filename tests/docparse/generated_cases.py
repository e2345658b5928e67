"""Many generated documents, and how much of their pages evidence covers."""

import functools

from docparse.areas import evidence_share
from docparse.generator import SPLITS, GeneratedDocument, make_document


@functools.cache  # most tests look at the same documents
def many(count: int, **options: object) -> list[GeneratedDocument]:
    return [make_document(s, split, render=False, **options) for s in range(count) for split in SPLITS]  # type: ignore[arg-type]


def shares(document: GeneratedDocument) -> list[float]:
    sizes = [(float(p.width), float(p.height)) for p in document.pages]
    return [evidence_share(q.evidence, sizes) for q in document.questions if q.evidence]
