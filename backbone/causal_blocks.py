"""Causal attention for training on a processor: whole matrix products, block by block, forward and backward.

torch's own attention for CPUs multiplies in small tiles, at a sixth of the speed that the same processor reaches in a
plain product of bfloat16 matrices, and it cannot leave out queries whose answers nobody reads. Here one block of
queries is multiplied with all keys up to its last query. The result is the same up to rounding; scores are kept in the
format of the products, so keys are centred first: that changes no softmax, and leaves small scores to be rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

SIZE = 128  # queries in a block; what is multiplied is padded to it, so that few shapes of products occur


@dataclass(frozen=True)
class Block:
    """Queries ``number * SIZE`` and following of a row. They see all keys before ``begin`` and none from ``end`` on."""

    row: int
    number: int
    begin: int
    end: int
    mask: Tensor  # (SIZE, end - begin): 0 or minus infinity, to be added


@dataclass(frozen=True)
class Plan:
    """Which queries attend, the same for every layer."""

    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, places: Sequence[Tensor], dtype: torch.dtype = torch.float32) -> Plan:
        """From the positions, int64 (n,) ascending, of each row's queries among its keys; ``dtype`` of the masks."""
        return cls(tuple(b for row, at in enumerate(places) for b in _blocks(row, at, dtype)))


def _blocks(row: int, at: Tensor, dtype: torch.dtype) -> Iterator[Block]:
    for number, own in enumerate(torch.split(at, SIZE) if len(at) else ()):
        padded = functional.pad(own, (0, SIZE - len(own)), value=int(own[-1]))
        begin, end = int(own[0]), _rounded(int(own[-1]) + 1)
        hidden = torch.arange(begin, end) > padded[:, None]
        yield Block(row, number, begin, end, torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf))


def _rounded(count: int) -> int:
    return -(-count // SIZE) * SIZE


def attend(query: Tensor, key: Tensor, value: Tensor, plan: Plan) -> Tensor:
    """Scaled queries (B, n, H, d), keys and values (B, T, H / groups, d) -> (B, n, H, d), in the format of ``query``.

    What queries outside the plan get means nothing. Keys are best given in float32, whatever the format.
    """
    out: Tensor = _Attend.apply(query, key, value, plan)
    return out


class _Attend(torch.autograd.Function):
    """All heads of a key are laid one after the other as further queries, (B, heads of keys, blocks, rows, d).

    The weights are computed again for the backward pass: keeping them would take longer, and much memory.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: Plan) -> Tensor:
        groups, kind = query.shape[2] // key.shape[2], query.dtype
        with torch.autocast("cpu", enabled=False):
            q = _in_blocks(query, groups)
            k, v = _by_head(key - key.mean(1, keepdim=True), kind), _by_head(value, kind)
            out = torch.zeros_like(q)
            for block in plan.blocks:
                for head in range(key.shape[2]):
                    at, part = (block.row, head), (block.row, head, block.number)
                    keys, values = k[at].narrow(0, 0, block.end), v[at].narrow(0, 0, block.end)
                    torch.mm(_weights(q[part], keys, block), values, out=out[part])
        ctx.save_for_backward(q, k, v)
        ctx.plan, ctx.groups, ctx.count = plan, groups, query.shape[1]
        ctx.length, ctx.kinds = key.shape[1], (query.dtype, key.dtype, value.dtype)
        return _joined(out, groups, ctx.count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        pulled = _in_blocks(gradient.to(q.dtype), ctx.groups)
        dq, dk, dv = torch.zeros_like(q), torch.zeros(k.shape), torch.zeros(v.shape)  # sums of many blocks: float32
        for block in ctx.plan.blocks:
            for head in range(k.shape[1]):
                at, part = (block.row, head), (block.row, head, block.number)
                keys, values = (t[at].narrow(0, 0, block.end) for t in (k, v))
                own, g = q[part], pulled[part]
                weights = _weights(own, keys, block)
                dv[at].narrow(0, 0, block.end).add_(weights.t() @ g)
                told = g @ values.t()
                told = torch._softmax_backward_data(told, weights, -1, told.dtype, grad_input=told)
                torch.mm(told, keys, out=dq[part])
                dk[at].narrow(0, 0, block.end).add_(told.t() @ own)
        # the mean that was taken off the keys has no gradient: a row of ``told`` sums to nothing
        dk, dv = (t[:, :, : ctx.length].transpose(1, 2).contiguous() for t in (dk, dv))
        found = (_joined(dq, ctx.groups, ctx.count), dk, dv)
        return (*(t.to(kind) for t, kind in zip(found, ctx.kinds, strict=True)), None)


def _weights(queries: Tensor, keys: Tensor, block: Block) -> Tensor:
    """Attention weights (rows, end) of a block's queries, which are scaled already."""
    scores = queries @ keys.t()
    scores.view(-1, SIZE, block.end)[..., block.begin :].add_(block.mask)
    return torch.softmax(scores, -1)


def _by_head(states: Tensor, kind: torch.dtype) -> Tensor:
    """(B, T, heads, d) to (B, heads, T, d) with T filled up to whole blocks."""
    missing = _rounded(states.shape[1]) - states.shape[1]
    return functional.pad(states.to(kind).transpose(1, 2), (0, 0, 0, missing)).contiguous()


def _in_blocks(states: Tensor, groups: int) -> Tensor:
    """(B, n, H, d) to (B, H / groups, blocks, groups * SIZE, d)."""
    rows, count, heads, width = states.shape
    blocks = _rounded(count) // SIZE
    padded = functional.pad(states, (0, 0, 0, 0, 0, blocks * SIZE - count))
    parts = padded.view(rows, blocks, SIZE, heads // groups, groups, width)
    return parts.permute(0, 3, 1, 4, 2, 5).reshape(rows, heads // groups, blocks, groups * SIZE, width)


def _joined(states: Tensor, groups: int, count: int) -> Tensor:
    """The way back: (B, n, H, d)."""
    rows, kinds, blocks, _, width = states.shape
    parts = states.view(rows, kinds, blocks, groups, SIZE, width).permute(0, 2, 4, 1, 3, 5)
    return parts.reshape(rows, blocks * SIZE, kinds * groups, width)[:, :count]
