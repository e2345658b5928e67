import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perception.parsing import Region, first_object, parse_regions

A, B = (291.0, 101.0, 546.0, 225.0), (10.0, 20.0, 30.0, 40.0)

# What models write, and what must be read from it: (text, numbers of the regions, labels).
OUTPUTS: list[tuple[str, list[tuple[float, ...]], list[str]]] = [
    ('[{"bbox_2d": [291, 101, 546, 225], "label": "head"}]', [A], ["head"]),
    ('```json\n[\n\t{"bbox_2d": [291, 101, 546, 225], "label": "head"}\n]\n```', [A], ["head"]),
    ('Sure! Here it is:\n```\n[{"bbox_2d": [291,101,546,225], "label": "head"}]\n```\nHope this helps.', [A], ["head"]),
    ('Look [here]: [{"bbox_2d": [291,101,546,225], "label": "head"}]', [A], ["head"]),
    ("[{'bbox_2d': [291, 101, 546, 225], 'label': 'head'}]", [A], ["head"]),
    ("[{'bbox_2d': [291, 101, 546, 225], 'label': 'dog\\'s head'},]", [A], ["dog s head"]),
    ('[{"bbox_2d": [291, 101, 546, 225,], "label": "head",},]', [A], ["head"]),
    (
        '[{"bbox_2d": [291,101,546,225], "label": "head"}, {"bbox_2d": [10,20,30,40], "label": "ear"}',
        [A, B],
        ["head", "ear"],
    ),
    ('[{"bbox_2d": [291,101,546,225], "label": "head"}, {"bbox_2d": [10, 20, 3', [A], ["head"]),
    ('[{"bbox_2d": [291,101,546,225], "label": "head"}, {"bbox_2d": [10, 20, 30, 4', [A], ["head"]),
    ('[{"bbox_2d": [291,101,546,225], "label": "head"}, {"bbox', [A], ["head"]),
    ('[{"bbox": [291,101,546,225], "label": "head"}]', [A], ["head"]),
    ('[{"box": [291,101,546,225], "name": "head"}]', [A], ["head"]),
    ('[{"point_2d": [291, 101], "label": "eye"}]', [(291.0, 101.0)], ["eye"]),
    ('{"point": [291, 101]}', [(291.0, 101.0)], [""]),
    ('[{"bbox_2d": [546, 225, 291, 101], "label": "head"}]', [A], ["head"]),
    ('[{"bbox_2d": ["291", "101", "546", "225"], "label": "head"}]', [A], ["head"]),
    ('[{"bbox_2d": "291, 101, 546, 225", "label": "head"}]', [A], ["head"]),
    ('[{"bbox_2d": [[291, 101], [546, 225]], "label": "head"}]', [A], ["head"]),
    ('[{"bbox_2d": {"x1": 291, "y1": 101, "x2": 546, "y2": 225}, "label": "head"}]', [A], ["head"]),
    ('[{"xmin": 291, "ymin": 101, "xmax": 546, "ymax": 225, "label": "head"}]', [A], ["head"]),
    ('[{"bbox_2d": [NaN, 101, 546, 225], "label": "x"}, {"bbox_2d": [10,20,30,40], "label": "y"}]', [B], ["y"]),
    ('[{"bbox_2d": [1e400, 101, 546, 225]}, {"bbox_2d": [10,20,30,40]}]', [B], [""]),
    ('[{"bbox_2d": [99999999999999999999, 1, 2, 3]}, {"bbox_2d": [10,20,30,40]}]', [B], [""]),
    ('[{"bbox_2d": [null, 1, 2, 3]}, {"bbox_2d": [10,20,30,40]}]', [B], [""]),
    ('[{"bbox_2d": [1, 2, 3]}, {"bbox_2d": [10,20,30,40,50]}, {"bbox_2d": [10,20,30,40]}]', [B], [""]),
    ("[291, 101, 546, 225]", [A], [""]),
    ("[[291, 101, 546, 225], [10, 20, 30, 40]]", [A, B], ["", ""]),
    (
        '{"bbox_2d": [291,101,546,225], "label": "head"}\n{"bbox_2d": [10,20,30,40], "label": "ear"}',
        [A, B],
        ["head", "ear"],
    ),
    ('{"objects": [{"bbox_2d": [291,101,546,225], "label": "head"}]}', [A], ["head"]),
    ('{"head": [291,101,546,225], "ear": [10,20,30,40]}', [A, B], ["head", "ear"]),
    ("[{bbox_2d: [291,101,546,225], label: head}]", [A], ["head"]),
    ('[{"bbox_2d": [291,101,546,225], "label": "the "red" head"}]', [A], ["the red head"]),
    ('[{"bbox_2d": [291 101 546 225], "label": "head"}]', [A], ["head"]),
    ('<think>maybe [1,2,3,4]?</think>[{"bbox_2d": [291,101,546,225], "label": "头部"}]', [A], ["头部"]),
    ("<|object_ref_start|>head<|object_ref_end|><|box_start|>(291,101),(546,225)<|box_end|>", [A], ["head"]),
    ("head(291,101),(546,225) ear(10,20),(30,40)", [A, B], ["head", "ear"]),
    ('[{"bbox_2d": [291,101,546,225], "label": "<|im_end|> head"}]', [A], ["head"]),
    ('[{"bbox_2d": [291,101,546,225], "label": null}]', [A], [""]),
    ('[{"bbox_2d": [291,101,546,225], "label": "head"}][{"bbox_2d": [10,20,30,40], "label": "again"}]', [A], ["head"]),
    ("The answer is B.", [], []),
    ("[]", [], []),
    ("", [], []),
    ('{"answer": "B", "options": ["a", "b"]}', [], []),
]


