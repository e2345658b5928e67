"""Building nano: the model from its config, its tokenizer and processor, and a directory in hub layout."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from backbone.nano.config import VOCABULARY, NanoConfig
from backbone.tokenizer import build_tokenizer


def build_model(config: NanoConfig, seed: int = 0, attention: str = "eager") -> Qwen3VLForConditionalGeneration:
    """A nano model with random weights; eager attention is the fastest for it on a CPU."""
    tokenizer = build_tokenizer(VOCABULARY)
    token = tokenizer.convert_tokens_to_ids
    half = config.text_head_dim // 2
    section = [half - 2 * (half * 5 // 16), half * 5 // 16, half * 5 // 16]
    full = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": config.text_width,
            "intermediate_size": config.text_feed_forward,
            "num_hidden_layers": config.text_layers,
            "num_attention_heads": config.text_heads,
            "num_key_value_heads": config.text_key_value_heads,
            "head_dim": config.text_head_dim,
            "max_position_embeddings": config.max_positions,
            "bos_token_id": None,
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e5,
                "mrope_section": section,
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": config.vision_layers,
            "hidden_size": config.vision_width,
            "intermediate_size": config.vision_feed_forward,
            "num_heads": config.vision_heads,
            "patch_size": config.patch,
            "spatial_merge_size": config.merge,
            "temporal_patch_size": 2,
            "out_hidden_size": config.text_width,
            "num_position_embeddings": config.position_grid**2,
            "deepstack_visual_indexes": list(config.deepstack),
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    full._attn_implementation = attention
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(full)
    model.generation_config.eos_token_id = token("<|im_end|>")
    model.generation_config.pad_token_id = token("<|endoftext|>")
    return model


def build_processor(config: NanoConfig, tokenizer: PreTrainedTokenizerBase) -> Qwen3VLProcessor:
    """The processor with nano's patch size and pixel limits."""
    size = {"shortest_edge": config.minimum_pixels, "longest_edge": config.maximum_pixels}
    image = Qwen2VLImageProcessor(
        patch_size=config.patch,
        merge_size=config.merge,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size=size,
    )
    video = Qwen3VLVideoProcessor(patch_size=config.patch, merge_size=config.merge)
    return Qwen3VLProcessor(
        tokenizer=tokenizer, image_processor=image, video_processor=video, chat_template=tokenizer.chat_template
    )


def save_nano(model: Qwen3VLForConditionalGeneration, config: NanoConfig, folder: Path, dtype: torch.dtype) -> None:
    """Write model, tokenizer and processor as a directory that loads like any model of the hub."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.to(dtype) for k, v in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=state, safe_serialization=True)
    build_processor(config, build_tokenizer(VOCABULARY)).save_pretrained(folder)
