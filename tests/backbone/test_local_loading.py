"""Loading by name: everything that does not fit together is an error that names it."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from local_helpers import FAMILIES, message, picture
from safetensors.torch import load_file, save_file

from backbone.chat import Chat
from backbone.errors import ConfigError, DataError, ModelError
from backbone.pixels import Pixels
from backbone.vlm import VLM


@pytest.fixture
def copy(tiny_vlm_dir, tmp_path):
    return shutil.copytree(tiny_vlm_dir("qwen3_vl"), tmp_path / "model")


def rewrite(path, **values):
    content = json.loads(path.read_text())
    content.update(values)
    path.write_text(json.dumps(content))


def test_a_missing_weight_is_named(copy):
    weights = load_file(copy / "model.safetensors")
    dropped = "model.language_model.layers.1.mlp.up_proj.weight"
    save_file({k: v for k, v in weights.items() if k != dropped}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"1 missing weights: {dropped}"):
        VLM.load(str(copy))


def test_an_unexpected_weight_is_named(copy):
    weights = load_file(copy / "model.safetensors")
    save_file({**weights, "model.extra.weight": torch.zeros(2)}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"1 unexpected weights: .*extra\.weight"):
        VLM.load(str(copy))


def test_a_weight_of_another_shape_is_refused(copy):
    weights = load_file(copy / "model.safetensors")
    name = "model.visual.merger.linear_fc2.weight"
    save_file({**weights, name: weights[name][:32].clone()}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"linear_fc2\.weight \(found \[32, 256\], expected \[64, 256\]\)"):
        VLM.load(str(copy))


def test_another_family_is_refused(copy):
    rewrite(copy / "config.json", model_type="llava")
    with pytest.raises(ModelError, match="family 'llava'; supported: qwen2_vl, qwen2_5_vl, qwen3_vl"):
        VLM.load(str(copy))


def test_a_tokenizer_of_another_model_is_refused(copy):
    rewrite(copy / "config.json", image_token_id=7)
    with pytest.raises(ModelError, match=r"<\|image_pad\|> id 4108, the model's config 7"):
        VLM.load(str(copy))


def test_pickled_weights_are_refused(copy, tmp_path):
    (copy / "model.safetensors").unlink()
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    torch.save(Evil(), copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        VLM.load(str(copy))
    assert not marker.exists()


def test_remote_code_is_never_run(copy, tmp_path):
    rewrite(copy / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.Config"})
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ModelError):
        VLM.load(str(copy))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [("/no/such/place", "does not exist"), ("./nothing", "does not exist")],
)
def test_missing_directories_are_named(name, said):
    with pytest.raises(ModelError, match=said):
        VLM.load(name)


def test_a_directory_without_config_is_explained(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        VLM.load(str(tmp_path))


def test_a_processor_without_template_is_refused(copy):
    (copy / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="chat template"):
        VLM.load(str(copy))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"dtype": "int8"}, ConfigError, "unknown dtype"),
        ({"device": "toaster"}, ConfigError, "unknown device"),
        ({"attention": "magic"}, ConfigError, "unknown attention"),
        ({"attention": "flash_attention_2", "device": "cpu"}, ModelError, "needs a CUDA GPU"),
        ({"pixels": Pixels(28 * 28, 10**6, 28)}, ConfigError, "factor 28"),
        ({"cache_mebibytes": -1}, ConfigError, "cache_mebibytes"),
    ],
)
def test_impossible_settings_say_why(tiny_vlm_dir, options, error, said):
    with pytest.raises(error, match=said):
        VLM.load(str(tiny_vlm_dir("qwen3_vl")), **options)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_come_out_as_float32(tiny_vlm_dir, dtype):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), dtype=dtype, device="cpu")
    prefix = vlm.prefill(message(picture(0), "Hi"))
    mask = torch.ones(2, prefix.length + 2, dtype=torch.bool)
    results = [vlm.next_logits(prefix), vlm.hidden(prefix, [0]), *vlm.key_values(prefix, 0)]
    results += [*vlm.image_features([picture(0)]), vlm.run(prefix, torch.randn(2, 64, dtype=torch.float64), mask)]
    assert all(r.dtype == torch.float32 for r in results)
    assert vlm.network.dtype == getattr(torch, dtype)
    assert len(vlm.generate(prefix, n=2, temperature=1.0, max_new_tokens=4).texts) == 2


def test_attention_forms_agree(tiny_vlm_dir):
    answers = []
    for attention in ("sdpa", "eager"):
        vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), attention=attention)
        prefix = vlm.prefill(message(picture(0), "Hi"))
        mask = torch.ones(2, prefix.length + 2, dtype=torch.bool)
        answers.append((vlm.next_logits(prefix), vlm.run(prefix, torch.ones(2, 64), mask)))
    for one, other in zip(*answers, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request, tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir(request.param)))


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 64), st.integers(1, 64))
@example(201, 1, 1, 64)
@example(50, 3, 4, 64)
@settings(max_examples=25, deadline=None)
def test_sizes_are_those_of_the_processor(vlm, width, height, low, high):
    """The resized size, the visual tokens and the processor's grid agree for any picture and any limits."""
    factor = vlm.pixels.factor
    pixels = Pixels(min(low, high) * factor**2, max(low, high) * factor**2, factor)
    chat = Chat(vlm.processor, pixels)
    image = np.zeros((height, width, 3), np.uint8)
    try:
        w, h = pixels.resize(width, height)
    except DataError:
        with pytest.raises(ValueError, match="aspect ratio"):
            vlm.processor.image_processor(images=[image], input_data_format="channels_last")
        return
    patches, grids = chat.patches([chat.picture(image)])
    assert grids.tolist() == [[1, h // chat.patch, w // chat.patch]]
    assert len(patches) == grids[0].prod()


def test_given_limits_reach_the_processor(tiny_vlm_dir):
    small = VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=Pixels(32 * 32, 64 * 64, 32))
    assert small.prefill(message(picture(0, 300, 300), "x")).visual_tokens == 4 == small.visual_tokens(300, 300)
    large = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    assert large.prefill(message(picture(0, 300, 300), "x")).visual_tokens == large.visual_tokens(300, 300) > 4
