"""The policy server as its clients know it: both protocols, sessions, the gate, health, limits."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from serving_helpers import (
    LAYOUT,
    QUICK,
    SPEC,
    BatchingAgent,
    FunctionAgent,
    chunk,
    counter,
    evaluator,
    get,
    observation,
    raw,
    remembering,
    served,
    soon,
    unchecked,
)
from websockets.exceptions import ConnectionClosed, InvalidStatus

from apps.server.background import serving
from apps.server.observations import Camera, ObservationLayout
from apps.server.server import PolicyServer
from backbone.contracts import Observation
from backbone.errors import ConfigError, ServerError
from backbone.rollout.agents import ExpertAgent
from backbone.serving.codec import pack

TOKEN = "secret" + "-token"


def _alone(numbers, instruction="go", seed=0):
    """What the policy says in process to these observations."""
    session = FunctionAgent(remembering).session(instruction, seed)
    seen = [observation(n) for n in numbers]
    return [
        session.act(Observation({"front": s["images/front"]}, instruction, s["state"])).actions.values for s in seen
    ]


def test_openpi_speaks_first_and_says_what_the_actions_mean():
    with served() as server, raw(server) as link:
        said = link.metadata
        assert said["actions_unnormalized"] is True
        assert (said["protocol"], said["version"], said["agent"]) == ("openpi", 1, "test")
        assert said["action"]["names"] == ["forward", "turn"]
        assert said["action"]["units"] == ["m/s", "rad/s"]
        assert (said["action"]["low"], said["action"]["high"]) == ([0.0, -1.0], [1.0, 1.0])
        assert (said["action_dim"], said["action_horizon"], said["control_hz"]) == (2, 2, 10.0)
        assert said["observation_keys"]["images/front"]["shape"] == [8, 12, 3]
        assert said["observation_keys"]["images/front"]["also"] == ["observation/image"]
        assert said["observation_keys"]["state"]["shape"] == [2]


def test_answers_equal_those_in_process_and_hold_no_other_array():
    with served() as server, raw(server) as link:
        for number, wanted in enumerate(_alone([0, 1, 2])):
            answer = link.ask(observation(number, seed=0))
            assert np.array_equal(answer["actions"], wanted)
            assert answer["actions"].dtype == np.float32
            others = {key: value for key, value in answer.items() if key != "actions"}
            assert json.dumps(others)  # texts, floats, and maps of them only
            assert answer["policy_timing"]["infer_ms"] >= 0
            assert ("prev_total_ms" in answer["server_timing"]) == (number > 0)


def test_pictures_reach_the_policy_bit_by_bit_under_every_name_and_protocol():
    agent = FunctionAgent(remembering)
    sent = observation(7)
    image = sent["images/front"]
    forms = [
        sent,
        {"observation/image": image, "observation/state": sent["state"], "prompt": "go"},
        {"images": {"front": image}, "state": sent["state"].tolist(), "instruction": "go"},
        {"observation": {"images": {"front": image}, "state": sent["state"]}, "task_description": "go"},
    ]
    with served(agent) as server:
        with raw(server) as link:
            for form in forms:
                link.ask(form)
        with evaluator(server) as link:
            link.send("episode_start", {"task": {}})
            assert link.ask("observation", forms[2])["type"] == "action"
    for seen in agent.seen[1:]:  # the first is the warm-up
        assert np.array_equal(seen.images["front"], image)
        assert seen.images["front"].flags.writeable
        assert seen.state is not None
        assert np.array_equal(seen.state, sent["state"])
        assert seen.instruction == "go"


def test_png_from_vla_eval_is_decoded_bit_by_bit():
    import io

    from PIL import Image

    agent = FunctionAgent(remembering)
    pixels = observation(3)["images/front"]
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    picture = {"__image__": True, "format": "png", "data": stream.getvalue(), "shape": [8, 12, 3]}
    with served(agent) as server, evaluator(server) as link:
        link.send("episode_start", {"task": {"task_description": "go"}})
        answer = link.ask("observation", {"images": {"front": picture}, "state": np.zeros(2, np.float32)})
        assert answer["type"] == "action"
    assert np.array_equal(agent.seen[-1].images["front"], pixels)


def test_an_openpi_error_is_a_text_and_the_end():
    with served() as server, raw(server) as link:
        answer = link.ask({"x": 1})
        assert isinstance(answer, str)
        assert answer.startswith("bad_observation: unknown key 'x'")
        assert "Traceback" not in answer
        with pytest.raises(ConnectionClosed) as closed:
            link.connection.recv(5)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "bad_observation")


def test_interleaved_clients_get_what_each_alone_would():
    with served() as server, raw(server) as first, raw(server) as second:
        answers = {1: [], 2: []}
        for number in range(3):
            answers[1].append(first.ask(observation(number, seed=5))["actions"])
            answers[2].append(second.ask(observation(number + 10, seed=6, prompt="stay"))["actions"])
    assert all(np.array_equal(a, b) for a, b in zip(answers[1], _alone([0, 1, 2], seed=5), strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(answers[2], _alone([10, 11, 12], "stay", 6), strict=True))


def test_episodes_begin_with_reset_another_seed_or_another_prompt():
    agent = FunctionAgent(remembering)
    with served(agent) as server, raw(server) as link:
        for extra in (
            {},
            {"reset": True},
            {"seed": 9},
            {"seed": 9},
            {},
            {"prompt": "stop"},
            {"reset": True, "seed": 9},
        ):
            link.ask(observation(**extra))
    begun = [(s.instruction, s.seed) for s in agent.sessions[1:]]
    assert begun == [("go", 0), ("go", 1), ("go", 9), ("stop", 3), ("go", 9)]
    assert soon(lambda: [s.closed for s in agent.sessions] == [1] * len(agent.sessions))


def test_after_a_reset_the_first_action_is_that_of_a_fresh_policy():
    with served() as server, raw(server) as link:
        for number in range(3):
            link.ask(observation(number, seed=4))
        again = link.ask(observation(0, seed=4, reset=True))["actions"]
    assert np.array_equal(again, _alone([0], seed=4)[0])


def test_vla_eval_the_whole_conversation():
    with served() as server, evaluator(server, hello=False) as link:
        hello = link.ask("hello", {"harness_version": "0.8.0", "protocol_version": 1, "benchmark": "x"})
        assert hello["type"] == "hello"
        assert hello["payload"]["model_server"] == "test"
        assert hello["payload"]["fovea"]["actions_unnormalized"] is True
        assert hello["payload"]["action_spec"]["turn"]["range"] == [-1.0, 1.0]
        seen = observation(0)
        payload = {"images": {"front": seen["images/front"]}, "state": seen["state"], "task_description": "go"}
        refused = link.ask("observation", payload)
        assert (refused["type"], refused["payload"]["error"].split(":")[0]) == ("error", "no_episode")
        link.send("episode_start", {"task": {"name": "t", "seed": 3}})
        action = link.ask("observation", payload)
        assert action["type"] == "action"
        assert np.array_equal(action["payload"]["actions"], _alone([0], seed=3)[0][0])
        broken = link.ask("observation", {"images": {}})
        assert broken["payload"]["error"].startswith("bad_observation: missing images/front")
        assert link.ask("observation", payload)["type"] == "action"  # the connection and the episode live on
        link.send("episode_end", {"success": True})
        assert link.ask("observation", payload)["type"] == "error"
        assert link.ask("hello", {"protocol_version": 2})["payload"]["error"].startswith("bad_version")
        assert link.ask("dance", {})["type"] == "error"


def test_vla_eval_gives_out_chunks_and_a_new_episode_forgets_them():
    agent = FunctionAgent(lambda memory, _: chunk(*[(0.1 * memory.steps + 0.01 * row, 0.0) for row in range(3)]))
    payload = {"images": {"front": np.zeros((8, 12, 3), np.uint8)}, "state": np.zeros(2), "prompt": ""}
    with served(agent, execute=3) as server, evaluator(server) as link:

        def first() -> float:
            return round(float(link.ask("observation", payload)["payload"]["actions"][0]), 3)

        link.send("episode_start", {})
        assert [first() for _ in range(5)] == [0.0, 0.01, 0.02, 0.1, 0.11]
        link.send("episode_start", {})
        assert [first() for _ in range(4)] == [0.0, 0.01, 0.02, 0.1]


def test_what_is_clipped_is_counted_and_what_is_sent_is_reported():
    with served(lambda *_: unchecked(np.array([[1e9, 0.0]], np.float32))) as server, raw(server) as link:
        answer = link.ask(observation())
        assert answer["actions"].tolist() == [[1.0, 0.0]]
        assert answer["clipped"] == 1.0
        assert counter(server, "fovea_actions_clipped_total") == 1
    refusing = served(lambda *_: unchecked(np.array([[1e9, 0.0]], np.float32)), out_of_range="refuse")
    with pytest.raises(ServerError, match="outside"), refusing:  # refused already at the warm-up
        pass


def test_health_metrics_and_readable_refusals():
    with served() as server, raw(server) as link:
        link.ask(observation())
        assert get(server, "/healthz") == (200, "OK\n")
        assert json.loads(get(server, "/health")[1]) == {"status": "ok"}
        assert counter(server, 'fovea_requests_total{protocol="openpi"}') == 1
        assert counter(server, 'fovea_sessions{protocol="openpi"}') == 1
        assert counter(server, "fovea_queue_depth") == 0
        status, text = get(server, "/")
        assert status == 426
        assert "WebSocket" in text
        assert get(server, "/nowhere")[0] == 404
        assert get(server, "/", method="POST")[0] == 405


def test_a_cold_server_is_not_healthy_and_its_clients_wait():
    go = threading.Event()

    def slow(memory, seen):
        go.wait(10)
        return chunk((0.0, 0.0))

    server = PolicyServer(FunctionAgent(slow), LAYOUT, QUICK)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    try:
        assert get(server, "/healthz") == (503, "warming up\n")
        threading.Timer(0.2, go.set).start()
        with raw(server) as link:
            assert link.metadata["action_horizon"] == 1
        assert get(server, "/healthz")[0] == 200
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_policy_that_fails_its_example_is_not_served():
    failing = served(lambda *_: 1 / 0)
    with pytest.raises(ServerError, match=r"failed on the example observation \(ZeroDivisionError"), failing:
        pass


@pytest.mark.parametrize("header", ["Api-Key secret-token", "Bearer secret-token", "bearer  secret-token"])
def test_the_token_opens(header, caplog):
    with served(token=TOKEN) as server:
        with raw(server, additional_headers={"Authorization": header}) as link:
            assert "actions" in link.ask(observation())
        assert get(server, "/metrics", Authorization=header)[0] == 200
        assert get(server, "/healthz")[0] == 200
    assert "secret-token" not in caplog.text
    assert "secret-token" not in repr(server.config)


@pytest.mark.parametrize(
    "header", [None, "", "Api-Key", "Api-Key wrong", "Basic secret-token", "Api-Key secret-token2"]
)
def test_a_wrong_token_gets_nothing(header):
    with served(token=TOKEN) as server:
        headers = {} if header is None else {"Authorization": header}
        for path in ("/", "/vla-eval"):
            with pytest.raises(InvalidStatus) as refused, raw(server, path, additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        assert get(server, "/metrics", **headers)[0] == 401
        assert counter(server, 'fovea_errors_total{type="unauthorized"}') == 3


def test_a_full_server_says_so_and_has_room_again():
    with served(max_connections=2) as server:
        with raw(server), raw(server):
            with pytest.raises(InvalidStatus) as refused, raw(server):
                pass
            assert refused.value.response.status_code == 503
            assert b"full: 2" in bytes(refused.value.response.body or b"")
        assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 0)
        with raw(server) as link:
            assert "actions" in link.ask(observation())


def test_a_silent_client_is_closed():
    with served(idle_s=0.2) as server, raw(server) as link, pytest.raises(ConnectionClosed) as closed:
        link.connection.recv(5)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


def test_requests_waiting_together_are_answered_by_one_inference():
    agent = BatchingAgent(remembering)
    with served(agent, max_batch=4, batch_wait_ms=50.0) as server:
        answers: dict[int, np.ndarray] = {}

        def client(number: int) -> None:
            with raw(server) as link:
                for step in range(4):
                    answers[number * 10 + step] = link.ask(observation(step, seed=number))["actions"]

        threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(agent.batches) > 1
    for number in range(4):
        for step, wanted in enumerate(_alone(range(4), seed=number)):
            assert np.array_equal(answers[number * 10 + step], wanted)
    with pytest.raises(ServerError, match="act_many"), served(max_batch=2):
        pass


def test_a_request_under_way_is_answered_before_the_server_goes():
    entered = threading.Event()

    def slow(memory, seen):
        if memory.instruction:
            entered.set()
            time.sleep(0.3)
        return chunk((0.5, 0.5))

    agent, answer = FunctionAgent(slow), {}
    with served(agent) as server:

        def client() -> None:
            with raw(server) as link:
                answer.update(link.ask(observation()))

        thread = threading.Thread(target=client)
        thread.start()
        assert entered.wait(10)
    thread.join()
    assert answer["actions"].tolist() == [[0.5, 0.5]]
    assert [s.closed for s in agent.sessions] == [1, 1]


def test_experts_are_not_served_and_taken_ports_are_named():
    with (
        pytest.raises(ConfigError, match="reads the simulator itself"),
        serving(PolicyServer(ExpertAgent(SPEC), LAYOUT)),
    ):
        pass
    with served() as server:
        taken = replace(QUICK, port=server.port)
        with pytest.raises(ServerError, match=f"cannot listen on 127.0.0.1:{server.port}"), served(config=taken):
            pass


def test_large_frames_are_decoded_beside_the_event_loop():
    layout = ObservationLayout({"front": Camera()})
    serving_means = served(lambda memory, seen: chunk((seen.images["front"].mean() / 255, 0.0)), layout=layout)
    with serving_means as server, raw(server) as link:
        big = np.full((1080, 1920, 3), 51, np.uint8)
        answer = link.ask(pack({"images/front": big, "prompt": ""}))
        assert abs(answer["actions"][0, 0] - 0.2) < 1e-6
