"""Building nano: the model from its config, its tokenizer and processor, and a directory in hub layout."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
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
        _start_matrices(model.model)
        _start_positions(model.model.visual.pos_embed.weight, config.position_grid)
        _start_patches(model.model.visual.patch_embed.proj)
    model.generation_config.eos_token_id = token("<|im_end|>")
    model.generation_config.pad_token_id = token("<|endoftext|>")
    return model


@torch.no_grad()
def _start_matrices(model: nn.Module) -> None:
    """Every matrix begins with variance 1 / inputs: at these widths the families' own 0.02 starts far too slowly."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)


@torch.no_grad()
def _start_positions(weight: Tensor, side: int, scale: float = 0.3) -> None:
    """Learned positions (side^2, width) begin as sines and cosines of row and column: place is there at once."""
    quarter = weight.shape[1] // 4
    rates = torch.pi * 2.0 ** torch.linspace(-1, 3, quarter)  # half a period over the picture up to four
    place = (torch.arange(side) + 0.5) / side
    angles = place[:, None] * rates  # (side, quarter)
    waves = torch.cat([angles.sin(), angles.cos()], 1)
    grid = torch.cat([waves[:, None].expand(side, side, -1), waves[None].expand(side, side, -1)], -1)
    weight[:, : 4 * quarter] = scale * grid.reshape(side * side, -1)


@torch.no_grad()
def _start_patches(convolution: nn.Conv3d) -> None:
    """The patch embedding begins as low-frequency cosines of brightness (half of the width) and two colour contrasts.

    A random projection of 768 values to fewer scrambles where in the patch an edge lies; these keep it readable. Gains
    rise with frequency, since pictures have less energy there.
    """
    width, _, frames, side, _ = convolution.weight.shape
    place = torch.arange(side) + 0.5
    waves = torch.cos(torch.pi * place[None] * torch.arange(side)[:, None] / side)  # (frequency, place)
    waves = waves * torch.where(torch.arange(side) == 0, (1 / side) ** 0.5, (2 / side) ** 0.5)[:, None]
    order = sorted(((u, v) for u in range(side) for v in range(side)), key=lambda f: (f[0] + f[1], f))
    colours = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])
    colours = colours / colours.norm(dim=1, keepdim=True)
    shares = [width - 2 * (width // 4), width // 4, width // 4]
    rows = []
    for colour, share in zip(colours, shares, strict=True):
        for u, v in order[:share]:
            plane = waves[u][:, None] * waves[v][None] * (1 + u + v) / (0.75 * side)
            rows.append(colour[:, None, None, None] * plane.expand(frames, side, side) / frames)
    convolution.weight.copy_(torch.stack(rows))


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
    return Qwen3VLProcessor(  # type: ignore[no-untyped-call]
        tokenizer=tokenizer, image_processor=image, video_processor=video, chat_template=tokenizer.chat_template
    )


def save_nano(model: Qwen3VLForConditionalGeneration, config: NanoConfig, folder: Path, dtype: torch.dtype) -> None:
    """Write model, tokenizer and processor as a directory that loads like any model of the hub."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.to(dtype) for k, v in model.state_dict().items() if k != "lm_head.weight"}  # tied to the embedding
    model.save_pretrained(folder, state_dict=state, safe_serialization=True)
    build_processor(config, build_tokenizer(VOCABULARY)).save_pretrained(folder)