@pytest.mark.parametrize(("text", "numbers", "labels"), OUTPUTS)
def test_realistic_outputs(text: str, numbers: list[tuple[float, ...]], labels: list[str]) -> None:
    parsed = parse_regions(text)
    assert [region.numbers for region in parsed.regions] == numbers
    assert [region.label for region in parsed.regions] == labels
    if not numbers:
        assert parsed.notes


def test_there_are_enough_realistic_outputs() -> None:
    assert len(OUTPUTS) >= 30


def test_clean_output_has_no_notes_and_repairs_are_stated() -> None:
    assert parse_regions('[{"bbox_2d": [1, 2, 3, 4], "label": "a"}]').notes == ()
    assert "swapped reversed corners" in parse_regions('[{"bbox_2d": [3, 4, 1, 2]}]').notes
    assert "read numbers written as text" in parse_regions('[{"bbox_2d": ["1", "2", "3", "4"]}]').notes
    assert any("not well formed" in note for note in parse_regions("[{'bbox_2d': [1, 2, 3, 4]}]").notes)
    assert any(
        "cut off" in note for note in parse_regions('[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [1, 2, 30, 4').notes
    )
    assert any("usable" in note for note in parse_regions('[{"bbox_2d": [NaN, 2, 3, 4]}]').notes)
    assert parse_regions("[]").notes == ("reply lists no regions",)


def test_hostile_sizes_end_quickly() -> None:
    for text in ("[" * 50_000, '[{"a":' * 5000, "{[(" * 5000, '[{"bbox_2d": [1,2,3,4]},' * 5000, "[1,2,3,4" * 9000):
        assert len(parse_regions(text).regions) <= 100


JSONISH = st.text(alphabet="[]{}()\",:'-.0123456789eNaInfbox_2dlabel \n\\<|>", max_size=80)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["bbox_2d", "bbox", "point", "label", "x1", "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=80), JSONISH, VALUES.map(json.dumps), VALUES.map(repr)))
def test_never_raises_and_returns_only_usable_numbers(text: str) -> None:
    for cut in (text, text[: len(text) // 2]):
        for region in parse_regions(cut).regions:
            assert len(region.numbers) in (2, 4)
            assert all(math.isfinite(v) for v in region.numbers)
            if len(region.numbers) == 4:
                assert region.numbers[0] <= region.numbers[2]
                assert region.numbers[1] <= region.numbers[3]
        first_object(cut)


BOXES = st.lists(
    st.tuples(*[st.integers(0, 499)] * 2, *[st.integers(500, 1000)] * 2, st.from_regex(r"[a-z]{1,8}", fullmatch=True)),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(BOXES, st.sampled_from(["", "Here: ", "```json\n"]), st.sampled_from(["", "\n```", " as asked."]))
def test_well_formed_lists_are_read_exactly(
    boxes: list[tuple[int, int, int, int, str]], before: str, after: str
) -> None:
    text = before + json.dumps([{"bbox_2d": list(box[:4]), "label": box[4]} for box in boxes]) + after
    assert parse_regions(text).regions == tuple(Region(tuple(map(float, box[:4])), box[4]) for box in boxes)
