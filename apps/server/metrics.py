"""The server's counters, in a registry of its own, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class ServerMetrics:
    """Everything ``/metrics`` tells; one object a server."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, depth: Callable[[], float], abandoned: Callable[[], float]) -> None:
        """``depth`` and ``abandoned`` are asked whenever the metrics are read."""
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("fovea_requests", "observations answered", ["protocol"], registry=registry)
        self.errors = Counter("fovea_errors", "requests refused or failed", ["type"], registry=registry)
        self.connections = Gauge("fovea_sessions", "open connections", ["protocol"], registry=registry)
        self.episodes = Counter("fovea_episodes", "episodes begun", registry=registry)
        self.clipped = Counter("fovea_actions_clipped", "action values clipped to their limits", registry=registry)
        self.slowed = Counter("fovea_actions_slowed", "action values held back by max_change", registry=registry)
        self.refused = Counter("fovea_actions_refused", "chunks refused by the action gate", registry=registry)
        self.late = Counter(
            "fovea_calls_abandoned", "calls of the policy given up at their deadline", registry=registry
        )
        self.total_s = self._seconds("request", "from a whole message to its answer")
        self.queue_s = self._seconds("queue", "waiting for a thread of inference")
        self.infer_s = self._seconds("inference", "inside the policy")
        Gauge("fovea_queue_depth", "requests waiting", registry=registry).set_function(depth)
        Gauge("fovea_threads_hanging", "threads inside calls that were given up", registry=registry).set_function(
            abandoned
        )

    def answered(self, protocol: str, total_ms: float, queue_ms: float, infer_ms: float) -> None:
        """One observation was answered, and how long it took."""
        self.requests.labels(protocol).inc()
        self.total_s.observe(total_ms / 1e3)
        self.queue_s.observe(queue_ms / 1e3)
        self.infer_s.observe(infer_ms / 1e3)

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry).decode()

    def _seconds(self, name: str, summary: str) -> Histogram:
        return Histogram(f"fovea_{name}_seconds", summary, buckets=SECONDS, registry=self.registry)
