"""What the Navigate tab shows: objects of a home, settings of a strategy, the growing map, thoughts, the table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("moderngl", reason="the homes are drawn with the extra 'worlds'")


from apps.demo.navigate_choices import (
    SETTINGS,
    STRATEGIES,
    Contender,
    objects_in,
    scene_of,
    usual_object,
)
from apps.demo.navigate_lane import LaneShown, Thought
from apps.demo.navigate_map import COLOURS, TARGET, GrowingMap, Mark
from apps.demo.navigate_measures import ENDS, MEASURES, measures_html
from apps.demo.navigate_tab import _objects, _setting
from apps.demo.navigate_view import thoughts_html
from apps.demo.worlds_run import PACES
from backbone.rollout.results import EpisodeResult
from navigation.agent_config import HydraConfig
from navigation.failures import Failure
from tests.apps.navigate_cases import FAST, HOME, WATCHED, cells


def test_objects_are_those_that_can_be_found() -> None:
    found = objects_in(HOME)
    scene = scene_of(HOME)
    assert set(found) == {c for c in scene.present() if scene.goals(c) is not None}
    assert len(found) > 5
    shown = _objects(HOME, found[-1])
    assert [value for _, value in shown["choices"]] == list(found)
    assert shown["value"] == found[-1]
    assert usual_object(found, "dragon") == "bed"
    assert usual_object(("sofa",), "dragon") == "sofa"
    assert usual_object(()) is None


def test_numbers_belong_to_their_strategies() -> None:
    for name in STRATEGIES:
        shown = _setting(name)
        assert shown["visible"] == (name in SETTINGS)
        if name in SETTINGS:
            assert getattr(HydraConfig(), SETTINGS[name].field) == shown["value"]
    assert WATCHED in PACES
    assert FAST in PACES


@pytest.fixture
def empty_map() -> Iterator[tuple[GrowingMap, tuple[float, float, float]]]:
    scene = scene_of(HOME)
    goals = scene.goals("bed")
    assert goals is not None
    place = goals.views[len(goals.views) // 2]
    start = (float(place[0]), float(place[1]), 0.3)
    return GrowingMap(scene, "bed", start, 79.0), start


def test_the_map_grows_with_what_is_seen(empty_map: tuple[GrowingMap, tuple[float, float, float]]) -> None:
    shown, start = empty_map
    dark = shown.draw([], [], start).mean()
    shown.see(start)
    ahead = shown.seen.copy()
    shown.see(start, around=True)
    around = shown.seen.copy()
    assert 0 < ahead.sum() < around.sum() < shown.seen.size
    assert (ahead <= around).all(), "what was seen got dark again"
    assert shown.draw([], [], start).mean() > dark + 5
    x, z, heading = start
    behind = np.zeros_like(ahead)
    column, row = shown._map.place((x + 0.5 * np.sin(heading), z + 0.5 * np.cos(heading)))
    behind[round(row), round(column)] = True
    assert not (ahead & behind).any(), "it sees behind itself"
    assert (around & behind).any()
    room = scene_of(HOME).home.room_at(x, z)
    others = [r for r in scene_of(HOME).home.rooms if r.name != room]
    unseen = 0
    for other in others:
        column, row = shown._map.place(((other.x0 + other.x1) / 2, (other.z0 + other.z1) / 2))
        unseen += not around[round(row), round(column)]
    assert unseen >= len(others) - 2, "it sees through walls"


def pixels_near(picture: Any, colour: tuple[int, int, int]) -> int:
    return int((np.abs(picture.astype(int) - colour).max(-1) < 12).sum())


def test_the_way_has_the_colours_of_its_phases(empty_map: tuple[GrowingMap, tuple[float, float, float]]) -> None:
    shown, start = empty_map
    x, z, _ = start
    way = [Mark(x, z, "looking"), Mark(x + 0.3, z, "slow"), Mark(x + 0.6, z, "fast"), Mark(x + 0.6, z + 0.6, "fast")]
    here = (x + 0.6, z + 0.6, 0.0)
    bare = shown.draw([], [], here)
    drawn = shown.draw(way, [], here)
    for phase in ("slow", "fast"):
        assert pixels_near(drawn, COLOURS[phase]) > pixels_near(bare, COLOURS[phase]) + 20, phase
    marked = shown.draw(way, [(x, z), (x, z), (x, z)], here)
    one = shown.draw(way, [(x, z)], here)
    gained = [
        pixels_near(picture, COLOURS["looking"]) - pixels_near(drawn, COLOURS["looking"]) for picture in (one, marked)
    ]
    assert gained[1] > 2.5 * gained[0] > 0, "landmarks in one place hide each other"
    assert pixels_near(bare, TARGET) > 50
    began = time.process_time()
    shown.draw(way, [(x, z)] * 500, here)
    assert time.process_time() - began < 2.0, "many landmarks stop the run"


def lane(**changes: Any) -> LaneShown:
    given: dict[str, Any] = dict.fromkeys(("instruction", "pictures", "phase", "counts", "measures", "max_steps"))
    return LaneShown(**{**given, "contender": Contender("learned"), "ended": False, "success": False, **changes})


def test_what_a_model_writes_is_text() -> None:
    thoughts = (Thought(1, "policy", "<script>", "end", True), Thought(2, "<why>", "<img>"))
    html = thoughts_html([lane(thoughts=thoughts)])
    assert "<script>" not in html
    assert "<img>" not in html
    assert "<why>" not in html
    assert html.index("&lt;img&gt;") < html.index("&lt;script&gt;"), "the newest is first"
    assert "named no action" in html
    assert thoughts_html([lane(contender=Contender("never"), thoughts=())]) == ""
    many = thoughts_html([lane(thoughts=tuple(Thought(n, "", f"number {n}.", "end") for n in range(1, 101)))])
    assert "number 100." in many
    assert "number 50." not in many, "a long episode would send all of its thoughts at every token"
    assert "and 88 before them" in many
    assert "No thought yet" in thoughts_html([lane(thoughts=())])


def ended(**changes: float) -> EpisodeResult:
    metrics = dict.fromkeys(
        ("success", "success_object", "spl", "soft_spl", "path_length", "shortest_path", "distance_to_goal"), 0.0
    )
    metrics |= {"collisions": 0.0, "stopped": 0.0, "stagnated": 0.0}
    metrics |= {"reachable": 1.0, "execution_time": 40.0, "optimal_time": 20.0, **changes}
    return EpisodeResult(
        0, 0, {}, "scored", metrics=metrics, steps=30, success=bool(metrics["success"]),
        ledger={"generated_tokens": 1000, "prompt_tokens": 2000}, timing={"ledger_ms": 1500.0},
        statuses={"obs: start": 1, "slow": 1, "fast": 27, "obs: policy": 1},
    )  # fmt: skip


def test_the_table_by_hand() -> None:
    first, second = ended(), ended(success=1.0, stopped=1.0, path_length=2.5, spl=0.5)
    table = cells(measures_html(["<a>", "b"], [first, second]))
    assert table["end"] == ["timeout wandering", "success", ""]
    assert table["SOT"] == ["0.000", "0.364", "+0.364"]  # 20 s of 40 s + 1000 x 0.015 s
    assert table["with thinking"] == ["55.0 s", "55.0 s", "0.0 s"]
    assert table["thinking here"] == ["1.5 s", "1.5 s", "0.0 s"]
    assert table["looks around"] == ["2", "2", "0"]
    assert table["actions thought about"] == ["3.6 %", "3.6 %", "0.0 %"]
    html = measures_html(["<a>", "b"], [first, second])
    assert "<a>" not in html
    assert 'data-better="yes">+0.500<' in html
    assert 'data-better="no">+2.50 m<' in html, "a longer way is worse"
    assert html.count("data-better") == 4
    assert len(cells(measures_html(["b"], [second]))["SPL"]) == 1
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)


def test_every_end_has_its_words() -> None:
    assert set(ENDS) == set(get_args(Failure))
    assert [name for name, words in ENDS.items() if words.startswith("success")] == ["success"]
