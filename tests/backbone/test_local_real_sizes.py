"""Two-layer random models at the real sizes of Qwen3-VL-4B and Qwen2.5-VL-3B, in hub layout, through every call.

Run by name: ``pytest tests/backbone/test_local_real_sizes.py -m slow``. Needs about 5 GB of memory and 2 GB of disk.
"""

import pytest
import torch
from local_helpers import assistant, message, picture
from peft import LoraConfig
from tiny_models import write_model

from backbone.vlm import VLM

TEXT_3 = {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 2, "num_attention_heads": 32}
TEXT_3 |= {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936}
VISION_3 = {"depth": 2, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560}
VISION_3 |= {"num_position_embeddings": 2304, "deepstack_visual_indexes": [0, 1]}
ROPE_3 = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
TEXT_25 = {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 2, "num_attention_heads": 16}
TEXT_25 |= {"num_key_value_heads": 2, "vocab_size": 151936}
VISION_25 = {"depth": 2, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048}
VISION_25 |= {"fullatt_block_indexes": [1]}
ROPE_25 = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
SIZES = {
    "qwen3_vl": ({**TEXT_3, "rope_parameters": ROPE_3}, VISION_3),
    "qwen2_5_vl": ({**TEXT_25, "rope_parameters": ROPE_25}, VISION_25),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", SIZES)
def test_every_call_at_real_sizes(family, tmp_path):
    text, vision = SIZES[family]
    directory = write_model(family, tmp_path, keep=None, dtype=torch.bfloat16, text=text, vision=vision)
    vlm = VLM.load(str(directory), dtype="bfloat16", device="cpu")
    assert vlm.network.image_id == 151655
    assert vlm.network.width == text["hidden_size"]
    prefix = vlm.prefill(message(picture(0), "What is it?"))
    out = vlm.generate(prefix, n=2, temperature=1.0, max_new_tokens=3)
    assert out.stage.reused_tokens == prefix.length
    assert vlm.generate(prefix, choices=("A", "B")).texts[0] in "AB"
    longer = vlm.extend(prefix, [*assistant("A mug."), *message("Where?")])
    assert longer.stage.visual_tokens == 0
    batch = vlm.generate_batch([message("Hi"), message(picture(1), "Longer question")], max_new_tokens=2)
    assert [len(b.texts) for b in batch] == [1, 1]
    width = vlm.network.width
    mask = torch.ones(4, longer.length + 4, dtype=torch.bool)
    assert vlm.run(longer, torch.randn(4, width), mask).shape == (4, width)
    assert vlm.hidden(longer, [1, -1]).shape == (2, longer.length, width)
    assert vlm.key_values(longer, 1)[0].shape[1] == longer.length
    assert vlm.next_logits(longer).shape == (151936,)
    assert vlm.image_features([picture(0)])[0].shape[-1] == width
    before = vlm.next_logits(prefix)
    vlm.adapters.attach("a", LoraConfig(r=4, target_modules=["q_proj"]))
    vlm.adapters.merge("a")
    vlm.adapters.unmerge()
    assert torch.equal(vlm.next_logits(vlm.prefill(message(picture(0), "What is it?"))), before)
