"""From facts to questions: many ways of asking, a scope where several facts could be meant, and questions in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.random import Generator

from docparse.generator.document import Question, Region
from docparse.generator.draft import Draft, Fact
from docparse.generator.fields import KNOWN, composed
from docparse.generator.question_words import ASK, BY_KIND, CELL, IN, PAGE, PERIOD, SCOPE, TWO, WEIGHTS
from docparse.generator.sheet import Sheet, Span, union
from docparse.generator.values import pick, several


@dataclass(frozen=True)
class _Index:
    """How often each phrase, key and section occurs, to know what is ambiguous."""

    phrases: Counter[str]
    keys: Counter[str]
    in_section: Counter[tuple[str, str]]
    on_page: Counter[tuple[str, int]]

    @classmethod
    def of(cls, facts: Sequence[Fact]) -> _Index:
        phrases: Counter[str] = Counter()
        keys: Counter[str] = Counter()
        in_section: Counter[tuple[str, str]] = Counter()
        on_page: Counter[tuple[str, int]] = Counter()
        for fact in facts:
            names = {name.lower() for name in fact.asks} | {f"key {fact.key}"}
            keys[fact.key] += 1
            for name in names:
                phrases[name] += 1
                in_section[name, fact.section] += 1
                for page in {span.page for span in fact.spans}:
                    on_page[name, page] += 1
        return cls(phrases, keys, in_section, on_page)


def questions(draft: Draft, rng: Generator, count: int, unanswerable: float) -> tuple[Question, ...]:
    """At most ``count`` different questions on the draft's facts, a share of them not answered by the document."""
    index = _Index.of(draft.facts)
    made: dict[str, Question] = {}
    wanted = count - int(rng.binomial(count, unanswerable))
    by_kind: dict[str, list[Fact]] = {}
    for fact in draft.facts:
        by_kind.setdefault(fact.kind, []).append(fact)
    for kind in by_kind:
        by_kind[kind] = several(rng, by_kind[kind], len(by_kind[kind]))
    kinds = [*by_kind, "two"]
    for _ in range(count * 6):
        if len(made) >= wanted or not kinds:
            break
        kind = _weighted(rng, kinds)
        if kind == "two":
            question = _pair(draft, rng, index)
        elif by_kind[kind]:
            question = _single(draft, rng, index, by_kind[kind].pop())
        else:
            kinds.remove(kind)
            continue
        if question is not None:
            made.setdefault(question.text, question)
    vain = count - len(made) if len(made) >= wanted else int(rng.binomial(len(made), unanswerable))
    for _ in range(vain * 4):
        if sum(q.kind == "unanswerable" for q in made.values()) >= vain:
            break
        text = _in_vain(draft, rng)
        if text is not None:
            made.setdefault(text, Question(text, (), (), "unanswerable", "not in the document"))
    ordered = list(made.values())
    return tuple(ordered[i] for i in rng.permutation(len(ordered)).tolist())


def regions(sheets: Sequence[Sheet], span: Span, by_line: bool) -> list[Region]:
    """The region of a span before the scan: one box, or one for each line that running text breaks it into."""
    sheet = sheets[span.page]
    if not by_line:
        return [Region(span.page, sheet.bounds(span))]
    lines: dict[int, list[tuple[float, float, float, float]]] = {}
    for word in sheet.words[span.first : span.last]:
        lines.setdefault(word.line, []).append(word.box)
    return [Region(span.page, union(boxes)) for boxes in lines.values()]


def _weighted(rng: Generator, kinds: list[str]) -> str:
    weights = [WEIGHTS[kind] for kind in kinds]
    at = float(rng.random()) * sum(weights)
    for kind, weight in zip(kinds, weights, strict=True):
        at -= weight
        if at < 0:
            return kind
    return kinds[-1]


def _scope(draft: Draft, rng: Generator, index: _Index, fact: Fact, name: str, always: float = 0.12) -> str | None:
    """Words that single the fact out among those of the same name; None if nothing does."""
    page = fact.spans[0].page
    options = []
    if fact.section and index.in_section[name, fact.section] == 1:
        options += [form.format(s=fact.section) for form in SCOPE[draft.split]]
    if len(draft.sheets) > 1 and index.on_page[name, page] == 1:
        options += [form.format(p=page + 1) for form in PAGE[draft.split][: 1 if options else None]]
    if index.phrases[name] > 1:
        return pick(rng, options) if options else None
    return pick(rng, options) if options and rng.random() < always else ""


def _single(draft: Draft, rng: Generator, index: _Index, fact: Fact) -> Question | None:
    text = _text(draft, rng, index, fact)
    if text is None:
        return None
    evidence = [r for span in fact.spans for r in regions(draft.sheets, span, fact.kind == "sentence")]
    return Question(_worn(rng, text), fact.answers, tuple(evidence), fact.kind, _note(draft, index, fact))


