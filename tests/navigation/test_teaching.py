"""A teacher is asked twice for each thought, sees one picture more, and what gives that away is thrown away."""

import numpy as np
import pytest
from nav_records import stage_two

from backbone.errors import ConfigError
from navigation.config import NavigationConfig
from navigation.examples import places_of
from navigation.teaching import TeachingConfig, VLMTeacher, leaks, plan_messages, summary_messages, teach


@pytest.mark.parametrize(
    "text",
    [
        "The fifth image shows a bed.",
        "In image 5 there is a kitchen",
        "The future view leads to the bath.",
        "According to the ground truth, go left.",
        "As the next view shows, the door leads on.",
        "The last picture confirms it.",
        "In hindsight the left is right.",
    ],
)
def test_what_gives_the_future_away(text):
    assert leaks(text)


@pytest.mark.parametrize(
    "text",
    [
        "The corridor ahead leads on; the next room may hold the bed.",
        "I see five chairs. The view to the left shows a door.",
        "Next I go left, where I have not been.",
        "The picture on the wall is large.",
    ],
)
def test_what_does_not(text):
    assert not leaks(text)


class Said:
    """A teacher that says what it was told to say, and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts, self.asked = list(texts), []

    def generate(self, messages, **options):
        self.asked.append((messages, options))
        text = "no" if options.get("choices") else self.texts.pop(0)
        return type("Generation", (), {"texts": (text,)})()


def pictures(messages):
    return [p["image"] for m in messages for p in m["content"] if p["type"] == "image"]


def test_two_calls_and_a_judgement():
    made, teacher = stage_two(), VLMTeacher(Said("I saw a hall.", "Visual analysis: a door. High-level plan: go left."))
    assert teacher.write(made, 1) == "I saw a hall. Visual analysis: a door. High-level plan: go left."
    first, second, judged = (messages for messages, _ in teacher.vlm.asked)
    cycles = made.trajectory.cycles
    assert [np.array_equal(a, made.picture(v)) for a, v in zip(pictures(first), cycles[0].views, strict=True)] == [
        True
    ] * 4
    shown = [*cycles[1].views, cycles[2].views[0]]
    assert all(np.array_equal(a, made.picture(v)) for a, v in zip(pictures(second), shown, strict=True))
    assert len(pictures(judged)) == 4  # the judge is not shown what comes
    assert "I saw a hall." in second[0]["content"][-1]["text"]
    assert "find the bed" in second[0]["content"][-1]["text"]
    assert "MoveAhead 0.25, RotateLeft 30.0" in first[0]["content"][-1]["text"]
    assert teacher.counts == {"kept": 1}


def test_at_the_start_there_is_nothing_to_summarise():
    teacher = VLMTeacher(Said("a plan"), TeachingConfig(judge=False))
    assert teacher.write(stage_two(), 0) == "a plan"
    assert len(teacher.vlm.asked) == 1


def test_at_the_end_the_last_frame_is_what_comes():
    made, teacher = stage_two(), VLMTeacher(Said("summary", "plan"), TeachingConfig(judge=False))
    teacher.write(made, 2)
    last = made.trajectory.cycles[2].frames[-1]
    assert np.array_equal(pictures(teacher.vlm.asked[1][0])[-1], made.picture(last))


def test_leaks_are_asked_again_and_then_given_up():
    leaking = ("summary", "The fifth image shows the bed.")
    teacher = VLMTeacher(Said(*leaking, "summary", "Go left."), TeachingConfig(judge=False))
    assert teacher.write(stage_two(), 1) == "summary Go left."
    teacher = VLMTeacher(Said(*leaking, *leaking), TeachingConfig(judge=False))
    assert teacher.write(stage_two(), 1) == ""
    assert teacher.counts == {"leak by its words": 2}


@pytest.mark.parametrize("bad", ["", "one <think_end> two"])
def test_empty_thoughts_and_tags_are_refused(bad):
    teacher = VLMTeacher(Said(bad, bad), TeachingConfig(judge=False))
    assert teacher.write(stage_two(), 0) == ""


def test_a_judge_that_says_yes_is_believed():
    said = Said("plan", "plan")
    said.generate = lambda messages, **o: type("G", (), {"texts": ("yes" if o.get("choices") else "plan",)})()
    teacher = VLMTeacher(said)
    assert teacher.write(stage_two(), 0) == ""
    assert teacher.counts == {"leak by judgement": 2}


def test_what_was_thrown_away_is_not_learned():
    made = teach(stage_two(), lambda recorded, i: "" if i == 1 else f"thought {i}")
    assert [p.cycle for p in places_of(made.trajectory, "p", NavigationConfig.preset("nano"))] == [0, 2]


def test_messages_hold_the_places_before_the_present_one():
    memory = stage_two().memory(2, 10)
    (message,) = summary_messages(memory)
    assert len(pictures([message])) == 8
    (message,) = plan_messages("find the bed", "", [memory.landmarks[0].views[0]] * 4, memory.landmarks[1].views[0])
    assert len(pictures([message])) == 5
    assert "nothing yet" in message["content"][-1]["text"]


def test_impossible_settings():
    with pytest.raises(ConfigError, match="teaching"):
        TeachingConfig(attempts=0)
