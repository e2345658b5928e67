import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from perception.scoring import LETTERS, choose, extract_letter, match_text, normalised

SHAPES = ("red circle", "blue square", "green star", "circle")
DIRECTIONS = ("left", "right", "above", "below")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", 1),
        ("b", 1),
        ("(B)", 1),
        ("B.", 1),
        (" **B** ", 1),
        ("[C]", 2),
        ("`D`", 3),
        ("B. blue square", 1),
        ("(C) green star", 2),
        ("**D)** circle", 3),
        ("A: red circle", 0),
        ("The answer is B", 1),
        ("The answer is (C).", 2),
        ("Answer: D", 3),
        ("answer = **A**", 0),
        ("The correct option is B, since the square is blue.", 1),
        ("I choose C", 2),
        ("The best choice would be D.", 3),
        ("First I thought the answer is A. Wait: the answer is B.", 1),
        ("<answer>C</answer>", 2),
        ("<think>The answer is A?</think><answer>(D) circle</answer>", 3),
        ("<think>the answer is A, no\nB</think>\nC", 2),
        ("So \\boxed{B}", 1),
        ("\\boxed{\\text{C}}", 2),
        ("Looking closely, it must be option (b).", 1),
        ("It is B because of its shape", 1),
        ("A red circle is at the top, so B", 1),
        ("The answer is A", 0),
        ("I think C", 2),
        ("Option B is right\n", 1),
        ("B. blue square. Option A is wrong.", 1),
        ("The correct choice must be D", 3),
        ("答案是 B。", 1),
        ("B\n\nThe square is blue.", 1),
    ],
)
def test_letter_is_found(text: str, expected: int) -> None:
    assert extract_letter(text, 4) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "A red circle.",
        "I see nothing",
        "E",
        "(F)",
        "Either B or C",
        "Option A or option C",
        "(A) or (B)",
        "A, B, C and D are all possible",
        "Background",
        "Abc",
        "<answer></answer>",
        "I'd say it's unclear",
        "<think>B is what I would say",
    ],
)
def test_no_letter_is_no_guess(text: str) -> None:
    assert extract_letter(text, 4) is None


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("left", DIRECTIONS, 0),
        ("It is to the LEFT.", DIRECTIONS, 0),
        ("to the left or to the right", DIRECTIONS, None),
        ("a red circle", SHAPES, 0),
        ("The Circle", SHAPES, 3),
        ("I see a red circle there", SHAPES, 0),
        ("the blue square, not the green star", SHAPES, None),
        ("leftover", DIRECTIONS, None),
        ("café", ("cafe", "bar"), 0),
        ("3.5", ("35", "3.5"), 1),
        ("-5 degrees", ("5 degrees", "-5 degrees"), 1),
        ("the a", ("a", "the"), None),
        ("", DIRECTIONS, None),
    ],
)
def test_text_is_matched(text: str, options: tuple[str, ...], expected: int | None) -> None:
    assert match_text(text, options) == expected


def test_letter_wins_where_options_are_letters() -> None:
    options = ("K", "A", "C", "T")
    assert choose("A", options) == 0  # option A, which reads K
    assert choose("K", options) == 0
    assert choose("T", options) == 3


def test_text_answers_where_no_letter_is_stated() -> None:
    assert choose("A red circle, I believe.", SHAPES) == 0
    assert choose("The answer is A red circle", ("blue square", "red circle")) == 1


def test_too_many_options_are_refused() -> None:
    with pytest.raises(DataError, match="at most 10"):
        choose("A", [str(i) for i in range(11)])


@given(st.integers(2, 10), st.data())
def test_every_letter_round_trips(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    form = data.draw(st.sampled_from(["{}", "({})", "{}.", "The answer is {}.", "<answer>{}</answer>", "{}) text"]))
    assert extract_letter(form.format(LETTERS[index]), count) == index


@given(st.text(max_size=60))
def test_any_text_is_survived(text: str) -> None:
    choice = choose(text, DIRECTIONS)
    assert choice is None or 0 <= choice < 4
    assert normalised(normalised(text)) == normalised(text)
