"""The Worlds tab: what a script may ask for, live views, stopping, two users at once, and worlds that fail."""

from __future__ import annotations

import base64
import io
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image as PillowModule

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")

from gradio_client import Client
from gradio_client.exceptions import AppError

from apps.demo import worlds_catalogue
from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from apps.demo.context import DemoContext
from apps.demo.jobs import Jobs
from apps.demo.worlds_catalogue import ANY, SHOWN, Choice, agents_for, chosen_agent, chosen_world, usable
from apps.demo.worlds_run import PACES, read_request, run_world
from apps.demo.worlds_screen import Screen, Snapshot, Viewer
from apps.demo.worlds_view import action_html, picture_url, remedies_html, view_html
from apps.world_states import PACKAGES, WorldState
from apps.worlds import WORLDS, WorldEntry, world_config_class
from backbone.contracts import ActionSpec, FloatArray, Image, Observation
from backbone.errors import ConfigError, DataError, WorldError
from backbone.rollout.agents import ExpertConfig
from backbone.rollout.config import Episode
from backbone.rollout.episode import Moment, run_episode
from backbone.worlds.world import Info, Step, World
from tests.apps.conftest import free_port, wait_until
from tests.apps.fakes import ScriptedVLM

FAST, WATCHED = "full speed", "10 steps a second"
SPEC = ActionSpec.discrete(("stop", "go"), 5.0)


class HallWorld(World):
    """Go 30 times along a hall. Remembers which threads used it, and whether it was closed."""

    name = "hall"
    action_spec = SPEC
    max_steps = 400
    opened: ClassVar[list[HallWorld]] = []

    def __init__(self, kind: str) -> None:
        if kind == "closed":
            raise WorldError("the hall is closed; run: open the hall")
        self.kind, self.closed = kind, 0
        self.threads = {threading.get_ident()}
        HallWorld.opened.append(self)

    def reset(self, *, seed: int, options: Any = None) -> tuple[Observation, Info]:
        self._seed, self._at, self._steps = seed, 0, 0
        return self._look(), {"success": False}

    def _look(self) -> Observation:
        self.threads.add(threading.get_ident())
        image = np.full((48, 64, 3), (self._seed % 256, 90, min(255, 8 * self._at)), np.uint8)
        depth = np.linspace(0, 12, 48 * 64, dtype=np.float32).reshape(48, 64)
        return Observation({"front": image}, "go to the <end>", None, self._steps / 5, {"front": depth})

    def step(self, action: FloatArray) -> Step:
        if self.kind == "broken" and self._steps == 3:
            raise WorldError("the floor gave way at step 3")
        time.sleep({"slow": 0.05, "calm": 0.4}.get(self.kind, 0.0))
        self._steps += 1
        self._at += int(action[0])
        success = self._at >= (10_000 if self.kind in ("endless", "slow", "calm") else 30)
        return self._look(), 0.5, success, self._steps >= self.max_steps, {"success": success}

    def describe(self) -> dict[str, Any]:
        return {"at": self._at}

    def expert_action(self) -> FloatArray:
        return np.array([1.0], np.float32)

    def metrics(self) -> dict[str, float]:
        return {"success": float(self._at >= 30), "path_length": float(self._at)}

    def draw(self) -> Image:
        self.threads.add(threading.get_ident())
        return np.full((40, 100, 3), 250, np.uint8)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1


KINDS = ("plain", "endless", "slow", "calm", "broken", "closed")


@dataclass(frozen=True)
class HallConfig:
    kind: str = "plain"

    @property
    def world(self) -> str:
        return "hall"

    def options(self, index: int) -> dict[str, Any]:
        return {}

    def make(self) -> HallWorld:
        return HallWorld(self.kind)


