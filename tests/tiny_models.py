"""Random Qwen-VL models of every family, written in hub layout, small enough for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForImageTextToText,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLMoeConfig,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)
from transformers.initialization import no_init_weights

from backbone.tokenizer import build_tokenizer

VISION_TOKENS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
TEXT |= {"num_key_value_heads": 2, "max_position_embeddings": 4096}
VISION = {"depth": 3, "hidden_size": 64, "intermediate_size": 96, "num_heads": 4, "out_hidden_size": 64}
VISION |= {"spatial_merge_size": 2, "temporal_patch_size": 2}


def config_of(
    family: str, tokenizer: Any, text: dict[str, Any] | None = None, vision: dict[str, Any] | None = None
) -> Any:
    """A tiny config of the family for this tokenizer; ``text`` and ``vision`` override sizes."""
    head = (text or {}).get("head_dim", 16)
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in VISION_TOKENS.items()}
    base: dict[str, Any] = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, **TEXT}
    if family.startswith("qwen3_vl"):
        sections = [head // 2 - 2 * (head // 6), head // 6, head // 6]
        base |= {"head_dim": head, "rope_parameters": _rope(sections, mrope_interleaved=True)}
        base |= {"moe_intermediate_size": 48, "num_experts": 4, "num_experts_per_tok": 2} if "moe" in family else {}
        see = {**VISION, "patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]}
        cls = Qwen3VLMoeConfig if "moe" in family else Qwen3VLConfig
    else:
        sections = [head // 8, 3 * head // 16, 3 * head // 16]
        base |= {"rope_parameters": _rope(sections)}
        cls, see = Qwen2_5_VLConfig, {**VISION, "patch_size": 14, "window_size": 112, "fullatt_block_indexes": [1]}
        if family == "qwen2_vl":
            cls, see = Qwen2VLConfig, {"depth": 3, "embed_dim": 64, "hidden_size": 64, "num_heads": 4, "mlp_ratio": 2}
            see |= {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
    text_config = {**base, **(text or {})}
    return cls(text_config=text_config, vision_config={**see, **(vision or {})}, tie_word_embeddings=True, **ids)


def _rope(sections: list[int], **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections, **more}


def processor_of(family: str, tokenizer: Any, minimum: int = 64 * 64, maximum: int = 256 * 256) -> Any:
    """The family's processor with the given pixel limits."""
    new = family.startswith("qwen3_vl")
    moments = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3} if new else {}
    size = {"shortest_edge": minimum, "longest_edge": maximum}
    images = Qwen2VLImageProcessor(patch_size=16 if new else 14, merge_size=2, size=size, **moments)
    cls = Qwen3VLProcessor if new else Qwen2_5_VLProcessor if family == "qwen2_5_vl" else Qwen2VLProcessor
    video = Qwen3VLVideoProcessor() if new else Qwen2VLVideoProcessor()
    template = tokenizer.chat_template
    return cls(tokenizer=tokenizer, image_processor=images, video_processor=video, chat_template=template)


def write_model(
    family: str, directory: Path, keep: int | None = 4096, dtype: torch.dtype = torch.float32, **sizes: Any
) -> Path:
    """Random weights, config, tokenizer and processor in hub layout. Weights are large enough for clear preferences."""
    tokenizer = build_tokenizer(keep, family)
    torch.manual_seed(0)
    with no_init_weights():  # minutes at real sizes, and all is overwritten
        model = AutoModelForImageTextToText.from_config(config_of(family, tokenizer, **sizes), dtype=dtype)
    noise = torch.randn(1_000_003)  # repeated where longer; a prime, so that rows of a matrix differ
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                scale = min(0.15, 1.2 / parameter.shape[-1] ** 0.5)
                parameter.copy_(
                    (noise.roll(-parameter.shape[0]) * scale)
                    .to(dtype)
                    .repeat(-(-parameter.numel() // len(noise)))[: parameter.numel()]
                    .view_as(parameter)
                )
            else:
                parameter.fill_(0.0)
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.fill_(1.0)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.save_pretrained(directory)
    processor_of(family, tokenizer).save_pretrained(directory)
    return directory
