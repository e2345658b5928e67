"""The Worlds tab in a real headless Chromium: watch, stop, leave, and a world that says how to get it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("playwright", reason="the browser test needs playwright")

from apps.demo import worlds_catalogue
from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from apps.demo.worlds_catalogue import Choice
from apps.world_states import PACKAGES
from apps.worlds import WORLDS, WorldEntry
from tests.apps import test_worlds_tab as hall
from tests.apps.conftest import free_port, wait_until
from tests.apps.fakes import ScriptedVLM
from tests.apps.test_demo_browser import CHROMIUM, Browser, browser, coloured_pixels

__all__ = ["browser"]  # the fixture is shared with the Search tab's tests
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")
STEPS = "document.querySelector('#worlds-view [data-step]')?.dataset.step"

# Notes every step that the page shows while the episode runs, however briefly, and whether Run is disabled then.
RECORDER = """() => {
  window.seen = [];
  const note = () => {
    const running = document.querySelector('#worlds-status [data-phase="running"]');
    const step = document.querySelector("#worlds-view [data-step]")?.dataset.step;
    if (running && step !== undefined && window.seen.at(-1)?.step !== Number(step))
      window.seen.push({step: Number(step), waits: document.querySelector("#worlds-run").disabled});
  };
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""


@dataclass(frozen=True)
class BarnConfig:
    """A world whose one setting has other values than the hall's, which take a second to be known."""

    kind: str = "short"

    @property
    def world(self) -> str:
        return "barn"

    def options(self, index: int) -> dict[str, Any]:
        return {}

    def make(self) -> hall.HallWorld:
        return hall.HallWorld("plain")


def barn_kinds() -> tuple[str, ...]:
    time.sleep(1.0)
    return "short", "long"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    config = DemoConfig(port=port, max_queue=3, max_worlds=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WORLDS, "hall", WorldEntry(hall.__name__, "HallConfig", "a hall", "navigation", "build a hall"))
        patch.setitem(WORLDS, "cellar", WorldEntry("nowhere", "Nothing", "a cellar", "navigation", "dig a cellar"))
        patch.setitem(WORLDS, "barn", WorldEntry(__name__, "BarnConfig", "a barn", "navigation", "build a barn"))
        patch.setitem(PACKAGES, "barn", ())
        patch.setitem(worlds_catalogue.CHOICES, "barn", Choice("kind", "Kind", barn_kinds))
        patch.setitem(PACKAGES, "hall", ())
        patch.setitem(PACKAGES, "cellar", ("no_such_package",))
        patch.setitem(worlds_catalogue.CHOICES, "hall", Choice("kind", "Kind", lambda: hall.KINDS))
        demo = build_demo(ScriptedVLM(), config)
        serve(demo, config, block=False)
        yield f"http://127.0.0.1:{port}"
        demo.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Any]:
    hall.HallWorld.opened.clear()
    opened = open_tab(browser, address)
    yield opened
    opened.close()
    wait_until(lambda: all(world.closed == 1 for world in hall.HallWorld.opened))
    assert browser.refused == [], "the page asked for something outside this machine"
    assert browser.errors == []


def open_tab(browser: Browser, address: str, width: int = 1280) -> Any:
    opened = browser.open(address, width)
    opened.click("button[role=tab]:has-text('Worlds')")
    opened.click("#worlds-world label:has-text('hall')")
    opened.wait_for_function("document.querySelector('#worlds-option input').value === 'plain'")
    return opened


def choose_kind(page: Any, kind: str) -> None:
    page.fill("#worlds-option input", kind)
    page.press("#worlds-option input", "Enter")


def test_an_episode_is_watched_to_its_end(page: Any) -> None:
    page.fill("#worlds-seed input", "200")
    page.evaluate(RECORDER)
    page.click("#worlds-run")
    page.wait_for_selector('#worlds-status [data-phase="done"]')
    seen = page.evaluate("window.seen")
    assert len(seen) > 5, "not live"
    assert [moment["step"] for moment in seen] == sorted(moment["step"] for moment in seen)
    assert all(moment["waits"] for moment in seen), "Run could be pressed while it ran"
    assert "Success after 30 steps" in page.inner_text("#worlds-status")
    assert page.inner_text('#worlds-metrics [data-metric="path_length"]') == "30"
    assert page.locator("#worlds-view figure").count() == 3
    assert coloured_pixels(page, '#worlds-view img[alt="front"]', (200, 90, 240)) == 48 * 64
    page.wait_for_selector("#worlds-run:enabled")
    assert page.is_disabled("#worlds-stop")


def test_stop_ends_the_world_and_another_can_run(page: Any) -> None:
    choose_kind(page, "calm")
    page.click("#worlds-run")
    page.wait_for_function(f"Number({STEPS}) > 2")
    page.click("#worlds-stop")
    wait_until(lambda: hall.HallWorld.opened[-1].closed == 1, 5)  # the time of stopping itself is tested without a page
    page.wait_for_selector('#worlds-status [data-phase="cancelled"]')
    assert page.locator("#worlds-view figure").count() == 3, "what was seen last stays"
    choose_kind(page, "plain")
    page.click("#worlds-run")
    page.wait_for_selector('#worlds-status [data-phase="done"]')


def test_closing_the_page_closes_the_world(browser: Browser, address: str) -> None:
    page = open_tab(browser, address)
    choose_kind(page, "calm")
    page.click("#worlds-run")
    page.wait_for_function(f"Number({STEPS}) > 1")
    world = hall.HallWorld.opened[-1]
    page.close()
    wait_until(lambda: world.closed == 1)


def test_two_pages_show_two_worlds(browser: Browser, page: Any, address: str) -> None:
    other = open_tab(browser, address)
    for opened, seed in ((page, 60), (other, 220)):
        choose_kind(opened, "calm")
        opened.fill("#worlds-seed input", str(seed))
        opened.click("#worlds-run")
    for opened, seed in ((page, 60), (other, 220)):
        opened.wait_for_function(f"Number({STEPS}) > 3")
        colour = opened.evaluate("document.querySelector('#worlds-status b').textContent")
        assert f"seed {seed}" in colour
    page.click("#worlds-stop")
    page.wait_for_selector('#worlds-status [data-phase="cancelled"]')
    step = int(other.evaluate(STEPS))
    other.wait_for_function(f"Number({STEPS}) > {step + 2}")
    other.close()


def test_run_waits_for_the_options_of_a_newly_chosen_world(page: Any) -> None:
    page.click("#worlds-world label:has-text('barn')")
    page.click("#worlds-run")  # as soon as it can be pressed
    page.wait_for_selector('#worlds-status [data-phase="done"], #worlds-status [data-phase="failed"]')
    assert "expert in barn" in page.inner_text("#worlds-status"), "it was run with the option of the hall"


def test_a_broken_world_says_why(page: Any) -> None:
    choose_kind(page, "broken")
    page.click("#worlds-run")
    page.wait_for_selector('#worlds-status [data-phase="failed"]')
    assert "The floor gave way at step 3" in page.inner_text("#worlds-status")
    page.wait_for_selector("#worlds-run:enabled")


def test_a_world_that_is_not_here_says_its_remedy(page: Any) -> None:
    assert page.locator("#worlds-world label:has-text('cellar')").count() == 0
    assert "dig a cellar" in page.inner_text('[data-world="cellar"]')


def test_fits_a_phone(browser: Browser, address: str) -> None:
    page = open_tab(browser, address, width=390)
    page.click("#worlds-run")
    page.wait_for_selector('#worlds-status [data-phase="done"]')
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
