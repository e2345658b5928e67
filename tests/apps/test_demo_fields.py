"""What a browser or a script may send in place of a number: every tab says which field is wrong, and what it got."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
pytest.importorskip("moderngl", reason="the homes are drawn with the extra 'worlds'")

from gradio_client import Client
from gradio_client.exceptions import AppError

from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from apps.demo.fields import number, one_of, whole
from assets import SAMPLES
from backbone.errors import DataError
from tests.apps.conftest import free_port
from tests.apps.fakes import ScriptedVLM
from tests.apps.navigate_cases import SPOKEN

Call = Callable[[str, str], str]
NAVIGATE = {
    "world": "rooms", "home": 3, "find": "bed", "start": 0, "strategy": "learned", "value": None, "rival": "nobody",
    "rival_value": None, "limit": 4, "pace": "full speed",
}  # fmt: skip
WORLD = {"world": "rooms", "option": "bed", "seed": 0, "agent": "still", "pace": "full speed"}
SEARCH = {"question": "What?", "options": "", "method": "SPARC", "regime": "256", "samples": 1}
SEEDS = "must be a whole number from 0 to 2147483647, got"
LIMITS = "The limit of steps must be a whole number from 1 to 500, got"
PERIOD = "(actions from one look to the next) must be a whole number from 2 to 500, got"
SHARE = "must be a number from 0 to 1, got"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    demo = build_demo(ScriptedVLM(step_s=0.0, answer=SPOKEN), DemoConfig(port=port))
    serve(demo, DemoConfig(port=port), block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()


@pytest.fixture
def call(address: str) -> Call:
    """Send JSON as it is written, as no client of Gradio's would; returns the last event."""

    def send(name: str, data: str) -> str:
        headers = {"content-type": "application/json"}
        where = f"{address}/gradio_api/call/{name}"
        begun = httpx.post(where, content=f'{{"data": {data}}}', headers=headers, timeout=30)
        begun.raise_for_status()
        return httpx.get(f"{where}/{begun.json()['event_id']}", timeout=60).text.strip().split("\n\n")[-1]

    return send


def refusal(event: str) -> str:
    """The message of a refused call; fails for a call that was not refused, or for no reason."""
    kind, data = event.split("\n", 1)
    assert kind == "event: error", event[:300]
    return str(json.loads(data.removeprefix("data: "))["error"])


WRONG: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("navigate", NAVIGATE, {"home": 1.5}, f"Home {SEEDS} 1.5"),
    ("navigate", NAVIGATE, {"home": None}, f"Home {SEEDS} None"),
    ("navigate", NAVIGATE, {"home": "3"}, f"Home {SEEDS} '3'"),
    ("navigate", NAVIGATE, {"home": True}, f"Home {SEEDS} True"),
    ("navigate", NAVIGATE, {"home": [1]}, f"Home {SEEDS} [1]"),
    ("navigate", NAVIGATE, {"home": float("nan")}, f"Home {SEEDS} nan"),
    ("navigate", NAVIGATE, {"start": -1}, f"Start {SEEDS} -1"),
    ("navigate", NAVIGATE, {"start": 0.5}, f"Start {SEEDS} 0.5"),
    ("navigate", NAVIGATE, {"limit": None}, f"{LIMITS} None"),
    ("navigate", NAVIGATE, {"limit": "10"}, f"{LIMITS} '10'"),
    ("navigate", NAVIGATE, {"limit": 10.5}, f"{LIMITS} 10.5"),
    ("navigate", NAVIGATE, {"limit": 501}, f"{LIMITS} 501"),
    ("navigate", NAVIGATE, {"limit": float("inf")}, f"{LIMITS} inf"),
    ("navigate", NAVIGATE, {"strategy": "fixed", "value": 1e308}, f"Value {PERIOD} 1e+308"),
    ("navigate", NAVIGATE, {"strategy": "fixed", "value": 2.5}, f"Value {PERIOD} 2.5"),
    ("navigate", NAVIGATE, {"strategy": "fixed", "value": None}, f"Value {PERIOD} None"),
    ("navigate", NAVIGATE, {"rival": "fixed", "rival_value": 1}, f"Rival_value {PERIOD} 1"),
    ("navigate", NAVIGATE, {"strategy": "threshold", "value": 1.5}, f"{SHARE} 1.5"),
    ("navigate", NAVIGATE, {"strategy": "threshold", "value": {}}, f"{SHARE} {{}}"),
    ("navigate", NAVIGATE, {"rival": "random", "rival_value": False}, f"{SHARE} False"),
    ("navigate", NAVIGATE, {"strategy": ["learned"]}, "Strategy must be one of learned, threshold,"),
    ("navigate", NAVIGATE, {"rival": None}, "Rival must be one of learned, threshold,"),
    ("navigate", NAVIGATE, {"pace": []}, "Pace must be one of 10 steps a second, full speed, got []"),
    ("run_world", WORLD, {"seed": 1.5}, f"Seed {SEEDS} 1.5"),
    ("run_world", WORLD, {"seed": None}, f"Seed {SEEDS} None"),
    ("run_world", WORLD, {"seed": "1"}, f"Seed {SEEDS} '1'"),
    ("run_world", WORLD, {"seed": True}, f"Seed {SEEDS} True"),
    ("run_world", WORLD, {"option": [5]}, "Find must be one of any, chair,"),
    ("run_world", WORLD, {"world": ["rooms"]}, "World must be one of rooms,"),
    ("run_world", WORLD, {"agent": ["random"]}, "Agent in rooms must be one of expert, random,"),
    ("search", SEARCH, {"samples": None}, "Samples must be one of 1, 4, 8, got None"),
    ("search", SEARCH, {"samples": True}, "Samples must be one of 1, 4, 8, got True"),
    ("search", SEARCH, {"samples": 2}, "Samples must be one of 1, 4, 8, got 2"),
    ("search", SEARCH, {"samples": 1.5}, "Samples must be one of 1, 4, 8, got 1.5"),
    ("search", SEARCH, {"regime": 256}, "Regime must be one of 256, 512, full, got 256"),
    ("search", SEARCH, {"method": ["SPARC"]}, "Method must be one of SPARC, native, zoom, got ['SPARC']"),
]


