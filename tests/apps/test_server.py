"""The policy server as its clients know it: openpi's protocol, sessions, the gate, common inference."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from serving_helpers import (
    BatchingAgent,
    FunctionAgent,
    alone,
    chunk,
    counter,
    evaluator,
    observation,
    raw,
    remembering,
    served,
    soon,
    unchecked,
)
from websockets.exceptions import ConnectionClosed

from apps.server.observations import Camera, ObservationLayout
from backbone.errors import ConfigError, ServerError
from backbone.serving.codec import pack


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
        for number, wanted in enumerate(alone([0, 1, 2])):
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
    assert all(np.array_equal(a, b) for a, b in zip(answers[1], alone([0, 1, 2], seed=5), strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(answers[2], alone([10, 11, 12], "stay", 6), strict=True))


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
    assert np.array_equal(again, alone([0], seed=4)[0])


def test_what_is_clipped_is_counted_and_what_is_sent_is_reported():
    with served(lambda *_: unchecked(np.array([[1e9, 0.0]], np.float32))) as server, raw(server) as link:
        answer = link.ask(observation())
        assert answer["actions"].tolist() == [[1.0, 0.0]]
        assert answer["clipped"] == 1.0
        assert counter(server, "fovea_actions_clipped_total") == 1
    refusing = served(lambda *_: unchecked(np.array([[1e9, 0.0]], np.float32)), out_of_range="refuse")
    with pytest.raises(ServerError, match="outside"), refusing:  # refused already at the warm-up
        pass


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
        for step, wanted in enumerate(alone(range(4), seed=number)):
            assert np.array_equal(answers[number * 10 + step], wanted)
    with pytest.raises(ConfigError, match="act_many"), served(max_batch=2):
        pass


def test_large_frames_are_decoded_beside_the_event_loop():
    layout = ObservationLayout({"front": Camera()})
    serving_means = served(lambda memory, seen: chunk((seen.images["front"].mean() / 255, 0.0)), layout=layout)
    with serving_means as server, raw(server) as link:
        big = np.full((1080, 1920, 3), 51, np.uint8)
        answer = link.ask(pack({"images/front": big, "prompt": ""}))
        assert abs(answer["actions"][0, 0] - 0.2) < 1e-6
