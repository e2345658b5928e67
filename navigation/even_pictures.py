"""The vision tower on many pictures of one size at once: attention as one product instead of a loop over pictures.

transformers attends picture by picture, which for hundreds of small frames costs more than all the rest of a training
step. The result is the same; only Qwen3-VL's tower is treated, and only while pictures are all of one size.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionAttention, apply_rotary_pos_emb_vision

from backbone.nano.losses import linear_patches


@contextmanager
def even_pictures(model: Any) -> Iterator[None]:
    """Let the tower of a Qwen-VL model attend so inside; others are left as they are."""
    tower = model.model.visual
    modules = [m for m in tower.modules() if isinstance(m, Qwen3VLVisionAttention)]
    for module in modules:
        own: Any = module
        own.forward = functools.partial(_attend, module, module.forward)
    embed = tower.patch_embed if modules else None
    if embed is not None:
        embed.forward = functools.partial(linear_patches, embed)
    try:
        yield
    finally:
        for own in modules:
            del own.forward  # the class's own again
        if embed is not None:
            del embed.forward


def _attend(
    module: Any,
    usual: Any,
    hidden_states: Tensor,
    cu_seqlens: Tensor,
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    **options: Any,
) -> Tensor:
    """Attention within each picture: hidden states (N S, D) of N pictures of S patches each."""
    lengths = cu_seqlens[1:] - cu_seqlens[:-1]
    if position_embeddings is None or bool((lengths != lengths[0]).any()):
        out: Tensor = usual(hidden_states, cu_seqlens, position_embeddings=position_embeddings, **options)
        return out
    pictures, size, heads = len(lengths), int(lengths[0]), module.num_heads
    q, k, v = module.qkv(hidden_states).reshape(pictures * size, 3, heads, -1).permute(1, 0, 2, 3).unbind(0)
    q, k = apply_rotary_pos_emb_vision(q, k, *position_embeddings)
    q, k, v = (x.reshape(pictures, size, heads, -1).transpose(1, 2) for x in (q, k, v))  # (N, H, S, d)
    weights = torch.softmax((q * module.scaling) @ k.transpose(2, 3), -1)
    mixed = (weights.to(v.dtype) @ v).transpose(1, 2).reshape(pictures * size, -1)
    projected: Tensor = module.proj(mixed)
    return projected
