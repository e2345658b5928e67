"""The Navigate tab in a real headless Chromium: choose, watch the map and a thought grow, stop, compare, on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("moderngl", reason="the homes are drawn with the extra 'worlds'")
pytest.importorskip("playwright", reason="the browser test needs playwright")

from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from apps.demo.navigate_choices import objects_in
from tests.apps.conftest import free_port
from tests.apps.fakes import ScriptedVLM
from tests.apps.test_demo_browser import CHROMIUM, Browser, browser, coloured_pixels

__all__ = ["browser"]  # the fixture is shared with the Search tab's tests
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")
THOUGHT = "The door to the left was not tried yet, so I go there and look for it in the next room."
HOME = 3
STEP = "Number(document.querySelector('#navigate-view [data-step]')?.dataset.step)"
# Notes every step and every length of a thought that the page shows while it runs, however briefly.
RECORDER = """() => {
  window.seen = {steps: [], lengths: []};
  const note = () => {
    const step = document.querySelector("#navigate-view [data-step]")?.dataset.step;
    if (step !== undefined && window.seen.steps.at(-1) !== Number(step)) window.seen.steps.push(Number(step));
    const length = document.querySelector('#navigate-thoughts [data-thought="writing"] p')?.textContent.length;
    if (length && window.seen.lengths.at(-1) !== length) window.seen.lengths.push(length);
  };
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    config = DemoConfig(port=port, max_queue=3, max_worlds=2)
    answer = f"<think_start>{THOUGHT}<think_end>\nMoveAhead 0.25"
    demo = build_demo(ScriptedVLM(step_s=0.02, answer=answer), config)
    serve(demo, config, block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()


def open_tab(browser: Browser, address: str, width: int = 1280) -> Any:
    page = browser.open(address, width)
    page.click("button[role=tab]:has-text('Navigate')")
    page.wait_for_selector("#navigate-run")
    return page


def choose(page: Any, field: str, value: str) -> None:
    page.click(f"#{field} input")
    page.fill(f"#{field} input", value)
    page.press(f"#{field} input", "Enter")


def ended(page: Any, how: str = "done") -> str:
    page.wait_for_selector(f'#navigate-status [data-phase="{how}"]')
    return str(page.inner_text("#navigate-status"))


def test_choose_watch_stop_and_compare(browser: Browser, address: str) -> None:
    page = open_tab(browser, address)

    # Another home has other objects.
    page.fill("#navigate-home input", str(HOME))
    wanted = next(c for c in objects_in(HOME) if c not in objects_in(0) and "_" not in c)
    page.wait_for_selector("#navigate-run:enabled")
    choose(page, "navigate-object", wanted)
    assert not page.is_visible("#navigate-value")
    choose(page, "navigate-strategy", "fixed")
    page.wait_for_selector("#navigate-value")
    page.fill("#navigate-value input", "4")

    # The map, the camera and the thoughts grow while it runs, until it is stopped.
    page.evaluate(RECORDER)
    page.click("#navigate-run")
    page.wait_for_function(f"{STEP} > 6")
    assert page.is_disabled("#navigate-run")
    page.click("#navigate-stop")
    page.wait_for_selector('#navigate-status [data-phase="cancelled"]')
    assert f"Find the {wanted}: home {HOME}, start 0, every 4 actions" in page.inner_text("#navigate-status")
    seen = page.evaluate("window.seen")
    assert len(seen["steps"]) > 3, "not live"
    assert seen["steps"] == sorted(seen["steps"])
    assert len(seen["lengths"]) > 3, "the thought was not shown as it was written"
    assert THOUGHT in page.inner_text("#navigate-thoughts li >> nth=-1")
    assert page.locator("#navigate-view .fv-nav-around img").count() == 4
    page.wait_for_function("document.querySelector('#navigate-view img[alt=map]')?.naturalWidth > 300")
    for colour in ((0, 114, 178), (15, 118, 110), (232, 150, 20)):  # the way, a landmark, the target
        assert coloured_pixels(page, "#navigate-view img[alt=map]", colour) > 30, colour
    page.wait_for_selector("#navigate-run:enabled")
    step = page.evaluate(STEP)

    # Two ways side by side, with one table.
    choose(page, "navigate-strategy", "never")
    choose(page, "navigate-rival", "expert")
    page.wait_for_selector("#navigate-run:has-text('Compare')")
    page.fill("#navigate-limit input[type=number]", "80")
    page.click("#navigate-pace label:has-text('full speed')")
    page.click("#navigate-run")
    assert "Expert: success" in ended(page)
    assert page.locator("#navigate-view article").count() == 2
    assert page.locator("#navigate-results thead th").count() == 4
    assert page.inner_text('#navigate-results [data-measure="success"] td >> nth=1') == "yes"
    assert page.evaluate(STEP) >= step
    page.wait_for_selector("#navigate-run:enabled")
    page.close()
    assert browser.refused == [], "the page asked for something outside this machine"
    assert browser.errors == []


def test_errors_are_said_on_the_page_and_it_fits_a_phone(browser: Browser, address: str) -> None:
    page = open_tab(browser, address, width=390)
    choose(page, "navigate-object", "dragon")
    page.click("#navigate-run")
    assert "Home 0 has no 'dragon' to be found; it has" in ended(page, "failed")
    page.wait_for_selector("#navigate-run:enabled")
    choose(page, "navigate-object", "bed")
    choose(page, "navigate-strategy", "expert")
    page.click("#navigate-pace label:has-text('full speed')")
    page.click("#navigate-run")
    assert "Success" in ended(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
