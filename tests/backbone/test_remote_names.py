"""Addresses, families and settings of a remote model: what is refused before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest
from chat_server import MODEL, serving
from remote_helpers import ask

from backbone.boxes import BoxConvention
from backbone.contracts import Box
from backbone.errors import ConfigError, DataError, RemoteError
from backbone.pixels import Pixels
from backbone.remote import RemoteVLM


def test_boxes_and_pixels_follow_the_family(server, vlm):
    assert (vlm.family, vlm.boxes) == ("qwen3_vl", BoxConvention("relative"))
    assert vlm.visual_tokens(640, 640) == 4
    assert vlm.box_to_numbers(Box(0, 0, 50, 100), 100, 100) == (0, 0, 500, 1000)
    name = server.url + f"#{MODEL}?family=qwen2_5_vl&max_pixels=200704"
    with RemoteVLM(name) as other:
        assert (other.family, other.boxes, other.name) == ("qwen2_5_vl", BoxConvention("resized"), name)
        assert other.pixels == Pixels(3136, 200704, 28)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl"),
        ("qwen2_5_vl_3b", "qwen2_5_vl"),
        ("Qwen2-VL-2B", "qwen2_vl"),
        ("Qwen3-VL-8B-Thinking-FP8", "qwen3_vl"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl_moe"),
        ("Qwen/Qwen3.5-9B", "qwen3_5"),
    ],
)
def test_family_by_name(model, family):
    with serving(models=[{"id": model}]) as server, RemoteVLM(server.url) as vlm:
        assert vlm.family == family


def test_family_by_root_of_a_renamed_model():
    models = [{"id": "eye", "root": "/models/Qwen2.5-VL-3B-Instruct"}]
    with serving(models=models) as server, RemoteVLM(server.url) as vlm:
        assert vlm.family == "qwen2_5_vl"


def test_unknown_family_says_how_to_give_it():
    with serving(models=[{"id": "eye"}]) as server:
        with pytest.raises(ConfigError, match=rf"{server.url}#eye\?family=FAMILY.*qwen3_vl"):
            RemoteVLM(server.url)
        with pytest.raises(ConfigError, match="llava"):
            RemoteVLM(server.url + "#eye?family=llava")
        with pytest.raises(ConfigError, match="min_pixels"):
            RemoteVLM(server.url + "#eye?family=qwen4_vl")


def test_several_models_must_be_named(server):
    server.models.append({"id": "Qwen2-VL-2B"})
    with pytest.raises(RemoteError, match=rf"2 models.*{MODEL}, Qwen2-VL-2B"):
        RemoteVLM(server.url)
    with RemoteVLM(server.url + "#Qwen2-VL-2B") as vlm:
        assert vlm.family == "qwen2_vl"
    with pytest.raises(RemoteError, match=rf"'none'.*{MODEL}"):
        RemoteVLM(server.url + "#none")


@pytest.mark.parametrize(
    "name",
    [
        "ftp://127.0.0.1/v1",
        "http://",
        "http://127.0.0.1:99999/v1",
        "http://user:secret@127.0.0.1/v1",
        "http://127.0.0.1/v1?family=qwen3_vl",
        "http://127.0.0.1/v1#m?famly=qwen3_vl",
        "http://127.0.0.1/v1#m?factor=big",
        "http://127.0.0.1/v1#m?factor=1&factor=2",
    ],
)
def test_malformed_names(name):
    with pytest.raises(ConfigError) as caught:
        RemoteVLM(name)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"max_new_tokens": 0},
        {"stop": "text"},
        {"stop": [""]},
        {"choices": []},
        {"choices": ["a", "a "]},
        {"choices": "ab"},
        {"choices": ["a", "b"], "stop": ["c"]},
    ],
)
def test_impossible_settings(server, vlm, options):
    with pytest.raises(ConfigError):
        vlm.generate(ask(), **options)
    assert not server.requests


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        [{"role": "user"}],
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": [{"type": "image", "image": "/etc/passwd"}]}],
        [{"role": "user", "content": [{"type": "image", "image": "https://example.org/a.png"}]}],
        [{"role": "user", "content": [{"type": "image", "image": np.zeros((3, 8, 8), np.uint8)}]}],
        [{"role": "user", "content": [{"type": "video", "video": "a.mp4"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}],
    ],
)
def test_malformed_messages_are_refused_before_anything_is_sent(server, vlm, messages):
    with pytest.raises(DataError):
        vlm.generate(messages)
    assert not server.requests


def test_key_is_sent_only_from_its_own_variable(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-this-host")
    with RemoteVLM(server.url):
        assert "Authorization" not in server.headers[-1]
    monkeypatch.setenv("FOVEA_API_KEY", "mine")
    with RemoteVLM(server.url):
        assert server.headers[-1]["Authorization"] == "Bearer mine"
