"""A demo served with a scripted model, shared by the tests of its interface and of its page."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.apps.fakes import ScriptedVLM

LIMIT_BYTES = 5_000_000
QUEUE = 2


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"not so within {timeout_s} s"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def demo_model() -> ScriptedVLM:
    return ScriptedVLM()


@pytest.fixture(scope="session")
def demo_address(demo_model: ScriptedVLM) -> Iterator[str]:
    pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")
    from apps.demo.app import build_demo, serve
    from apps.demo.config import DemoConfig

    port = free_port()
    config = DemoConfig(port=port, max_upload_mb=LIMIT_BYTES / 1e6, max_megapixels=10.0, max_queue=QUEUE, deadline_s=60)
    demo = build_demo(demo_model, config)
    serve(demo, config, block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()
