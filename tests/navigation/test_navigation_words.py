"""Actions, memory and prompts: the words that agent and training share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.contracts import ActionSpec
from backbone.errors import ConfigError, DataError
from backbone.pixels import Pixels
from navigation import prompts, tokens
from navigation.actions import ALL, END, LEFT, MOTOR, MOVE, OBS, RIGHT, ActionMap, inverse, mirrored, word_of
from navigation.config import DataConfig, NavigationConfig
from navigation.memory import KEPT, Landmark, Memory, edge_text, kept_indices, parse_edge
from navigation.worlds.navigation_world import ACTIONS, LOOK_AROUND, LOOKS

NANO = NavigationConfig.preset("nano")
edges = st.lists(st.sampled_from(MOTOR), max_size=12)


def frame(value=0):
    return np.full((128, 160, 3), value, np.uint8)


def landmark(value=0):
    return Landmark((frame(value),) * 4, step=value)


def walked(ways, limit):
    memory = Memory(limit).add(landmark(0))
    for number, way in enumerate(ways, 1):
        memory = memory.add(landmark(number % 256), way)
    return memory


class TestActions:
    def test_the_words_are_the_papers(self):
        assert ALL == ("MoveAhead 0.25", "RotateLeft 30.0", "RotateRight 30.0", "obs", "end")

    def test_words_and_indices_go_both_ways(self):
        actions = ActionMap.of(ActionSpec.discrete((*ACTIONS, *LOOKS, LOOK_AROUND), 1.0))
        assert [actions.word(actions.index(a)) for a in ALL] == list(ALL)
        assert actions.index(MOVE) == 1
        assert actions.index(LEFT) == 2
        assert actions.index(END) == 0
        assert actions.looks_around
        with pytest.raises(DataError, match="look_up"):
            actions.word(4)

    def test_a_world_without_a_look_around_is_known(self):
        actions = ActionMap.of(ActionSpec.discrete(ACTIONS, 1.0))
        assert not actions.looks_around
        with pytest.raises(DataError, match="obs"):
            actions.index(OBS)

    def test_another_kind_of_world_is_refused(self):
        with pytest.raises(ConfigError, match="move_forward"):
            ActionMap.of(ActionSpec.make_example())

    def test_mirrors_and_inverses(self):
        assert mirrored((MOVE, LEFT, RIGHT, OBS, END)) == (MOVE, RIGHT, LEFT, OBS, END)
        assert mirrored(mirrored(ALL)) == ALL
        assert inverse((LEFT, LEFT, RIGHT)) == (LEFT, RIGHT, RIGHT)
        with pytest.raises(DataError):
            inverse((MOVE,))
        assert word_of("turn_left") == LEFT
        with pytest.raises(DataError, match="look_up"):
            word_of("look_up")


class TestMemory:
    @given(st.lists(edges, max_size=90), st.integers(1, 15))
    def test_no_action_is_lost_and_the_ends_stay(self, ways, limit):
        memory = walked(ways, limit)
        shown = memory.shown()
        assert len(shown.landmarks) <= limit
        assert len(memory.landmarks) <= max(KEPT, limit)
        assert shown.landmarks[-1] is memory.landmarks[-1]
        assert memory.landmarks[-1].step == len(ways) % 256
        if limit > 1:
            assert shown.landmarks[0].step == 0
            assert sum(shown.edges, ()) == sum((tuple(way) for way in ways), ())
        else:
            assert shown.edges == ()

    @given(st.integers(1, 200), st.integers(2, 20))
    def test_the_middle_is_even(self, count, limit):
        kept = kept_indices(count, limit)
        assert kept[0] == 0
        assert kept[-1] == count - 1 or count == 1
        gaps = np.diff(kept)
        assert len(kept) == min(count, limit)
        assert (gaps > 0).all()
        if len(gaps):
            assert gaps.max() - gaps.min() <= 1

    def test_ten_of_nineteen(self):
        assert kept_indices(19, 10) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
        assert kept_indices(11, 10) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
        assert kept_indices(5, 1) == [4]

    def test_edges_around_a_dropped_landmark_are_joined(self):
        memory = walked([[MOVE], [LEFT, MOVE], [RIGHT]], 2)
        assert memory.shown().edges == ((MOVE, LEFT, MOVE, RIGHT),)
        assert memory.actions == 4

    @given(edges, st.sampled_from(["list", "runs"]))
    def test_an_edge_survives_its_words(self, way, style):
        assert parse_edge(edge_text(way, style)) == tuple(way)

    def test_edge_words(self):
        way = [MOVE, MOVE, LEFT]
        assert edge_text(way, "list") == "MoveAhead 0.25, MoveAhead 0.25, RotateLeft 30.0"
        assert edge_text(way, "runs") == "MoveAhead 0.25 x2, RotateLeft 30.0"

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(DataError, match="led nowhere"):
            Memory().add(landmark(), [MOVE])
        with pytest.raises(DataError, match="obs"):
            walked([[OBS]], 3)
        with pytest.raises(DataError, match="edges"):
            Memory(10, (landmark(), landmark()))
        with pytest.raises(DataError, match="not an edge"):
            parse_edge("MoveAhead 0.3")
        with pytest.raises(DataError, match="4 pictures"):
            Landmark((frame(),) * 3)


class TestPrompts:
    def test_a_cycle_shows_every_landmark_and_the_present_view(self):
        memory = walked([[MOVE, MOVE, LEFT]], 10)
        system, user = prompts.cycle_messages("find the bed", memory, frame(9), NANO)
        assert system["role"] == "system"
        assert system["content"][0]["text"].startswith("Find the bed. ")
        images = [p["image"] for p in user["content"] if p["type"] == "image"]
        assert [int(i.flat[0]) for i in images] == [0] * 4 + [1] * 4 + [9]
        text = "".join(p.get("text", "|") for p in user["content"])
        assert text == "Place 1: ||||\nthen MoveAhead 0.25 x2, RotateLeft 30.0\nPlace 2: ||||\nAhead: |"

    def test_no_memory_shows_only_where_it_stands(self):
        _, user = prompts.cycle_messages("find the bed", walked([[MOVE]] * 3, 1), frame(9), NANO)
        assert sum(p["type"] == "image" for p in user["content"]) == 5

    def test_replies(self):
        assert prompts.slow_reply(" see a door ", MOVE) == "<think_start>see a door<think_end>\nMoveAhead 0.25"
        with pytest.raises(DataError, match="obs"):
            prompts.slow_reply("x", OBS)
        with pytest.raises(DataError, match="must not contain"):
            prompts.slow_reply("a<think_end>b", MOVE)
        with pytest.raises(DataError, match="no action"):
            prompts.fast_reply("forward")

    def test_fast_turns_alternate(self):
        turns = prompts.fast_messages([frame(), frame()], [OBS])
        assert [t["role"] for t in turns] == ["user", "assistant", "user"]
        with pytest.raises(DataError, match="alternate"):
            prompts.fast_messages([frame()], [MOVE, MOVE])

    def test_a_thought_needs_a_look_around(self):
        with pytest.raises(DataError, match="look around first"):
            prompts.cycle_messages("find the bed", Memory(), frame(), NANO)
        with pytest.raises(DataError, match="task is empty"):
            prompts.base_messages(" ", frame(), NANO)

    @pytest.mark.parametrize("name", ["nano", "qwen"])
    def test_the_rules_name_every_action_or_are_short(self, name):
        config = NavigationConfig.preset(name)
        text = prompts.system_turn("find the bed", config, cycle=True)["content"][0]["text"]
        if config.prompt_style == "full":
            assert all(action in text for action in ALL)
            assert "30 actions" in text
        else:
            assert len(text) < 70


class TestTokens:
    def test_a_nano_frame_is_five_by_four(self):
        pixels = NANO.pixels(Pixels(36864, 4194304, 32))
        assert pixels.resize(NANO.width, NANO.height) == (160, 128)
        assert tokens.image_tokens(160, 128, pixels) == 22

    def test_the_papers_arithmetic(self):
        assert tokens.image_tokens(640, 480, Pixels(3136, 12845056, 28)) == 23 * 17 + 2
        assert tokens.longest_cycle(NANO, NANO.pixels(Pixels(36864, 4194304, 32))) < 5000 < NANO.context_tokens

    def test_an_estimate_counts_pictures_exactly(self):
        pixels = NANO.pixels(Pixels(36864, 4194304, 32))
        found = tokens.estimate(prompts.cycle_messages("find the bed", walked([[MOVE]], 10), frame(), NANO), pixels)
        assert found.images == 9 * 22


class TestConfig:
    def test_impossible_settings_are_refused(self):
        with pytest.raises(ConfigError, match="offered before"):
            NavigationConfig(offer_after=40)
        with pytest.raises(ConfigError, match="did you mean 'nano'"):
            NavigationConfig.preset("nanno")
        with pytest.raises(ConfigError, match="memory_limit"):
            NavigationConfig(memory_limit=0)
        with pytest.raises(ConfigError, match="edge_style"):
            NavigationConfig(edge_style="short")
        with pytest.raises(ConfigError, match="reversed"):
            DataConfig(progress_low=40)
