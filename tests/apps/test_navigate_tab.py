"""The Navigate tab: episodes watched to their ends, thoughts as they are written, stopping, comparing, bad input."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("moderngl", reason="the homes are drawn with the extra 'worlds'")

import gradio as gr

from apps.demo.app import _leave
from apps.demo.navigate_choices import (
    NOBODY,
    SETTINGS,
    STRATEGIES,
    Contender,
    NavigateRequest,
    read_request,
)
from apps.demo.navigate_pilot import Pilot, adapter_words
from apps.demo.navigate_run import owner_of, run_navigation
from backbone.errors import ConfigError, DataError, ModelError
from backbone.local import LocalVLM
from backbone.vlm import VLM
from navigation.agent_config import HydraConfig
from navigation.worlds.rooms import RoomsWorld
from tests.apps.fakes import ScriptedVLM
from tests.apps.navigate_cases import FAST, HOME, SPOKEN, THOUGHT, WATCHED, ask, cells, context_of, last, named, run


def test_an_episode_is_shown_to_its_end() -> None:
    updates = run(context_of(), ask(("fixed", 5)))
    assert "No success, its steps ran out" in last(updates, "status")
    assert 'data-phase="done"' in last(updates, "status")
    assert "scripted without an adapter" in last(updates, "status")
    view = last(updates, "view")
    assert 'data-step="12" data-state="failed"' in view
    assert re.findall(r'alt="([^"]+)"', view) == ["map", "ahead", "left", "ahead", "right", "behind"]
    # A look, then four actions of which the first is thought about: looks at steps 1, 6 and 11.
    assert "Look 3" in view
    thoughts = re.findall(
        r'data-thought="done"><i>(\d)</i>.*?muted">([^<]+)</small><p>(.*?)</p>', last(updates, "thoughts")
    )
    assert [(number, why) for number, why, _ in thoughts] == [
        ("3", "by the rule"),
        ("2", "by the rule"),
        ("1", "at the start"),
    ]
    assert "The &lt;door&gt; to the left" in thoughts[0][2]
    assert "<b>MoveAhead 0.25</b>" in thoughts[0][2]
    table = cells(last(updates, "results"))
    assert table["steps"] == ["12"]
    assert table["looks around"] == ["3"]
    assert table["actions thought about"] == ["33.3 %"]
    tokens = 9 * (len("MoveAhead 0.25") // 4 + 1) - 3 * (len("MoveAhead 0.25") // 4 + 1) + 3 * (len(SPOKEN) // 4 + 1)
    assert table["tokens written"] == [str(tokens)]


def test_it_is_watched_while_it_runs() -> None:
    updates = run(context_of(ScriptedVLM(step_s=0.01, answer=SPOKEN)), ask(("learned", None), limit=10, pace=WATCHED))
    steps = [int(found[1]) for u in updates if (found := re.search(r'data-step="(\d+)"', u.get("view", "")))]
    assert steps == sorted(steps)
    assert len(set(steps)) > 3, "not live"
    assert steps[0] == 0
    states = {found[1] for u in updates if (found := re.search(r'data-state="(\w+)"', u.get("view", "")))}
    assert {"slow", "fast"} <= states


def test_a_thought_is_shown_as_it_is_written() -> None:
    updates = run(context_of(ScriptedVLM(step_s=0.03, answer=SPOKEN)), ask(("learned", None), limit=3))
    writing = re.compile(r'data-thought="writing".*?<p>(.*?)<span')
    written = [found[1] for update in updates if (found := writing.search(update.get("thoughts", "")))]
    lengths = [len(text) for text in written]
    assert len(set(lengths)) > 4, "not live"
    assert lengths == sorted(lengths)
    shown = THOUGHT.replace("<", "&lt;").replace(">", "&gt;")
    assert all(shown.startswith(text.split("&lt;think")[0]) or shown in text for text in written)
    assert 'data-thought="writing"' not in last(updates, "thoughts")


def test_a_run_is_the_same_again() -> None:
    context = context_of()
    tables = [cells(last(run(context, ask(("random", 0.3), limit=15)), "results")) for _ in range(2)]
    for table in tables:
        table.pop("thinking here")
    assert tables[0] == tables[1]


def test_the_yardstick_succeeds() -> None:
    updates = run(context_of(), ask(("expert", None), limit=200))
    assert "Success, it stopped" in last(updates, "status")
    table = cells(last(updates, "results"))
    assert table["success"] == ["yes"]
    assert float(table["SPL"][0]) > 0.9
    assert table["tokens written"] == ["0"]
    assert "Model" not in last(updates, "status"), "no model was asked"
    assert last(updates, "thoughts") == ""


def test_two_ways_are_compared_in_one_home() -> None:
    updates = run(context_of(), ask(("never", None), ("expert", None), limit=60))
    views = [u["view"] for u in updates if u.get("view")]
    assert all(re.findall(r'data-lane="(\d)"', view) == ["0", "1"] for view in views)
    maps = re.findall(r'src="([^"]+)" alt="map"', views[0])
    assert maps[0] == maps[1], "they do not start in the same place"
    maps = re.findall(r'src="([^"]+)" alt="map"', views[-1])
    assert maps[0] != maps[1]
    steps = [[int(step) for step in re.findall(r'data-step="(\d+)"', view)] for view in views]
    assert any(0 < a == b for a, b in steps), "they were not played side by side"
    status = last(updates, "status")
    assert "Never: no success" in status
    assert "Expert: success" in status
    table = cells(last(updates, "results"))
    mine, other, difference = table["way left at the end"]
    assert float(difference.split()[0]) == pytest.approx(float(other.split()[0]) - float(mine.split()[0]), abs=0.011)
    assert table["success"] == ["no", "yes", "+1"]
    assert 'data-better="yes">+1<' in last(updates, "results")


def test_a_frontier_explorer_runs_beside_a_model_with_its_own_senses() -> None:
    updates = run(context_of(), ask(("learned", None), ("frontier", None), limit=14))
    view = last(updates, "view")
    assert re.findall(r'data-step="(\d+)"', view) == ["14", "14"]
    assert "frontier writes no thoughts" in last(updates, "thoughts")


@pytest.mark.parametrize("how", ["stopped", "page closed"])
@pytest.mark.parametrize("slow", ["thinking", "walking"])
def test_stopping_takes_a_step_or_a_token(monkeypatch: pytest.MonkeyPatch, how: str, slow: str) -> None:
    closed, stepped = [], []
    really, step = RoomsWorld.close, RoomsWorld.step
    monkeypatch.setattr(RoomsWorld, "close", lambda world: (closed.append(threading.get_ident()), really(world)))
    monkeypatch.setattr(RoomsWorld, "step", lambda world, action: (stepped.append(world), step(world, action))[1])
    vlm = ScriptedVLM(step_s=0.05, answer=SPOKEN * 20) if slow == "thinking" else None
    context = context_of(vlm)
    way = ("learned", None) if slow == "thinking" else ("never", None)
    updates = run_navigation(context, "me", lambda: ask(way, ("expert", None), limit=500, pace=WATCHED))
    seen = re.compile(r'data-thought="writing"' if slow == "thinking" else r'data-step="[1-9]')
    while not any(seen.search(value) for value in named(next(updates)).values()):
        pass
    stopped, before = time.monotonic(), len(stepped)
    if how == "stopped":
        assert context.worlds.cancel("me") == 1
        *_, status = updates
        assert 'data-phase="cancelled"' in status[0]
        assert "This is how far it came" in status[0]
    else:
        updates.close()  # type: ignore[attr-defined]
    assert context.worlds.idle(10.0)
    assert len(stepped) <= before + 2, "it went on for more than a step"
    assert time.monotonic() - stopped < 5.0, "the thought was written to its end, which takes 10 s"
    assert len(closed) == 2, "a world stays open"
    assert len(set(closed)) == 1, "OpenGL wants one thread"


def test_a_pages_tabs_are_stopped_apart_and_left_together() -> None:
    context = context_of()

    def wait(stop: threading.Event, emit: Callable[[Any], None]) -> str:
        emit("on")
        stop.wait(10)
        return "over"

    streams = [context.worlds.stream(wait, owner) for owner in ("me", owner_of("me"))]
    assert [next(stream) for stream in streams] == ["on", "on"]
    context.worlds.cancel(owner_of("me"))
    assert next(streams[1]).result == "over"
    assert context.worlds.owned("me") == 1
    _leave(context)(type("Request", (), {"session_hash": "me"})())  # type: ignore[arg-type]
    assert next(streams[0]).result == "over"


def test_two_users_do_not_disturb_each_other_and_a_third_waits() -> None:
    context = context_of()
    mine = run_navigation(context, "me", lambda: ask(("never", None), limit=500, pace=WATCHED))
    yours = run_navigation(context, "you", lambda: ask(("never", None), limit=20, home=HOME + 1, category="sofa"))
    while "data-step" not in named(next(mine)).get("view", ""):
        pass
    theirs = [named(values) for values in yours]
    assert f"Find the sofa: home {HOME + 1}" in last(theirs, "status")
    assert 'data-step="20"' in last(theirs, "view")
    again = run_navigation(context, "you", lambda: ask(("never", None), limit=500, pace=WATCHED))
    while "data-step" not in named(next(again)).get("view", ""):
        pass
    third = run_navigation(context, "third", lambda: ask(("never", None), limit=5))
    first = [named(next(third)), named(next(third))]
    assert 'data-phase="waiting"' in first[1]["status"], "three run at once"
    context.worlds.cancel("you")
    *_, status = again
    assert 'data-phase="cancelled"' in status[0]
    assert 'data-phase="done"' in [named(values) for values in third][-1]["status"]
    assert "view" in named(next(mine)) or "view" in named(next(mine)), "stopping another's run stopped mine"
    mine.close()  # type: ignore[attr-defined]
    assert context.worlds.idle(10.0)


BAD: list[dict[str, Any]] = [
    {"world": "moon"},
    {"world": "metaworld"},
    {"world": None},
    {"home": -1},
    {"home": 0.5},
    {"home": float("nan")},
    {"home": None},
    {"home": True},
    {"start": 2**40},
    {"start": "1"},
    {"category": "dragon"},
    {"category": None},
    {"max_steps": 0},
    {"max_steps": 501},
    {"pace": "warp"},
    {"ways": ()},
    {"ways": ((NOBODY, None), (NOBODY, None))},
    {"ways": (("learned", None),) * 3},
    {"ways": (("os:system", None),)},
    {"ways": ((None, None),)},
    {"ways": (("threshold", 1.5),)},
    {"ways": (("threshold", float("nan")),)},
    {"ways": (("threshold", None),)},
    {"ways": (("fixed", 1),)},
    {"ways": (("fixed", 2.5),)},
    {"ways": (("random", "often"),)},
]


@pytest.mark.parametrize("change", BAD)
def test_what_no_page_sends_is_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "world": "rooms",
        "home": HOME,
        "category": "bed",
        "start": 1,
        "max_steps": 50,
        "pace": FAST,
    }
    good["ways"] = (("learned", None), (NOBODY, None))
    assert read_request(**good).contenders == (Contender("learned"),)
    with pytest.raises((DataError, ConfigError)):
        read_request(**{**good, **change})


def test_errors_are_sentences() -> None:
    def broken() -> NavigateRequest:
        raise DataError("home 3 has no 'dragon' to be <found>")

    updates = run_navigation(context_of(), "me", broken)
    next(updates)
    status = named(next(updates))["status"]
    assert 'data-phase="failed"' in status
    assert "Home 3 has no &#x27;dragon&#x27; to be &lt;found&gt;." in status
    with pytest.raises(gr.Error, match="dragon"):
        next(updates)


def test_a_model_that_does_not_load_says_so_and_the_next_run_tries_again() -> None:
    class Unloadable(Pilot):
        def steering(self, own: VLM) -> Any:
            raise ModelError("no weights at /nowhere; download them")

    context = replace(context_of(), pilot=Unloadable())
    with pytest.raises(gr.Error, match="No weights at /nowhere"):
        run(context, ask(("learned", None)))
    assert context.worlds.idle(10.0)


def test_a_threshold_needs_probabilities_and_says_so() -> None:
    with pytest.raises(gr.Error, match="strategy learned"):
        run(context_of(), ask(("threshold", 0.5)))


@pytest.fixture(scope="module")
def nano() -> VLM:
    return VLM.load("nano", device="cpu")


def test_nano_steers_with_what_the_configuration_says(nano: VLM) -> None:
    pilot = Pilot(HydraConfig(device="cpu"))
    steering = pilot.steering(nano)
    assert pilot.steering(nano) is steering, "loaded twice"
    config = pilot.hydra.navigation()
    assert steering.vlm.visual_tokens(config.width, config.height) == 20  # 5 x 4; nano as the demo has it makes more
    context = replace(context_of(nano), pilot=pilot)
    updates = run(context, ask(("threshold", 0.0), limit=6))
    assert steering.words in last(updates, "status")
    assert cells(last(updates, "results"))["looks around"] == ["3"]  # a probability of 0 is always enough
    assert float(cells(last(updates, "results"))["tokens encoded"][0].replace(",", "")) > 100


def test_a_model_that_fits_is_not_loaded_twice_and_a_named_adapter_is_not_forgotten() -> None:
    vlm = ScriptedVLM()
    assert Pilot(HydraConfig()).steering(vlm).vlm is vlm
    with pytest.raises(ConfigError, match="no such directory"):
        Pilot(HydraConfig(adapter="/nowhere/adapter", device="cpu")).steering(vlm)
    assert "not trained" in adapter_words("nano", None)
    assert "not trained" not in adapter_words("another", None), "others may know the task"
    assert adapter_words("nano", "/x/assets/navigation/irft") == "nano with the weights of navigation/irft"


def test_the_adapter_in_use_is_named(tmp_path: Path, nano: VLM) -> None:
    from peft import LoraConfig

    assert isinstance(nano, LocalVLM)
    nano.adapters.attach("fresh", LoraConfig(r=2, target_modules=["q_proj"]))
    folder = tmp_path / "navigation" / "stage9"
    nano.adapters.save("fresh", folder)
    steering = Pilot(HydraConfig(adapter=str(folder), device="cpu")).steering(nano)
    assert steering.words == "nano with the weights of navigation/stage9"
    assert steering.adapter is not None


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_way_is_played_in_the_episode_that_eval_plays(strategy: str) -> None:
    """The same home, place, target and rule of success, whatever an agent wants to see of them."""
    setting = SETTINGS.get(strategy)
    request = ask((strategy, setting.usual if setting else None))
    config = request.contenders[0].agent(HydraConfig())
    world = request.world_for(config, HydraConfig()).make()
    plain = (
        ask(("expert", None)).world_for(ask(("expert", None)).contenders[0].agent(HydraConfig()), HydraConfig()).make()
    )
    try:
        world.reset(seed=request.start)
        plain.reset(seed=request.start)
        mine, theirs = world.describe(), plain.describe()
        for name in ("position", "rotation_xyzw", "home", "goals", "category"):
            assert mine[name] == theirs[name], name
        assert mine["home"] == {"seed": HOME, "split": "val"}
        assert world.max_steps == plain.max_steps == 500
        assert set(world.metrics()) == set(plain.metrics()) >= {"stagnated", "target_seen"}
        if setting is not None:
            assert getattr(config, setting.field) == setting.usual
    finally:
        world.close()
        plain.close()