def _text(draft: Draft, rng: Generator, index: _Index, fact: Fact) -> str | None:
    whole = bool(fact.questions) and (not fact.asks or rng.random() < 0.5)
    name = f"key {fact.key}" if whole else pick(rng, fact.asks).lower()
    scope = _scope(draft, rng, index, fact, name)
    if scope is None:
        return None
    if whole:
        question = pick(rng, fact.questions)
        if not scope:
            return question
        if rng.random() < 0.5:
            return f"{scope.strip(' ()').capitalize()}, {question[0].lower()}{question[1:]}"
        return f"{question.rstrip('?.')}{scope}{question[-1]}"
    phrase = next(a for a in fact.asks if a.lower() == name)
    if fact.kind == "cell" and fact.row:
        return _cell_text(draft, rng, fact, scope)
    by_kind = [form for form in BY_KIND.get(fact.value_kind, ()) if not _repeats(form, phrase)]
    form = pick(rng, by_kind) if by_kind and rng.random() < 0.25 else pick(rng, ASK[draft.split])
    return form.format(n=phrase, N=phrase[0].upper() + phrase[1:], s=scope)


def _cell_text(draft: Draft, rng: Generator, fact: Fact, scope: str) -> str:
    """A question for a row and a column; where either is a period, as one speaks of periods."""
    row, column = fact.row, fact.column
    if PERIOD.fullmatch(column):
        text = pick(rng, IN[draft.split]).format(m=_lower(row), p=column, s=scope)
    elif PERIOD.fullmatch(row):
        text = pick(rng, IN[draft.split]).format(m=_lower(column), p=row, s=scope)
    else:
        text = pick(rng, CELL[draft.split]).format(c=_lower(column), r=row, s=scope)
    return text[0].upper() + text[1:]


def _repeats(form: str, phrase: str) -> bool:
    """Whether a form and a phrase share a word, as in "On what date is the date of ..."."""
    return bool(set(form.lower().split()) & set(phrase.lower().split()) - {"the", "of", "is"})


def _lower(name: str) -> str:
    """A printed name inside a sentence: lower case unless it is an abbreviation."""
    return name if len(name) > 1 and name[1].isupper() else name[0].lower() + name[1:]


def _worn(rng: Generator, text: str) -> str:
    """As people type: now and then all lower case, or without the mark at the end."""
    worn = rng.random()
    return text.lower() if worn < 0.04 else text.rstrip("?.") if worn < 0.1 else text


def _pair(draft: Draft, rng: Generator, index: _Index) -> Question | None:
    """A question for two values: of one name in two sections or pages, else of two names."""
    fit = [f for f in draft.facts if f.kind == "value" and f.asks]
    if len(fit) < 2:
        return None
    first = pick(rng, fit)
    alike = [f for f in fit if f.key == first.key and f is not first]
    second = pick(rng, alike if alike and rng.random() < 0.7 else fit)
    if second is first or second.answers[0] == first.answers[0]:
        return None
    names = []
    for fact in (first, second):
        name = pick(rng, fact.asks)
        scope = _scope(draft, rng, index, fact, name.lower(), 0.0)
        if scope is None:
            return None
        names.append(name + scope)
    if names[0] == names[1]:
        return None
    text = pick(rng, TWO[draft.split]).format(a=names[0], b=names[1])
    a, b = first.answers[0], second.answers[0]
    evidence = [r for fact in (first, second) for span in fact.spans for r in regions(draft.sheets, span, False)]
    note = "; ".join(_note(draft, index, fact) for fact in (first, second))
    return Question(text, (f"{a} and {b}", f"{a}, {b}", f"{b} and {a}", f"{a} {b}"), tuple(evidence), "two", note)


def _note(draft: Draft, index: _Index, fact: Fact) -> str:
    alike = sum(f.value_kind == fact.value_kind for f in draft.facts) - 1 if fact.value_kind else 0
    named = max([index.phrases[a.lower()] for a in fact.asks] + [index.keys[fact.key]]) - 1
    return f"{alike} other values of kind {fact.value_kind or fact.kind}, {named} asked for alike"


def _in_vain(draft: Draft, rng: Generator) -> str | None:
    """A question that fits the kind of document but whose field, row or column is not there; None if it might be."""
    printed = " ".join(word.text for sheet in draft.sheets for word in sheet.words).lower()
    asked = {name.lower() for fact in draft.facts for name in fact.asks}
    cells = [f for f in draft.facts if f.kind == "cell" and f.row]
    if cells and rng.random() < 0.35:
        cell, other = pick(rng, cells), draft.values.product()
        if other.lower() in printed:
            return None
        text = pick(rng, CELL[draft.split]).format(c=_lower(cell.column), r=other, s="")
        return text[0].upper() + text[1:]
    if rng.random() < 0.5:
        group = pick(rng, tuple(KNOWN[draft.split]))
        known = pick(rng, tuple(KNOWN[draft.split][group].values()))
        keys = {fact.key for fact in draft.facts}
        names = [
            n.lower() for part in KNOWN.values() for n in (*part[group][known.key].asks, *part[group][known.key].labels)
        ]
        if known.key in keys or any(name in printed or name in asked for name in names):
            return None
        if known.questions and rng.random() < 0.4:
            return pick(rng, known.questions)
        name = pick(rng, known.asks)
    else:
        field = composed(draft.values, set())
        if any(ask in printed or ask in asked for ask in field.asks):
            return None
        name = field.asks[0]
    return pick(rng, ASK[draft.split]).format(n=name, N=name[0].upper() + name[1:], s="")
