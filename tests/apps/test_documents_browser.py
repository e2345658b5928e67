"""The Documents tab in a real headless Chromium: ask, slide, choose a page, stop, leave, two users, a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("playwright", reason="the browser test needs playwright")

from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from tests.apps.conftest import LIMIT_BYTES, free_port, wait_until
from tests.apps.documents_helpers import PacedReader, closed, document_file
from tests.apps.fakes import ScriptedVLM
from tests.apps.test_demo_browser import CHROMIUM, Browser, browser, coloured_pixels

__all__ = ["browser"]  # the fixture is shared with the Search tab's tests
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")
LINES = ["Invoice number 4711", "Total amount $12.50"]
FIRST_BOX = (213, 94, 0)


@pytest.fixture(scope="module")
def reader() -> PacedReader:
    return PacedReader()


@pytest.fixture(scope="module")
def address(reader: PacedReader) -> Iterator[str]:
    port = free_port()
    demo = build_demo(ScriptedVLM(), DemoConfig(port=port, max_upload_mb=LIMIT_BYTES / 1e6), lambda: reader)
    serve(demo, DemoConfig(port=port, max_upload_mb=LIMIT_BYTES / 1e6), block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Any]:
    opened = open_tab(browser, address)
    yield opened
    opened.close()
    assert browser.refused == [], "the page asked for something outside this machine"
    assert browser.errors == []


def open_tab(browser: Browser, address: str, width: int = 1280) -> Any:
    opened = browser.open(address, width)
    opened.click("button[role=tab]:has-text('Documents')")
    opened.wait_for_selector("#documents-ask:visible")
    return opened


def ask(page: Any, path: Path, question: str = "What is the total amount?") -> None:
    page.set_input_files("#documents-file input[type=file]", str(path))
    page.wait_for_selector(f"#documents-file >> text={path.stem}")
    page.fill("#documents-question textarea", question)
    page.click("#documents-ask")


def wait_done(page: Any) -> None:
    page.wait_for_selector('#documents-stages [data-phase="done"]')
    page.wait_for_function("document.querySelector('#documents-view img')?.naturalWidth > 100")


def slide(page: Any, position: int, caption: str) -> None:
    page.fill("#documents-step input[type=number]", str(position))
    page.press("#documents-step input[type=number]", "Enter")
    page.wait_for_function(f"document.querySelector('#documents-caption').textContent.includes('{caption}')")
    page.wait_for_function("document.querySelector('#documents-view img')?.complete")
    page.wait_for_timeout(200)


def test_the_example_is_answered_and_its_flow_can_be_watched(page: Any) -> None:
    page.click("#documents-examples tbody tr >> nth=0")
    page.wait_for_function("document.querySelector('#documents-question textarea').value.length > 0")
    page.wait_for_selector("#documents-file >> text=document")
    page.click("#documents-ask")
    wait_done(page)
    assert page.locator("#documents-answer .fv-answer").inner_text().strip()
    assert page.locator("#documents-evidence td i").count() >= 1
    assert page.locator("#documents-ledger .fv-bar").count() == 4
    assert coloured_pixels(page, "#documents-view img", FIRST_BOX) > 100
    slide(page, 1, "step 1 of 4 on 8 cells a side")
    wait_until(lambda: coloured_pixels(page, "#documents-view img", (102, 102, 102)) > 10_000, 5)
    assert coloured_pixels(page, "#documents-view img", FIRST_BOX) < 100, "boxes belong to the end"
    assert page.is_enabled("#documents-ask")
    assert page.is_disabled("#documents-cancel")


def test_pages_can_be_chosen(page: Any, tmp_path: Path) -> None:
    ask(page, document_file(tmp_path, LINES, pages=3))
    wait_done(page)
    page.click("#documents-page input")
    page.click("ul[role=listbox] li >> nth=2")
    page.wait_for_function("document.querySelector('#documents-caption').textContent.includes('Page 3 of 3')")


def test_cancel_stops_reading_and_another_run_works(page: Any, reader: PacedReader, tmp_path: Path) -> None:
    path = document_file(tmp_path, LINES, pages=100)
    reader.page_s = 0.2
    try:
        ask(page, path)
        page.wait_for_selector("#documents-stages >> text=/Page [0-9]+ of 100 is read/")
        page.click("#documents-cancel")
        wait_until(lambda: reader.active == 0, 5)  # of 20 s; the time of stopping itself is tested without a page
    finally:
        reader.page_s = 0.0
    page.wait_for_selector('#documents-stages [data-phase="cancelled"]')
    page.wait_for_selector("#documents-ask:enabled")
    page.click("#documents-ask")
    wait_done(page)


def test_closing_the_page_stops_reading_and_closes_documents(
    browser: Browser, address: str, reader: PacedReader, tmp_path: Path
) -> None:
    page = open_tab(browser, address)
    ask(page, document_file(tmp_path, LINES))
    wait_done(page)
    page.close()
    wait_until(lambda: closed(reader.documents[-1]))
    page = open_tab(browser, address)
    reader.page_s = 0.2
    try:
        ask(page, document_file(tmp_path, LINES, pages=100, name="long.pdf"))
        page.wait_for_selector("#documents-stages >> text=/Page [0-9]+ of 100 is read/")
        page.close()
        wait_until(lambda: reader.active == 0)
    finally:
        reader.page_s = 0.0
    wait_until(lambda: closed(reader.documents[-1]))


def test_two_users_see_their_own_documents(browser: Browser, page: Any, address: str, tmp_path: Path) -> None:
    other = open_tab(browser, address)
    ask(page, document_file(tmp_path, ["Alpha 1111"], name="alpha.pdf"))
    ask(other, document_file(tmp_path, ["Beta 2222"], pages=2, name="beta.pdf"))
    for opened, own, foreign in ((page, "of 1", "Beta"), (other, "of 2", "Alpha")):
        wait_done(opened)
        assert foreign not in opened.inner_text("#documents-evidence")
        slide(opened, 1, own)
    other.close()


def test_broken_and_oversized_uploads_say_what_is_wrong(page: Any, tmp_path: Path) -> None:
    broken, over = tmp_path / "broken.pdf", tmp_path / "over.pdf"
    broken.write_bytes(b"%PDF-1.7 nothing else")
    over.write_bytes(b"%PDF" + bytes(LIMIT_BYTES))
    page.set_input_files("#documents-file input[type=file]", str(over))
    page.wait_for_selector("text=/maximum allowed size|exceeded/")
    page.reload()
    page.wait_for_selector("#search-ask")
    page.click("button[role=tab]:has-text('Documents')")
    ask(page, broken)
    page.wait_for_selector('#documents-stages [data-phase="failed"]')
    assert "broken.pdf: broken PDF" in page.inner_text("#documents-stages")
    page.wait_for_selector("#documents-ask:enabled")


def test_fits_a_phone(browser: Browser, address: str, tmp_path: Path) -> None:
    page = open_tab(browser, address, width=390)
    ask(page, document_file(tmp_path, LINES))
    wait_done(page)
    page.wait_for_selector("#documents-ledger .fv-bar")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