@pytest.fixture(scope="module")
def _hall() -> Iterator[None]:
    entry = WorldEntry(__name__, "HallConfig", "a hall", "navigation", "build a hall")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WORLDS, "hall", entry)
        patch.setitem(PACKAGES, "hall", ())
        patch.setitem(worlds_catalogue.CHOICES, "hall", Choice("kind", "Kind", lambda: KINDS))
        yield


@pytest.fixture(scope="module")
def address(_hall: None) -> Iterator[str]:
    port = free_port()
    config = DemoConfig(port=port, max_queue=3, max_worlds=2)
    demo = build_demo(ScriptedVLM(), config)
    serve(demo, config, block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    HallWorld.opened.clear()
    yield Client(address, verbose=False)
    wait_until(lambda: all(world.closed == 1 for world in HallWorld.opened))
    assert all(len(world.threads) == 1 for world in HallWorld.opened), "a world was used in two threads"


def ask(kind: str = "plain", seed: int = 0, agent: str = "expert", pace: str = FAST) -> list[Any]:
    return ["hall", kind, seed, agent, pace]


def html_of(update: Any) -> str:
    return update if isinstance(update, str) else ""


def test_an_episode_is_shown_to_its_end(client: Client) -> None:
    job = client.submit(*ask(seed=7), api_name="/run_world")
    status, view, metrics = job.result(timeout=30)
    assert 'data-phase="done"' in status
    assert "Success after 30 steps" in status
    assert "go to the &lt;end&gt;" in status
    assert "30 / 400" in status
    assert re.search(r'data-metric="path_length">30<', metrics)
    assert 'data-step="30"' in view
    names = re.findall(r"<figcaption>([^<]+)</figcaption>", view)
    assert names == ["front", "front depth", "map"]
    first = re.search(r"data:image/jpeg;base64,([^\"]+)", view)
    assert first is not None
    shown = np.asarray(PillowModule.open(io.BytesIO(base64.b64decode(first[1]))))
    assert shown.shape == (48, 64, 3)
    assert np.abs(shown[5, 5].astype(int) - (7, 90, 240)).max() < 12, "not the last picture of this seed"


def test_it_can_be_watched_while_it_runs(client: Client) -> None:
    job = client.submit(*ask("plain", pace=WATCHED), api_name="/run_world")
    began = time.monotonic()
    job.result(timeout=60)
    seconds = time.monotonic() - began
    steps = [
        int(found[1]) for update in job.outputs() if (found := re.search(r'data-step="(\d+)"', html_of(update[1])))
    ]
    assert steps == sorted(steps)
    assert len(set(steps)) > 5, "not live"
    assert seconds > 2.5, "30 steps at 10 a second take 3 seconds"


@pytest.mark.parametrize(("kind", "pace"), [("endless", WATCHED), ("slow", FAST)])
def test_a_script_that_cancels_ends_its_world(client: Client, kind: str, pace: str) -> None:
    job = client.submit(*ask(kind, pace=pace), api_name="/run_world")
    wait_until(lambda: any('data-step="' in html_of(update[1]) for update in job.outputs()), 30)
    job.cancel()
    wait_until(lambda: HallWorld.opened[-1].closed == 1, 10)


@pytest.mark.usefixtures("_hall")
@pytest.mark.parametrize("how", ["stopped", "page closed"])
@pytest.mark.parametrize(("kind", "pace"), [("endless", WATCHED), ("slow", FAST)])
def test_stopping_ends_the_world_within_two_seconds(kind: str, pace: str, how: str) -> None:
    context = DemoContext(ScriptedVLM(), DemoConfig(), Jobs(60), Jobs(60, turns=2))
    updates = run_world(context, "me", lambda: read_request("hall", kind, 0, "expert", pace))
    while 'data-step="' not in html_of(next(updates)[1]):
        pass
    stopped = time.monotonic()
    if how == "stopped":
        assert context.worlds.cancel("me") == 1
        *_, (status, _, _) = updates
        assert 'data-phase="cancelled"' in status
    else:
        updates.close()  # type: ignore[attr-defined]
    wait_until(lambda: HallWorld.opened[-1].closed == 1)
    assert time.monotonic() - stopped < 2.0
    assert context.worlds.idle(2.0)


def test_two_users_at_once_do_not_disturb_each_other_and_a_third_waits(client: Client, address: str) -> None:
    jobs = []
    for count, user in enumerate((client, Client(address, verbose=False)), 1):
        jobs.append(user.submit(*ask("slow", seed=count), api_name="/run_world"))
        wait_until(lambda n=count: len(HallWorld.opened) == n, 30)
    jobs.append(Client(address, verbose=False).submit(*ask("plain", seed=45), api_name="/run_world"))
    time.sleep(0.5)
    assert len(HallWorld.opened) == 2, "three worlds are open at once"
    assert HallWorld.opened[0].threads.isdisjoint(HallWorld.opened[1].threads)
    jobs[0].cancel()
    status, view, _ = jobs[2].result(timeout=30)  # the first one's turn is free now
    assert "Success after 30 steps" in status
    assert HallWorld.opened[1].closed == 0, "stopping one run stopped another"
    jobs[1].cancel()
    pixel = re.search(r"data:image/jpeg;base64,([^\"]+)", view)
    assert pixel is not None
    shown = np.asarray(PillowModule.open(io.BytesIO(base64.b64decode(pixel[1]))))
    assert abs(int(shown[5, 5, 0]) - 45) < 12, "it shows another one's world"


@pytest.mark.parametrize(
    ("kind", "message"), [("broken", "The floor gave way at step 3"), ("closed", "run: open the hall")]
)
def test_a_world_that_fails_says_why_and_is_closed(client: Client, kind: str, message: str) -> None:
    job = client.submit(*ask(kind, pace=WATCHED), api_name="/run_world")
    with pytest.raises(AppError):
        job.result(timeout=30)
    last = job.outputs()[-1][0]
    assert 'data-phase="failed"' in last
    assert message in last
    assert client.predict(*ask(), api_name="/run_world")[0].count("Success") == 1, "the next run works"


BAD = [
    {"world": "moon"},
    {"world": "os:system"},
    {"world": None},
    {"value": "golden"},
    {"agent": "ws://10.0.0.1:8000"},
    {"agent": "os.path:join"},
    {"agent": "metaworld-expert"},
    {"agent": None},
    {"seed": -1},
    {"seed": 0.5},
    {"seed": float("nan")},
    {"seed": 2**40},
    {"seed": None},
    {"seed": True},
    {"pace": "warp"},
]


@pytest.mark.usefixtures("_hall")
@pytest.mark.parametrize("change", BAD)
def test_what_no_page_sends_is_refused(change: dict[str, Any]) -> None:
    good = {"world": "hall", "value": "plain", "seed": 3, "agent": "expert", "pace": FAST}
    assert read_request(**good).seed == 3
    with pytest.raises(DataError):
        read_request(**{**good, **change})


@pytest.mark.usefixtures("_hall")
def test_a_script_is_refused_too(client: Client) -> None:
    job = client.submit("subprocess:Popen", "plain", 0, "expert", FAST, api_name="/run_world")
    with pytest.raises(AppError):
        job.result(timeout=30)
    assert HallWorld.opened == []


@pytest.mark.usefixtures("_hall")
def test_worlds_that_do_not_work_here_say_their_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "hall", ("no_such_package",))
    with pytest.raises(DataError, match="build a hall"):
        chosen_world("hall", None)
    states = worlds_catalogue.offered()
    assert "hall" not in usable(states)
    html = remedies_html(states)
    assert "build a hall" in html
    assert "no_such_package" in html
    assert remedies_html([WorldState("a", "vla", "b", "ready", "c")]) == ""