@pytest.mark.parametrize(
    ("name", "good", "change", "said"), WRONG, ids=[f"{name}-{change}" for name, _, change, _ in WRONG]
)
def test_a_wrong_value_is_named(
    name: str, good: dict[str, Any], change: dict[str, Any], said: str, call: Call, address: str
) -> None:
    values = [*{**good, **change}.values()]
    if name == "search":
        picture = (SAMPLES / "collage.jpg").read_bytes()
        stored = httpx.post(f"{address}/gradio_api/upload", files={"files": picture}).json()[0]
        values.insert(0, {"path": stored, "meta": {"_type": "gradio.FileData"}})
    assert said in refusal(call(name, json.dumps(values)))


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("navigate", [*NAVIGATE.values()][:8], "got 8, so there is none for Steps at most, Pace."),
        ("navigate", [], "10 values were expected"),
        ("run_world", ["rooms"], "got 1, so there is none for Find, Seed, Agent, Pace."),
        ("search", [], "6 values were expected"),
        ("read", [], "none for Document, Question, Of an encrypted PDF"),
        ("look", [0], "got 1, so there is none for Step of the flow"),
    ],
)
def test_values_left_out_are_named(name: str, sent: list[Any], said: str, call: Call) -> None:
    assert said in refusal(call(name, json.dumps(sent)))


@pytest.mark.parametrize("sent", [[None, None], [0.5, 1], [0, 1e308], ["a", 1]])
def test_the_viewer_without_a_document_says_that_there_is_none(sent: list[Any], call: Call) -> None:
    assert refusal(call("look", json.dumps(sent))) == "This document is no longer open; ask again."


def test_gradios_own_client_gets_the_message(address: str) -> None:
    client = Client(address, verbose=False)
    with pytest.raises(AppError, match=f"{LIMITS} None"):
        client.predict(**{**NAVIGATE, "limit": None}, api_name="/navigate")
    with pytest.raises(AppError, match=rf"Home {SEEDS} 1\.5"):
        client.predict(**{**NAVIGATE, "home": 1.5}, api_name="/navigate")
    short = {name: value for name, value in NAVIGATE.items() if name not in ("home", "start")}
    assert "home 0, start 0" in client.predict(**{**short, "strategy": "never"}, api_name="/navigate")[0]


def test_whole_numbers_come_as_any_number() -> None:
    assert whole("n", 3.0, 0, 5) == 3
    assert isinstance(whole("n", 3.0, 0, 5), int)
    assert number("x", 1, 0, 1) == 1.0
    for wrong in (10**400, -(10**400), float("nan"), float("inf"), 5.000001):
        with pytest.raises(DataError, match="n must be a whole number from 0 to 5, got"):
            whole("n", wrong, 0, 5)
        with pytest.raises(DataError, match="x must be a number from 0 to 5, got"):
            number("x", wrong, 0, 5)
    for wrong in (True, 1.0, "1", None, [1]):
        with pytest.raises(DataError, match="n must be one of 1, 4, got"):
            one_of("n", wrong, (1, 4))
