"""Norm, rotation and loss of a Qwen3-VL language model as single operations with gradients of their own.

Written out in torch they are a dozen passes over memory each, forward and backward, with a conversion for every layer
that reads the result; in a small model they cost as much as its products. The results are the same up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Norm(torch.autograd.Function):
    """``Norm.apply(states, weight, eps, kind)``: RMS norm over the last dimension, D; computed in float32."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, eps: float, kind: torch.dtype) -> Tensor:
        """The normed states in the format ``kind``."""
        values, w = states.float(), weight.float()
        scale = _scale(values, eps)
        normed = values * scale
        ctx.save_for_backward(normed, scale, w)
        ctx.kinds = states.dtype, weight.dtype
        return (normed * w).to(kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states and weight, each in its own format."""
        normed, scale, w = ctx.saved_tensors
        states, weight = _backward(gradient.float(), normed, scale, w)
        return states.to(ctx.kinds[0]), weight.to(ctx.kinds[1]), None, None


class Turn(torch.autograd.Function):
    """``Turn.apply(states, weight, cos, sin, factor, eps, kind)``: norm of each head, rotary positions, times a factor.

    States (B, T, H, d), weight (d,), cos and sin (B, T, d), whose pairs are halves. Computed in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        cos: Tensor,
        sin: Tensor,
        factor: float,
        eps: float,
        kind: torch.dtype,
    ) -> Tensor:
        """The turned states in the format ``kind``."""
        values, w = states.float(), weight.float()
        scale = _scale(values, eps)
        normed = values * scale
        half = len(w) // 2
        cos, sin = (part.unsqueeze(2).float() * factor for part in (cos, sin))
        sin = torch.cat([-sin[..., :half], sin[..., half:]], -1)
        turned = normed * (cos * w)
        _add_swapped(turned, normed, sin * w.roll(half))
        ctx.save_for_backward(normed, scale, w, cos, sin)
        ctx.kinds = states.dtype, weight.dtype
        return turned.to(kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states and weight, each in its own format."""
        normed, scale, w, cos, sin = ctx.saved_tensors
        g = gradient.float()
        back = g * cos
        _add_swapped(back, g, sin.roll(len(w) // 2, -1))
        states, weight = _backward(back, normed, scale, w)
        return states.to(ctx.kinds[0]), weight.to(ctx.kinds[1]), None, None, None, None, None


class CrossEntropy(torch.autograd.Function):
    """``CrossEntropy.apply(logits, targets)``: its mean, and the share of targets (N,) with the highest logit.

    Logits (N, V) in float32. torch's own takes several times as long on a processor, most of it exponentials.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of the cross-entropy, and share that is right."""
        top, best = logits.max(-1)
        chances = torch.softmax(logits, -1)
        ctx.save_for_backward(chances, targets)
        # that of the best is never so small that its logarithm is lost, as a target's may be
        rest = top - chances.gather(1, best[:, None])[:, 0].log()
        right = (best == targets).float().mean()
        ctx.mark_non_differentiable(right)
        return (rest - logits.gather(1, targets[:, None])[:, 0]).mean(), right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """That of the logits."""
        chances, targets = ctx.saved_tensors
        share = gradient / len(targets)
        logits = chances * share
        logits.scatter_add_(1, targets[:, None], -share.expand(len(targets), 1))
        return logits, None


def _scale(values: Tensor, eps: float) -> Tensor:
    """One over the root of the mean square, (..., 1)."""
    size: Tensor = torch.linalg.vector_norm(values, dim=-1, keepdim=True)
    return size.square_().div_(values.shape[-1]).add_(eps).rsqrt_()


def _add_swapped(target: Tensor, values: Tensor, by: Tensor) -> None:
    """Add to every half of the last dimension the other half of ``values``, times ``by``."""
    half = values.shape[-1] // 2
    target[..., :half].addcmul_(values[..., half:], by[..., :half])
    target[..., half:].addcmul_(values[..., :half], by[..., half:])


def _backward(gradient: Tensor, normed: Tensor, scale: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of states and weight of ``normed * weight``."""
    product = gradient * normed
    along = (product @ weight).div_(-len(weight)).unsqueeze(-1)
    states = (gradient * weight).addcmul_(normed, along).mul_(scale)
    return states, product.flatten(0, -2).sum(0)
