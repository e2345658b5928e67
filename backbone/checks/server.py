"""What clients rely on in a policy server that speaks openpi's protocol, checked from outside.

Aimed at any such server: what only Fovea's servers promise is checked where the metadata promises it, and remarked on
elsewhere. Every wait is bounded, and frames that could harm a careless server are sent only if ``hostile`` asks for it.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.exceptions import ConnectionClosed

from backbone.checks.report import Check, CheckReport, Finding, Wrong, run_checks
from backbone.checks.server_probe import ServerProbe
from backbone.serving.client import server_address
from backbone.serving.codec import pack
from backbone.serving.errors import AnswerError, ConnectionLostError, NoAnswerError
from backbone.statistics import percentiles

BROKEN: dict[str, str | bytes] = {
    "a text": "hello",
    "a cut message": b"\x82\xa1a\x01",
    "a number": b"\x01",
    "an unknown key": pack({"no_key": 1}),
}
HOSTILE: dict[str, str | bytes] = {
    "5000 nested lists": b"\x91" * 5000 + b"\x00",
    "an array of objects": pack({b"__ndarray__": True, b"data": b"\0" * 16, b"dtype": "|O", b"shape": [2]}),
    "an array of negative size": pack({b"__ndarray__": True, b"data": b"", b"dtype": "<f4", b"shape": [-1]}),
}


def check_server(probe: ServerProbe, on_finding: Callable[[Finding], None] | None = None) -> CheckReport:
    """Run all checks against the server; raises `ConfigError` where ``probe.url`` is no address, else nothing."""
    server_address(probe.url)
    return run_checks(probe.url, CHECKS, probe, mend=lambda: None, on_finding=on_finding)


def _health(probe: ServerProbe) -> str | None:
    parts = urlsplit(probe.url)
    kind = http.client.HTTPSConnection if parts.scheme == "wss" else http.client.HTTPConnection
    connection = kind(parts.hostname or "localhost", parts.port, timeout=probe.timeout_s)
    try:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        body = response.read(200).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise Wrong(f"GET /healthz: {type(error).__name__}: {error}; is the server running, on this port?") from error
    finally:
        connection.close()
    if response.status == 503:
        raise Wrong(f"GET /healthz: 503 ({body}); it is not ready: wait until it is warm, or look at its log")
    if response.status != 200:
        raise Wrong(
            f"GET /healthz: HTTP {response.status}; openpi's servers answer 200 OK. An older server, or a proxy?"
        )
    return None if body == "OK" else f"the body is {body!r} instead of 'OK'"


def _metadata(probe: ServerProbe) -> str | None:
    with probe.client() as client:
        probe.metadata = client.get_server_metadata()
    if probe.metadata.get("actions_unnormalized") is False:
        raise Wrong(
            "actions_unnormalized is false: values in [-1, 1] would go to the robot; un-normalise in the server"
        )
    missing = [name for name in ("action", "actions_unnormalized", "observation_keys") if name not in probe.metadata]
    if missing:
        return f"it does not say: {', '.join(missing)}; who un-normalises the actions, and what they mean, is a guess"
    return None


def _answer(probe: ServerProbe) -> str | None:
    with probe.client() as client:
        answer = client.infer(probe.observation(0, seed=0))
    actions = answer.get("actions")
    if not isinstance(actions, np.ndarray):
        raise Wrong(f"the answer has no array `actions` (keys: {sorted(map(str, answer))}); clients index it by step")
    if actions.ndim != 2 or not actions.size:
        raise Wrong(f"actions have shape {actions.shape}; clients expect (horizon, action values)")
    if actions.dtype.kind != "f" or not np.isfinite(actions).all():
        raise Wrong(
            f"actions are {actions.dtype} or not finite; a NaN reached the wire: check actions before they leave"
        )
    probe.shape = actions.shape
    _inside(actions, probe.metadata.get("action"))
    horizon = probe.metadata.get("action_horizon")
    if horizon not in (None, 0, len(actions)):
        raise Wrong(f"the metadata says a horizon of {horizon}, the answer has {len(actions)} actions")
    others = [(path, array) for path, array in _arrays(answer, "") if path != "actions"]
    short = [path for path, array in others if array.ndim == 0 or len(array) < len(actions)]
    if short:
        raise Wrong(
            f"{', '.join(short)}: arrays shorter than the {len(actions)} actions break ActionChunkBroker; send lists"
        )
    return f"{actions.dtype} {actions.shape}"


def _inside(actions: Any, spec: Any) -> None:
    if not isinstance(spec, Mapping):
        return
    low, high = np.asarray(spec["low"], np.float32), np.asarray(spec["high"], np.float32)
    if actions.shape[1] != len(low):
        raise Wrong(f"the metadata names {len(low)} action values, the answer has {actions.shape[1]}")
    if (actions < low - 1e-5).any() or (actions > high + 1e-5).any():
        raise Wrong("actions leave the limits of the metadata; clip or refuse them in the server")


def _arrays(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        return [(path, value)]
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in _arrays(item, f"{path}/{key}" if path else str(key))]


def _stable(probe: ServerProbe) -> str | None:
    with probe.client() as client:
        shapes = {_form(client.infer(probe.observation(number, seed=0))) for number in range(5)}
    if len(shapes) > 1:
        raise Wrong(f"five answers had {len(shapes)} forms: {', '.join(sorted(shapes))}; clients allocate for one")
    return None


def _form(answer: dict[str, Any]) -> str:
    actions = answer.get("actions")
    return f"{actions.dtype} {actions.shape}" if isinstance(actions, np.ndarray) else type(actions).__name__


def _deterministic(probe: ServerProbe) -> str | None:
    answers = [_walk(probe, 3) for _ in range(2)]
    if np.array_equal(*answers):
        return None
    worst = float(np.abs(answers[0] - answers[1]).max()) if answers[0].shape == answers[1].shape else float("nan")
    said = f"the same observations on two new connections gave other actions (by {worst:.3g})"
    if not probe.seeded:
        return f"{said}; it takes no seeds, so a policy that samples cannot be repeated"
    raise Wrong(f"{said} with the same seed; state leaks between connections, or the seed is not used")


def _walk(probe: ServerProbe, steps: int) -> Any:
    with probe.client() as client:
        return np.stack([client.infer(probe.observation(step, seed=1))["actions"] for step in range(steps)])


def _independent(probe: ServerProbe) -> str | None:
    if not probe.seeded:
        return "not judged: it takes no seeds"
    alone = _walk(probe, 3)
    together = []
    with probe.client() as first, probe.client() as second:
        for step in range(3):
            together.append(first.infer(probe.observation(step, seed=1))["actions"])
            second.infer(probe.observation(step + 50, seed=2))
    if not np.array_equal(alone, np.stack(together)):
        raise Wrong("a second client changed the first one's actions; keep the state of an episode in its connection")
    return None


def _survives(probe: ServerProbe) -> str | None:
    remarks: list[str] = []
    with probe.client() as bystander:
        for name, frame in (BROKEN | HOSTILE if probe.hostile else BROKEN).items():
            remarks += _broken(probe, name, frame)
            try:
                bystander.infer(probe.observation(0, seed=0))
            except (ConnectionLostError, NoAnswerError, AnswerError) as error:
                raise Wrong(f"after {name} from one client another one got no answer: {error}") from error
    with probe.client() as client:
        client.infer(probe.observation(0, seed=0))
    return "; ".join(dict.fromkeys(remarks)) or None


def _broken(probe: ServerProbe, name: str, frame: str | bytes) -> list[str]:
    """What one bad frame is answered with; raises `Wrong` for silence and for actions."""
    with probe.link() as link:
        link.recv(probe.timeout_s)
        link.send(frame)
        try:
            answer = link.recv(probe.timeout_s)
        except TimeoutError as error:
            raise Wrong(f"{name} got no answer in {probe.timeout_s:g} s; the client would wait for ever") from error
        except ConnectionClosed as closed:
            return [f"{name} ended the connection ({closed.rcvd.code if closed.rcvd else 'cut'}) without a reason"]
        if not isinstance(answer, str):
            raise Wrong(f"{name} was answered as if it were an observation; check keys, shapes and types first")
        return ["its errors are tracebacks, which show strangers its code and paths"] if "Traceback" in answer else []


def _leaves(probe: ServerProbe) -> str | None:
    frame = pack(probe.observation(0, seed=0))
    for _ in range(3):
        with probe.link() as link:
            link.recv(probe.timeout_s)
            link.send(frame)
            link.socket.shutdown(socket.SHUT_RDWR)  # as a machine that crashes, without a word
    with probe.client() as client:
        client.infer(probe.observation(0, seed=0))
    return None


def _latency(probe: ServerProbe) -> str | None:
    times, inside, until = [], [], time.perf_counter() + 6 * probe.timeout_s
    with probe.client() as client:
        for number in range(probe.requests + 2):
            sent = probe.observation(number, seed=0)
            began = time.perf_counter()
            answer = client.infer(sent)
            times.append((time.perf_counter() - began) * 1e3)
            timing = answer.get("server_timing")
            if isinstance(timing, Mapping) and "infer_ms" in timing:
                inside.append(float(timing["infer_ms"]))
            if time.perf_counter() > until:
                break
    counted = times[2:] or times
    found = percentiles(counted)
    text = f"p50 {found['p50']:.1f}, p95 {found['p95']:.1f}, p99 {found['p99']:.1f} ms over {len(counted)} requests"
    text += f", of which inside the policy p50 {np.median(inside):.1f} ms" if inside else "; it sends no server_timing"
    rate, horizon = probe.metadata.get("control_hz"), (probe.shape or (1,))[0]
    if isinstance(rate, int | float) and rate > 0 and found["p95"] > 1e3 * horizon / rate:
        text += f"; slower than its {horizon} actions last at {rate:g} Hz: the robot will stand and wait"
    return text


CHECKS: list[Check[ServerProbe]] = [
    Check("GET /healthz answers OK", _health),
    Check("it speaks first, with metadata", _metadata, ground=True),
    Check("an observation is answered with finite actions (H, A)", _answer, ground=True),
    Check("the form of the answer is stable", _stable),
    Check("equal observations give equal actions", _deterministic),
    Check("two clients do not disturb each other", _independent),
    Check("bad messages get an error, and everybody else an answer", _survives),
    Check("a client may leave in the middle", _leaves),
    Check("latency", _latency),
]
