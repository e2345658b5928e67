"""How the policy server holds up: overhead of one request, and many clients at once, on this machine.

Run from the project's folder; the server runs in a process of its own, as in use::

    python -m tests.clients.load --clients 32 --seconds 60 --policy-ms 20 --output load.json

Exit code 1 unless the overhead's median is at most 2 ms, no request failed, the slowest client got at least half of the
mean share, ``/healthz`` answered within 100 ms at the 99th percentile, and the server's memory stayed flat.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apps.server.config import ServerConfig
from apps.server.observations import Camera, ObservationLayout
from apps.server.server import PolicyServer
from backbone.contracts import ActionChunk, ActionSpec, Decision, Observation
from backbone.serving.client import PolicyClient
from backbone.statistics import percentiles

SPEC = ActionSpec.make_example()
LAYOUT = ObservationLayout({"front": Camera(224, 224)}, state=8)
WARM_UP, SHARE, HEALTH_MS, OVERHEAD_MS = 20, 0.5, 100.0, 2.0
FLAT_MB = 30.0  # what the last third of the run may use above the second: noise of the allocator, not a leak
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Load:
    """What many clients at once met with."""

    clients: int
    seconds: float
    answered: int
    errors: tuple[str, ...]
    slowest_share: float  # of the mean
    request_ms: dict[str, float]
    health_ms: dict[str, float]
    memory_mb: tuple[float, ...]  # the server's resident set: mean of every tenth of the run

    @property
    def growth_mb(self) -> float:
        """Mean of the last third against the one before it; the first holds the filling of caches."""
        third = len(self.memory_mb) // 3
        if not third:
            return 0.0
        return float(np.mean(self.memory_mb[-third:]) - np.mean(self.memory_mb[-2 * third : -third]))


class SleepingAgent:
    """Takes ``seconds`` without using the processor, as a policy on a GPU does."""

    def __init__(self, seconds: float) -> None:
        self.spec, self._seconds = SPEC, seconds

    def session(self, instruction: str, seed: int) -> SleepingAgent:
        return self

    def act(self, observation: Observation) -> Decision:
        if self._seconds:
            time.sleep(self._seconds)
        return Decision(ActionChunk(np.zeros((8, 2), np.float32), SPEC))

    def close(self) -> None:
        pass


def observation(number: int) -> dict[str, Any]:
    """One 224 x 224 picture, a state and a prompt."""
    generator = np.random.default_rng(number)
    image = generator.integers(0, 256, (224, 224, 3), np.uint8)
    return {"images/front": image, "state": np.zeros(8, np.float32), "prompt": "go"}


def measure_overhead(url: str, requests: int) -> dict[str, float]:
    """Milliseconds of a request to a policy that does nothing, minus the same call without a server."""
    sent = observation(0)
    seen = Observation({"front": sent["images/front"]}, "go", sent["state"])
    raw, served, agent = [], [], SleepingAgent(0.0)
    with PolicyClient(url) as client:
        for number in range(requests + WARM_UP):
            began = time.perf_counter()
            agent.act(seen)
            between = time.perf_counter()
            client.infer(sent)
            if number >= WARM_UP:
                raw.append((between - began) * 1e3)
                served.append((time.perf_counter() - between) * 1e3)
    return percentiles(np.array(served) - np.median(raw), (50, 90, 95, 99))


def measure_load(url: str, process: int, clients: int, seconds: float) -> Load:
    """Every client asks as fast as it is answered."""
    stop = time.perf_counter() + seconds
    counts, times, errors = [0] * clients, [[] for _ in range(clients)], []  # type: ignore[var-annotated]
    started = threading.Barrier(clients + 1)

    def ask(index: int) -> None:
        try:
            with PolicyClient(url, timeout_s=30.0) as client:
                sent = observation(index)
                started.wait(60)
                while (began := time.perf_counter()) < stop:
                    client.infer(sent)
                    times[index].append((time.perf_counter() - began) * 1e3)
                    counts[index] += 1
        except Exception as error:
            errors.append(f"client {index}: {type(error).__name__}: {error}"[:200])

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    started.wait(60)
    health, memory = _watch(url, process, stop)
    for thread in threads:
        thread.join()
    every = [spent for each in times for spent in each]
    return Load(
        clients,
        seconds,
        sum(counts),
        tuple(errors),
        min(counts) / max(np.mean(counts), 1e-9),
        percentiles(every) if every else {},
        percentiles(health) if health else {},
        tuple(round(float(np.mean(part)), 1) for part in np.array_split(memory, 10) if len(part)),
    )


def _watch(url: str, process: int, stop: float) -> tuple[list[float], list[float]]:
    """Milliseconds of ``/healthz`` and megabytes of the server, ten times a second."""
    health, memory = [], []
    address = url.removeprefix("ws://")
    while time.perf_counter() < stop:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        if response.status != 200 or response.read() != b"OK\n":
            raise RuntimeError(f"/healthz answered {response.status}")
        connection.close()
        health.append((time.perf_counter() - began) * 1e3)
        memory.append(resident_mb(process))
        time.sleep(0.1)
    return health, memory


def resident_mb(process: int) -> float:
    """The process's resident memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def served(policy_ms: float) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its address and process id."""
    command = [sys.executable, "-m", "tests.clients.load", "--serve", "--policy-ms", str(policy_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        if process.wait(30) != 0:
            logger.error("the server ended with %d", process.returncode)


async def _serve(policy_ms: float) -> None:
    server = PolicyServer(SleepingAgent(policy_ms / 1e3), LAYOUT, ServerConfig(port=0))
    await server.run(lambda: print(server.url, flush=True))  # noqa: T201 - read by `served`


def main() -> int:
    """Measure, judge, write."""
    options = _options()
    if options.serve:
        asyncio.run(_serve(options.policy_ms))
        return 0
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with served(0.0) as (url, _):
        overhead = measure_overhead(url, options.requests)
    logger.info("overhead of one request, ms: %s (n = %d)", _short(overhead), options.requests)
    with served(options.policy_ms) as (url, process):
        load = measure_load(url, process, options.clients, options.seconds)
    logger.info("%d clients, %g s, %d answers, %d errors", load.clients, load.seconds, load.answered, len(load.errors))
    logger.info("slowest client's share of the mean %.2f, request ms: %s", load.slowest_share, _short(load.request_ms))
    logger.info("/healthz ms: %s", _short(load.health_ms))
    logger.info("memory MB: %s, growth %.1f", load.memory_mb, load.growth_mb)
    failed = [name for name, held in judged(overhead, load).items() if not held]
    report = {"overhead_ms": overhead, "load": asdict(load), "growth_mb": load.growth_mb, "failed": failed}
    report |= {"policy_ms": options.policy_ms, "machine": platform.processor(), "cores": os.cpu_count()}
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    for name in [*failed, *load.errors[:5]]:
        logger.error("failed: %s", name)
    return 1 if failed else 0


def judged(overhead: dict[str, float], load: Load) -> dict[str, bool]:
    """The promises, and whether each was held."""
    return {
        f"overhead p50 at most {OVERHEAD_MS:g} ms": overhead["p50"] <= OVERHEAD_MS,
        "no errors": not load.errors,
        f"slowest share at least {SHARE:g}": load.slowest_share >= SHARE,
        f"/healthz p99 at most {HEALTH_MS:g} ms": load.health_ms["p99"] <= HEALTH_MS,
        f"memory grows by at most {FLAT_MB:g} MB": load.growth_mb <= FLAT_MB,
    }


def _short(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--policy-ms", type=float, default=20.0)
    parser.add_argument("--requests", type=int, default=500, help="for the overhead of one request")
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
