"""Fixtures of several tests: a chat server and a client of it, and a disk that nobody waits for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from chat_server import serving
from remote_helpers import SMALL

from backbone.remote import RemoteVLM


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def vlm(server):
    with RemoteVLM(server.url, pixels=SMALL, timeout_s=3.0, retries=1) as client:
        yield client


@pytest.fixture(scope="module")
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
