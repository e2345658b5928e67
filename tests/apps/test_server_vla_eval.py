"""The policy server's second protocol, vla-eval's."""

from __future__ import annotations

import numpy as np
from serving_helpers import FunctionAgent, alone, chunk, evaluator, observation, remembering, served


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
        assert np.array_equal(action["payload"]["actions"], alone([0], seed=3)[0][0])
        broken = link.ask("observation", {"images": {}})
        assert broken["payload"]["error"].startswith("bad_observation: missing images/front")
        assert link.ask("observation", payload)["type"] == "action"  # the connection and the episode live on
        link.send("episode_end", {"success": True})
        assert link.ask("observation", payload)["type"] == "error"
        assert link.ask("hello", {"protocol_version": 2})["payload"]["error"].startswith("bad_version")
        assert link.ask("dance", {})["type"] == "error"
        for seed in (-1, 2**63, True, "1"):
            said = link.ask("episode_start", {"seed": seed})["payload"]["error"]
            assert said.startswith("bad_observation: seed: expected a whole number from 0 to 9223372036854775807, got")


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
