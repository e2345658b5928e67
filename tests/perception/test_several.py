"""Questions with several right options: prompt, reading of letters, the three methods, and exact scoring of the set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ScriptedVLM, boxes_reply, canvas, zoom_reply

from backbone.contracts import Box
from backbone.errors import ConfigError, DataError
from backbone.images import SourceImage
from perception.benchmarks.items import Benchmark, Item
from perception.config import PerceptionConfig
from perception.evaluate import evaluate, read_records
from perception.oracle import Oracle
from perception.pipeline import Searcher
from perception.prompts import multiple_choice
from perception.scoring_several import choose_several

OPTIONS = ("Pond", "Road", "Field, dry", "Sand and gravel")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A B D", (0, 1, 3)),
        ("D B A", (0, 1, 3)),
        ("A, B and D", (0, 1, 3)),
        ("A, B, C, and D", (0, 1, 2, 3)),
        ("ABD", (0, 1, 3)),
        ("BAD", (0, 1, 3)),
        ("(A) (C)", (0, 2)),
        ("[A, C]", (0, 2)),
        ("**A**, **C**", (0, 2)),
        ("A\nB\nC", (0, 1, 2)),
        ("B", (1,)),
        ("B B", (1,)),
        ("The answer(s) is(are): A C", (0, 2)),
        ("Answers: A, C.", (0, 2)),
        ("The correct options are B and D", (1, 3)),
        ("First the answer is A. No, the answers are B and C.", (1, 2)),
        ("A. Pond\nC. Field, dry", (0, 2)),
        ("(A) Pond; (D) Sand and gravel", (0, 3)),
        ("- A. Pond\n- B. Road", (0, 1)),
        ("I see A and C in it", (0, 2)),
        ("A pond lies there, so A and B", (0, 1)),
        ("<think>A B</think>C D", (2, 3)),
        ("<answer>B D</answer>", (1, 3)),
        ("\\boxed{A, D}", (0, 3)),
        ("Pond, road", (0, 1)),
        ("Sand and gravel", (3,)),
        ("field, dry; pond", (0, 2)),
    ],
)
def test_letters_are_found(text: str, expected: tuple[int, ...]) -> None:
    assert choose_several(text, OPTIONS) == expected


@pytest.mark.parametrize(
    "text", ["", "No idea.", "A pond is seen.", "A and C are there, B is not.", "A E", "AE", "AA", "Pond and a tree"]
)
def test_nothing_is_guessed(text: str) -> None:
    assert choose_several(text, OPTIONS) == ()


@given(st.sets(st.integers(0, 3), min_size=1), st.randoms(), st.sampled_from([" ", ", ", "; ", " and ", "\n", ""]))
def test_any_order_and_separator(places: set[int], random: object, between: str) -> None:
    letters = ["ABCD"[p] for p in places]
    random.shuffle(letters)  # type: ignore[attr-defined]
    assert choose_several(between.join(letters), OPTIONS) == tuple(sorted(places))
    assert choose_several(f"The answers are: {between.join(letters) if between else ' '.join(letters)}", OPTIONS) == (
        tuple(sorted(places))
    )


def test_the_prompt_asks_for_all_letters() -> None:
    several, single = multiple_choice("Which?", OPTIONS, True), multiple_choice("Which?", OPTIONS)
    assert several.splitlines()[:-1] == single.splitlines()[:-1]
    assert "letters of all right options" in several.splitlines()[-1]
    assert "separated by spaces" in several.splitlines()[-1]


@pytest.mark.parametrize("method", ["native", "sparc", "zoom"])
def test_every_method_answers_freely(method: str) -> None:
    first = {"native": [], "sparc": [boxes_reply((1, 1, 99, 99))], "zoom": [zoom_reply((1, 1, 99, 99))]}[method]
    vlm = ScriptedVLM([*first, "D, A"])
    answer = Searcher(vlm, PerceptionConfig(method=method)).ask(canvas(900, 500), "Which?", OPTIONS, several=True)
    assert (answer.chosen, answer.choice, answer.text) == ((0, 3), None, "D, A")
    assert answer.to_dict()["chosen"] == [0, 3]
    assert not vlm.calls[-1].options["choices"]
    assert "letters of all right options" in vlm.calls[-1].text


def test_a_demanded_answer_of_the_zoom_loop_is_free_too() -> None:
    vlm = ScriptedVLM([zoom_reply((1, 1, 99, 99)), "B and C"])
    config = PerceptionConfig(method="zoom", zoom_turns=2)
    assert Searcher(vlm, config).ask(canvas(900, 500), "Which?", OPTIONS, several=True).chosen == (1, 2)
    assert not vlm.calls[-1].options["choices"]


def item(number: int, right: tuple[int, ...]) -> Item:
    load = lambda: SourceImage.from_array(canvas(300, 200))  # noqa: E731
    return Item(f"i{number}", "use", f"Question {number}?", OPTIONS, right[0], load, several=right)


def test_only_exactly_the_right_set_counts(tmp_path: Path) -> None:
    replies = ["C A", "A", "A B C", "none of them", "B"]
    items = (*(item(i, (0, 2)) for i in range(4)), item(4, (1,)))
    config = PerceptionConfig(method="native")
    report = evaluate(ScriptedVLM(list(replies)), Benchmark("t", "s", items), config, tmp_path, progress=False)
    records = read_records(tmp_path)
    assert [r["correct"] for r in records] == [True, False, False, False, True]
    assert [r["choice"] for r in records] == [[0, 2], [0], [0, 1, 2], None, [1]]
    assert records[0]["answer"] == [0, 2]
    assert report["n"]["unanswered"] == 1
    again = evaluate(ScriptedVLM([]), Benchmark("t", "s", items), config, tmp_path, resume=True, progress=False)
    assert again["accuracy"] == report["accuracy"]


@pytest.mark.parametrize("several", [(0, 4), (2, 0), (1, 2), (0, 0)])
def test_impossible_items_are_refused(several: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="right options"):
        replace(item(0, (0,)), several=several)


def test_several_need_options_and_no_oracle() -> None:
    searcher = Searcher(ScriptedVLM([]), PerceptionConfig())
    with pytest.raises(ConfigError, match="no options"):
        searcher.ask(canvas(300, 200), "Which?", several=True)
    with pytest.raises(DataError, match="several right options"):
        Oracle().answer(
            searcher, replace(item(0, (0, 1)), boxes=(Box(1, 1, 9, 9),)), SourceImage.from_array(canvas(300, 200)), 0
        )
