"""Replies of models that were not held to the five strings, as they are really written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navigation.actions import ALL, END, LEFT, MOVE, OBS, RIGHT
from navigation.parsing import clean_thought, parse_action, split_thought

REPLIES = [
    # the words themselves, and near misses
    *[(action, action) for action in ALL],
    (" MoveAhead 0.25\n", MOVE),
    ("MoveAhead", MOVE),
    ("moveahead 0.25", MOVE),
    ("MOVE_AHEAD", MOVE),
    ("`RotateLeft 30.0`", LEFT),
    ("RotateRight(30)", RIGHT),
    ("RotateRight 30", RIGHT),
    ("**obs**", OBS),
    ("End.", END),
    # prose
    ("I will turn left 30 degrees", LEFT),
    ("I will turn 30 degrees to the left.", LEFT),
    ("I'll rotate right to see the corridor.", RIGHT),
    ("Turn slightly to the right", RIGHT),
    ("Move forward.", MOVE),
    ("Let's keep going straight through the door", MOVE),
    ("STOP.", END),
    ("Stop", END),
    ("I have reached the bed, so I stop here.", END),
    ("The chair is right in front of me. Done!", END),
    ("Stop and look around", OBS),
    ("I should scan the room with a 360 view.", OBS),
    ("There is a wall ahead. I can't move forward, so I will turn right.", RIGHT),
    ("The way is blocked; instead of going forward, turn left", LEFT),
    ("I do not see the sofa. Go forward.", MOVE),
    ("left", LEFT),
    ("Right.", RIGHT),
    ("forward", MOVE),
    # labels and JSON
    ("Action: MoveAhead 0.25", MOVE),
    ("The door is on the right side.\nAction: turn left", LEFT),
    ("Answer: obs", OBS),
    ('{"action": "RotateLeft 30.0"}', LEFT),
    ('```json\n{"thought": "move forward is blocked", "action": "turn_right"}\n```', RIGHT),
    ('{"action": {"name": "MoveAhead", "value": 0.25}}', MOVE),
    ('{"actions": [], "next_action": "stop"', END),
    ('["RotateRight 30.0", "MoveAhead 0.25"]', RIGHT),
    # several, thoughts, other languages
    ("MoveAhead 0.25, MoveAhead 0.25, RotateLeft 30.0", MOVE),
    ("RotateLeft 30.0\nMoveAhead 0.25", LEFT),
    ("<think_start>turn left later<think_end>\nMoveAhead 0.25", MOVE),
    ("<think>I could turn right.</think>\n\nRotateLeft 30.0", LEFT),
    ("向前移动0.25米", MOVE),
    ("我将左转30度。", LEFT),
    ("前方有墙，无法前进，右转。", RIGHT),
    ("停止", END),
    ("环顾四周", OBS),
    ("动作：右转", RIGHT),
]
SILENT = [
    "",
    "   \n",
    "<think_start>still thinking about the left door",
    "I see a kitchen with a table.",
    "At the end of the corridor there is a lamp.",
    "I observe a door and a plant.",
    "I cannot help with that.",
    "The bed is on the left side of the room",
    "{}",
    "[]",
    "12345",
    "我看到一张床",
]


@pytest.mark.parametrize(("text", "action"), REPLIES)
def test_an_action_is_read(text, action):
    assert parse_action(text).action == action


@pytest.mark.parametrize("text", SILENT)
def test_where_there_is_none_nothing_is_guessed(text):
    parsed = parse_action(text)
    assert parsed.action is None
    assert parsed.note


def test_repairs_are_noted():
    assert parse_action("MoveAhead 0.25").note == ""
    assert parse_action("MoveAhead 0.25, RotateLeft 30.0").note == "first of 2 actions"
    assert "prose" in parse_action("go forward").note


@given(st.text(max_size=200))
def test_any_text_is_survived(text):
    assert parse_action(text).action in (None, *ALL)


@given(st.sampled_from(ALL), st.sampled_from(["", " ", "\n", ".", "  \n\n"]))
def test_the_five_strings_survive_what_surrounds_them(action, around):
    assert parse_action(around + action + around).action == action


def test_thoughts_are_split_off():
    assert split_thought("<think_start> a door <think_end>\nobs") == ("a door", "\nobs")
    assert split_thought("no tags at all") == ("", "no tags at all")
    assert split_thought("<think_start>unfinished") == ("unfinished", "")
    assert split_thought("half<think_end>MoveAhead 0.25") == ("half", "MoveAhead 0.25")
    assert clean_thought("<think_start>a<think_end>b") == "a b"
