"""The demo's page in a real headless Chromium that can reach nothing but this machine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("playwright", reason="the browser test needs playwright")

from playwright.sync_api import sync_playwright

from tests.apps.conftest import LIMIT_BYTES, wait_until
from tests.apps.fakes import ANSWER, ScriptedVLM

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000  # a loaded machine draws the page slowly
# Notes every stage that becomes active and every partial answer, however briefly the page shows it.
RECORDER = """() => {
  window.seen = {stages: [], answers: []};
  const note = () => {
    const active = document.querySelector("#search-stages .fv-active")?.dataset.stage;
    if (active && window.seen.stages.at(-1) !== active) window.seen.stages.push(active);
    const partial = document.querySelector('#search-answer [data-complete="false"]')?.textContent;
    if (partial && window.seen.answers.at(-1) !== partial) window.seen.answers.push(partial);
  };
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@dataclass
class Browser:
    """A browser context and every address it was kept from."""

    context: Any
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, address: str, width: int = 1280, height: int = 900) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size({"width": width, "height": height})
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#search-ask")
        return page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        profile = tmp_path_factory.mktemp("profile")
        context = playwright.chromium.launch_persistent_context(str(profile), executable_path=CHROMIUM, args=FLAGS)
        wanted = Browser(context)

        def only_this_machine(route: Any) -> None:
            if route.request.url.startswith("http://127.0.0.1:"):
                route.continue_()
            else:
                wanted.refused.append(route.request.url)
                route.abort()

        context.route("**/*", only_this_machine)
        yield wanted
        context.close()


@pytest.fixture
def page(browser: Browser, demo_address: str) -> Iterator[Any]:
    opened = browser.open(demo_address)
    yield opened
    opened.close()
    assert browser.refused == [], "the page asked for something outside this machine"
    assert browser.errors == []


def choose_example(page: Any) -> None:
    page.click("#search-examples tbody tr >> nth=0")
    page.wait_for_function("document.querySelector('#search-question textarea').value.length > 0")
    page.wait_for_selector("#search-picture img")


def test_example_streams_stages_answer_boxes_and_ledger(page: Any) -> None:
    choose_example(page)
    page.click("#search-settings button")
    page.fill("#search-options textarea", "")  # a free answer, which is streamed
    page.evaluate(RECORDER)
    page.click("#search-ask")
    page.wait_for_selector('#search-stages [data-phase="done"]')
    page.wait_for_selector('#search-answer [data-complete="true"]')
    assert page.inner_text("#search-answer").strip() == ANSWER
    seen = page.evaluate("window.seen")
    assert seen["stages"][0] == "searching"
    assert seen["stages"][-1] == "answering"
    assert seen["answers"], "the answer was not streamed"
    assert all(ANSWER.startswith(partial) for partial in seen["answers"])
    assert page.locator("#search-regions li").count() == 2
    assert page.locator("#search-ledger .fv-bar").count() == 3
    page.wait_for_selector("#search-crops img >> nth=1")
    page.wait_for_function("document.querySelector('#search-boxes img')?.naturalWidth > 100")
    assert coloured_pixels(page, "#search-boxes img", (230, 85, 13)) > 100  # the first box's colour
    assert page.is_enabled("#search-ask")
    assert page.is_disabled("#search-cancel")


def coloured_pixels(page: Any, selector: str, rgb: tuple[int, int, int]) -> int:
    """How many pixels of a shown image are close to a colour."""
    count = page.evaluate(
        """([selector, rgb]) => {
          const image = document.querySelector(selector), canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
          let count = 0;
          for (let i = 0; i < data.length; i += 4)
            count += rgb.every((value, channel) => Math.abs(data[i + channel] - value) < 30);
          return count;
        }""",
        [selector, list(rgb)],
    )
    return int(count)


def test_cancel_stops_the_model_within_two_seconds(page: Any, demo_model: ScriptedVLM) -> None:
    choose_example(page)
    demo_model.steps = 4000
    try:
        page.click("#search-ask")
        page.wait_for_selector('#search-stages .fv-active[data-stage="searching"]')
        assert demo_model.active == 1
        clicked = time.monotonic()
        page.click("#search-cancel")
        wait_until(lambda: demo_model.active == 0)
        assert demo_model.ended_at - clicked < 2.0
    finally:
        demo_model.steps = None
    page.wait_for_selector('#search-stages [data-phase="cancelled"]')
    page.wait_for_selector("#search-ask:enabled")
    page.click("#search-ask")
    page.wait_for_selector('#search-stages [data-phase="done"]')


def test_closing_the_tab_stops_the_model(browser: Browser, demo_address: str, demo_model: ScriptedVLM) -> None:
    page = browser.open(demo_address)
    choose_example(page)
    demo_model.steps = 4000
    try:
        page.click("#search-ask")
        page.wait_for_selector('#search-stages .fv-active[data-stage="searching"]')
        page.close()
        wait_until(lambda: demo_model.active == 0)
    finally:
        demo_model.steps = None


def test_broken_and_oversized_uploads_say_what_is_wrong(page: Any, tmp_path: Path) -> None:
    broken, over = tmp_path / "broken.png", tmp_path / "over.png"
    broken.write_bytes(b"not a picture")
    over.write_bytes(b"x" * (LIMIT_BYTES + 1))
    page.set_input_files("#search-picture input[type=file]", str(over))
    page.wait_for_selector("text=/maximum allowed size|exceeded/")
    page.reload()
    page.wait_for_selector("#search-ask")
    page.set_input_files("#search-picture input[type=file]", str(broken))
    page.wait_for_selector("#search-picture img", state="attached")
    page.fill("#search-question textarea", "What is it?")
    page.click("#search-ask")
    page.wait_for_selector('#search-stages [data-phase="failed"]')
    assert "not a readable picture" in page.inner_text("#search-stages")
    page.wait_for_selector("#search-ask:enabled")


def test_fits_a_phone(browser: Browser, demo_address: str) -> None:
    page = browser.open(demo_address, width=390, height=844)
    choose_example(page)
    page.click("#search-ask")
    page.wait_for_selector('#search-stages [data-phase="done"]')
    page.wait_for_selector("#search-ledger .fv-bar")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
