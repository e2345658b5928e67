"""How questions are worded, by split, and how often each kind is asked."""

from __future__ import annotations

import re

from docparse.generator.document import Split

ASK: dict[Split, tuple[str, ...]] = {
    "train": (
        "What is the {n}{s}?", "What is the {n}{s}?", "What's the {n}{s}?", "Find the {n}{s}.",
        "Which {n} is stated{s}?",
        "State the {n}{s}.", "Give the {n}{s}.", "{N}{s}?", "Tell me the {n}{s}", "Can you find the {n}{s}?",
        "Please give me the {n}{s}.", "What does it say for the {n}{s}?", "Read off the {n}{s}.",
    ),
    "held_out": (
        "What is the {n}{s}?", "What {n} does the document give{s}?", "Look up the {n}{s}.", "I need the {n}{s}.",
        "Show me the {n}{s}.", "Could you tell me what the {n} is{s}?", "Where does one find the {n}{s}?",
    ),
}  # fmt: skip
BY_KIND: dict[str, tuple[str, ...]] = {
    "date": ("When is the {n}{s}?", "On what date is the {n}{s}?"),
    "money": ("How much is the {n}{s}?", "How high is the {n}{s}?"),
    "round_money": ("How much is the {n}{s}?",),
    "person": ("Who is the {n}{s}?", "Who is named as the {n}{s}?"),
    "company": ("Which company is the {n}{s}?", "Who is the {n}{s}?"),
    "town": ("Where is the {n}{s}?",),
    "time": ("At what time is the {n}{s}?",),
    "measure": ("How much is the {n}{s}?",),
    "weight": ("How heavy is it: what is the {n}{s}?", "How high is the {n}{s}?"),
    "length": ("How long is the {n}{s}?",),
    "temperature": ("How high is the {n}{s}?", "How warm is the {n}{s}?"),
    "pressure": ("How high is the {n}{s}?",),
    "voltage": ("How high is the {n}{s}?",),
    "volume": ("How large is the {n}{s}?",),
    "distance": ("How far is the {n}{s}?",),
    "area": ("How large is the {n}{s}?",),
    "days": ("How long is the {n}{s}?",),
}
CELL: dict[Split, tuple[str, ...]] = {
    "train": (
        "What is the {c} of {r}{s}?", "What is the {c} for {r}{s}?", "{r}: what is the {c}{s}?",
        "How high is the {c} of {r}{s}?",
        "Give the {c} for {r}{s}.", "Find the {c} in the row of {r}{s}.", "Which {c} does {r} have{s}?",
        "{c} of {r}{s}?",
    ),
    "held_out": (
        "What is the {c} of {r}{s}?", "What does the table give as {c} for {r}{s}?",
        "Look up {r} and state its {c}{s}.",
        "In the line of {r}, what is the {c}{s}?", "What {c} is listed against {r}{s}?",
    ),
}  # fmt: skip
IN: dict[Split, tuple[str, ...]] = {
    "train": (
        "How high is the figure for {m} in {p}{s}?", "What was the value of {m} in {p}{s}?",
        "What is the number for {m} in {p}{s}?",
        "What does it say for {m} in {p}{s}?", "{m} in {p}{s}?", "Give the figure for {m} in {p}{s}.",
    ),
    "held_out": (
        "What was the value of {m} in {p}{s}?", "What number is given for {m} in {p}{s}?", "Look up {m} for {p}{s}.",
        "In {p}, what was the figure for {m}{s}?",
    ),
}  # fmt: skip
PERIOD = re.compile(r"(?:19|20)\d\d|Q[1-4]|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*")
TWO: dict[Split, tuple[str, ...]] = {
    "train": ("What are the {a} and the {b}?", "Give the {a} and the {b}.", "Find both the {a} and the {b}."),
    "held_out": (
        "What are the {a} and the {b}?",
        "I need two things: the {a} and the {b}.",
        "State the {a} as well as the {b}.",
    ),
}
SCOPE: dict[Split, tuple[str, ...]] = {
    "train": (" in {s}", " according to {s}", " under {s}"),
    "held_out": (" as given in {s}", " in {s}", " for {s}"),
}
PAGE: dict[Split, tuple[str, ...]] = {
    "train": (" on page {p}", " (page {p})"),
    "held_out": (" on page {p}", " on sheet {p}"),
}
WEIGHTS = {
    "value": 4.0,
    "cell": 3.0,
    "sentence": 2.0,
    "row": 0.7,
    "address": 1.2,
    "paragraph": 1.0,
    "figure": 0.8,
    "two": 1.0,
    "picture": 6.0,
    "signature": 6.0,
    "stamp": 6.0,
    "box": 2.0,
}