def test_agents_fit_their_worlds() -> None:
    assert "metaworld-expert" in agents_for("metaworld")
    assert "metaworld-expert" not in agents_for("rooms")
    assert "wander" not in agents_for("highway")
    assert "expert" not in agents_for("libero")
    assert chosen_agent("random", "rooms").agent == "random"


@pytest.mark.parametrize("world", sorted(worlds_catalogue.CHOICES))
def test_every_choice_is_a_setting_of_its_world(world: str) -> None:
    choice, kind = worlds_catalogue.CHOICES[world], world_config_class(world)
    values = worlds_catalogue.choice_values(world)
    assert worlds_catalogue.default_value(world) in values
    assert len(values) == len(set(values)) > 1
    for value in values:
        wanted = None if value == ANY else value
        assert getattr(kind(**{**SHOWN.get(world, {}), choice.field: wanted}), choice.field) == wanted
        if world in usable():
            assert getattr(chosen_world(world, value), choice.field) == wanted


def snapshot(step: int) -> Snapshot:
    picture = np.zeros((4, 6, 3), np.uint8)
    return Snapshot({"<b>": picture}, picture, "", SPEC, step, 9, 0.0, 0.0, 0.0, {})


def test_the_screen_keeps_the_newest_and_wakes_once() -> None:
    woken: list[int] = []
    screen = Screen(lambda: woken.append(1))
    for step in range(5):
        screen.offer(snapshot(step))
    assert len(woken) == 1, "a slow page would be flooded"
    taken = screen.take()
    assert taken is not None
    assert taken.step == 4
    assert screen.take() is None
    screen.offer(snapshot(9))
    assert len(woken) == 2


