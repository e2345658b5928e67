"""The real openpi-client and vla-eval against the server, where their environments have been made.

``python -m tests.clients.check --environments DIR`` makes them; ``FOVEA_CLIENTS=DIR pytest -m slow tests/clients``.
"""

import os
from pathlib import Path

import pytest

from tests.clients.check import check_world
from tests.clients.environment import PINS, has_client

FOLDER = Path(os.environ.get("FOVEA_CLIENTS", "/nonexistent"))


@pytest.mark.slow
@pytest.mark.parametrize("world", ["metaworld", "rooms"])
@pytest.mark.parametrize("client", sorted(PINS))
def test_a_real_client_reaches_the_results_of_in_process_rollouts(world, client):
    if not has_client(FOLDER, client):
        pytest.skip(f"no environment with {PINS[client]} in FOVEA_CLIENTS={FOLDER}; make it with tests.clients.check")
    rows = check_world(world, [client], episodes=2, environments=FOLDER)
    assert [row["differences"] for row in rows] == [{}, {}]
