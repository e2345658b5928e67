"""The states of those tokens alone that a loss reads, computed as quickly as a processor can.

Every layer needs all tokens as keys of the next one, but of the last layer nothing is read except at the tokens whose
successors are learned: queries, output and feed-forward part of that layer are computed there alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

from backbone.causal_blocks import Plan, attend
from backbone.fused import Norm, Turn

Choose = Callable[[Tensor], Tensor]


def states_at(text: Any, wanted: Tensor, **inputs: Any) -> Tensor:
    """One causal pass over whole conversations; hidden states (N, D) after the norm where ``wanted`` (B, T) is true.

    Args:
        text: the language model of a Qwen-VL model.
        wanted: rows are padded on the right, if at all; what follows a row's last true need not be computed.
        inputs: ``inputs_embeds`` (B, T, D), ``position_ids`` (3, B, T) and what else the model takes, but no mask.
    """
    inputs |= {"attention_mask": None, "use_cache": False}
    if not (quick(text) and bool(wanted.any())):
        hidden: Tensor = text(**inputs).last_hidden_state
        return hidden[wanted]
    deep = len(inputs.get("deepstack_visual_embeds") or ())
    kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else inputs["inputs_embeds"].dtype
    read = [row.nonzero()[:, 0] for row in wanted]
    with _quickly(text, read, kind, shortened := deep < len(text.layers)):
        hidden = text(**inputs).last_hidden_state
    if not shortened:  # features are added after the last layer too, and by their places in whole rows
        return hidden[wanted]
    counts = torch.tensor([len(at) for at in read])
    return hidden[torch.arange(hidden.shape[1]) < counts[:, None]]


def quick(text: Any) -> bool:
    """Whether blocks are quicker than torch's own attention: in bfloat16, on a processor; Qwen3-VL alone is known."""
    return (
        isinstance(text, Qwen3VLTextModel)
        and text.config._attn_implementation == "sdpa"
        and text.embed_tokens.weight.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )


@contextmanager
def _quickly(text: Any, read: Sequence[Tensor], kind: torch.dtype, shortened: bool) -> Iterator[None]:
    """The model computes in blocks inside; if ``shortened``, its last layer gives the tokens ``read`` alone."""
    plan = Plan.of([torch.arange(int(at[-1]) + 1 if len(at) else 0) for at in read], kind)
    with ExitStack() as stack:
        stack.enter_context(_replaced(text.norm, _norm, kind))
        for layer in text.layers:
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                stack.enter_context(_replaced(norm, _norm, kind))
            if shortened and layer is text.layers[-1]:
                choose, own = _chooser(read), Plan.of(read, kind)
                stack.enter_context(_replaced(layer, _layer, choose))
            else:
                choose, own = _all, plan
            stack.enter_context(_replaced(layer.self_attn, _attention, choose, own, kind))
        yield


@contextmanager
def _replaced(module: Any, forward: Any, *arguments: Any) -> Iterator[None]:
    module.forward = functools.partial(forward, module, *arguments)
    try:
        yield
    finally:
        del module.forward  # the class's own again


def _chooser(read: Sequence[Tensor]) -> Choose:
    """Takes states (B, n, ...) at the n tokens of every row out of (B, T, ...); shorter rows are filled up."""
    most = max(len(at) for at in read)
    index = torch.stack([torch.nn.functional.pad(at, (0, most - len(at))) for at in read])  # (B, n)
    first = torch.arange(len(read))[:, None]

    def choose(states: Tensor) -> Tensor:
        flat = (first * states.shape[1] + index).flatten()
        return states.flatten(0, 1).index_select(0, flat).view(*index.shape, *states.shape[2:])

    return choose


def _all(states: Tensor) -> Tensor:
    return states


def _norm(module: Any, kind: torch.dtype, hidden_states: Tensor) -> Tensor:
    normed: Tensor = Norm.apply(hidden_states, module.weight, module.variance_epsilon, kind)
    return normed


def _layer(layer: Any, choose: Choose, hidden_states: Tensor, **options: Any) -> Tensor:
    mixed, _ = layer.self_attn(hidden_states=layer.input_layernorm(hidden_states), **options)
    kept: Tensor = choose(hidden_states) + mixed
    left: Tensor = kept + layer.mlp(layer.post_attention_layernorm(kept))
    return left


def _attention(
    module: Any,
    choose: Choose,
    plan: Plan,
    kind: torch.dtype,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    **_: Any,
) -> tuple[Tensor, None]:
    """Qwen3-VL's attention from the chosen tokens to all."""
    cos, sin = (part.expand(len(hidden_states), -1, -1) for part in position_embeddings)
    query, key, value = (
        project(states).unflatten(-1, (-1, module.head_dim))  # (B, n, H, d)
        for project, states in (
            (module.q_proj, choose(hidden_states)),
            (module.k_proj, hidden_states),
            (module.v_proj, hidden_states),
        )
    )
    at = choose(cos), choose(sin)
    query = Turn.apply(query, module.q_norm.weight, *at, module.scaling, module.q_norm.variance_epsilon, kind)
    key = Turn.apply(key, module.k_norm.weight, cos, sin, 1.0, module.k_norm.variance_epsilon, torch.float32)
    return module.o_proj(attend(query, key, value, plan).flatten(2)), None