def test_a_slow_map_takes_a_third_of_the_time_at_most() -> None:
    world, shown = HallWorld("plain"), []
    world.draw = lambda: (time.sleep(0.1), np.zeros((4, 4, 3), np.uint8))[1]  # type: ignore[method-assign]
    screen = Screen(lambda: shown.append(1))
    viewer = Viewer(screen, threading.Event(), 100.0)
    began = time.monotonic()

    def watch(moment: Moment) -> None:
        viewer(moment)
        screen.take()

    result = run_episode(world, ExpertConfig().make(SPEC), Episode(0, 0, {}), watchers=(watch,))
    seconds = time.monotonic() - began
    assert result.success
    assert 2 <= len(shown) <= 2 + seconds / 0.3, "drawing takes more than its part"


def test_names_are_escaped_and_pictures_bounded() -> None:
    html = view_html(snapshot(0))
    assert "<b>" not in html
    large = base64.b64decode(picture_url(np.zeros((2000, 1000, 3), np.uint8)).split(",")[1])
    assert PillowModule.open(io.BytesIO(large)).size == (320, 640)
    spec = ActionSpec(("<i>", "b"), ("m", "<u>"), (0.0, 0.0), (1.0, 1.0), 5.0)
    assert "<i>" not in action_html(spec, (0.5, 0.25))
    assert "+0.25 &lt;u&gt;" in action_html(spec, (0.5, 0.25))
    assert 'fv-chosen">go<' in action_html(SPEC, (1.0,))


def test_limits_of_the_config() -> None:
    for wrong in ({"max_worlds": 0}, {"world_deadline_s": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            DemoConfig(**wrong)  # type: ignore[arg-type]
    assert WATCHED in PACES


@pytest.mark.slow
@pytest.mark.parametrize("world", ["rooms", "metaworld", "highway", "habitat", "metadrive", "libero"])
def test_real_worlds_run_in_the_page(address: str, world: str) -> None:
    if world not in usable():
        pytest.skip(f"{world} is not installed here")
    agent = agents_for(world)[0]
    job = Client(address, verbose=False).submit(world, "", 1, agent, FAST, api_name="/run_world")
    status, view, metrics = job.result(timeout=300)
    assert 'data-phase="done"' in status
    assert "<figcaption>map</figcaption>" in view
    assert 'data-metric="success"' in metrics
