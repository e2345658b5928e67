"""Training a model that one GPU cannot hold: every process keeps a piece of each weight, its gradient and its moments.

PyTorch's FSDP2 (``fully_shard``) does the work. A decoder layer or vision block is put together when it runs and taken
apart again; what lies outside of them (embeddings, norms, merger, head) is one group, whole during a pass.

All processes must run the same blocks in every step, and learn the same parameters: a batch without pictures in one
process alone leaves the others waiting for it. After an error the model stays in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed import _composable_state
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from backbone.errors import ModelError


class Sharding:
    """The weights of ``root`` in pieces, from construction until `restore`."""

    def __init__(self, root: nn.Module, device: torch.device, precision: str) -> None:
        """Take over the weights that process 0 has and split them; the module's hooks then gather what a pass needs.

        Args:
            root: Every pass must go through its ``forward``. Its weights are best on the CPU until now: they move to
                ``device`` one block at a time.
            device: This process's own.
            precision: With ``bf16``, blocks are gathered and computed in bfloat16; gradients are summed in float32.

        Raises:
            ModelError: a parameter is a single number, or those that learn are of several dtypes.
        """
        _check(root)
        self._root, self._device = root, device
        self._before = [_Before.of(module) for module in root.modules()]
        self._buffers = [b for b in _persistent_buffers(root) if b.numel()]
        self._originals = {id(p): (p, p.device) for before in self._before for p in before.parameters.values()}
        for value in [p for p, _ in self._originals.values()] + self._buffers:
            self._take_over(value)
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        whole = MixedPrecisionPolicy(cast_forward_inputs=False)
        block = MixedPrecisionPolicy(torch.bfloat16, torch.float32, None, False) if precision == "bf16" else whole
        for module in reversed(list(blocks_of(root))):  # inner ones first
            fully_shard(module, mesh=mesh, mp_policy=block)
        fully_shard(root, mesh=mesh, mp_policy=whole)
        for parameter, _ in self._originals.values():
            parameter.data = parameter.data.new_empty(0)

    @torch.no_grad()
    def _take_over(self, value: Tensor) -> None:
        moved = value.detach().to(self._device)
        dist.broadcast(moved, 0)
        value.copy_(moved)

    def share_buffers(self) -> None:
        """Give all processes the buffers of process 0, as data-parallel training does before a pass."""
        for buffer in self._buffers:
            dist.broadcast(buffer, 0)

    def split(self) -> None:
        """Take apart what a pass without gradient left whole."""
        for module in self._root.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    @torch.no_grad()
    def restore(self) -> None:
        """Put the whole weights back where they came from, in every process: same modules, parameters and devices."""
        self.split()
        self.share_buffers()
        pieces = {
            id(b.parameters[n]): p for b in self._before for n, p in b.module._parameters.items() if p is not None
        }
        for key, (parameter, device) in self._originals.items():
            parameter.data = whole(pieces[key]).to(device)
        for before in self._before:
            before.restore()
        for before in self._before:
            for name, place in before.buffers.items():
                buffer = before.module._buffers[name]
                if buffer is not None:
                    before.module._buffers[name] = buffer.to(place)


def _check(root: nn.Module) -> None:
    single = [name for name, p in root.named_parameters() if p.ndim == 0]
    kinds = sorted({str(p.dtype) for p in root.parameters() if p.requires_grad})
    if single or len(kinds) > 1:
        raise ModelError(
            f"weights cannot be sharded: single numbers {single[:5]}, dtypes that learn {kinds}; give parameters a "
            "dimension and one dtype, or train with sharding none"
        )


def blocks_of(root: nn.Module) -> Iterator[nn.Module]:
    """The decoder layers and vision blocks: what transformers models name as not to be split."""
    kept = {name for m in root.modules() for name in getattr(m, "_no_split_modules", None) or ()}
    return (m for m in root.modules() if type(m).__name__ in kept)


def whole(value: Tensor) -> Tensor:
    """A tensor put together from its pieces, if it is in pieces; all processes must ask at the same time."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def gathered(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Whole tensors on the CPU, one after the other, where ``keep`` is set; all processes must ask together."""
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        joined = whole(value.detach())
        if keep:
            found[name] = joined.cpu()
    return found


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float) -> Tensor:
    """Scale gradients so that their common norm is at most ``limit``; the norm before that, the same in all processes.

    The norm of pieces is that of the whole gradient only once all processes have added theirs.
    """
    norm = whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
    nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def split_like(value: Tensor, parameter: Tensor) -> Tensor:
    """This process's piece of ``value``, if ``parameter`` is in pieces and of the same shape."""
    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    mesh = parameter.device_mesh
    return distribute_tensor(value.to(parameter.device), mesh, parameter.placements, src_data_rank=None)


def _persistent_buffers(root: nn.Module) -> list[Tensor]:
    return [v for v in root.state_dict(keep_vars=True).values() if not isinstance(v, nn.Parameter)]


@dataclass(frozen=True)
class _Before:
    """What a module was before it was sharded. PyTorch has no way back, and callers keep hold of the parameters."""

    module: nn.Module
    kind: type[nn.Module]
    attributes: frozenset[str]
    parameters: dict[str, nn.Parameter]
    buffers: dict[str, torch.device]
    hooks: dict[str, set[Any]] = field(repr=False)

    @classmethod
    def of(cls, module: nn.Module) -> _Before:
        return cls(
            module,
            type(module),
            frozenset(module.__dict__),
            {name: p for name, p in module._parameters.items() if p is not None},
            {name: b.device for name, b in module._buffers.items() if b is not None},
            {name: set(value) for name, value in module.__dict__.items() if _is_hooks(name, value)},
        )

    def restore(self) -> None:
        """Undo what ``fully_shard`` did to the module: its class, parameters, hooks and notes."""
        module = self.module
        module.__class__ = self.kind
        for name, parameter in self.parameters.items():
            module._parameters[name] = parameter
        for name, value in module.__dict__.items():
            if _is_hooks(name, value):
                for key in set(value) - self.hooks.get(name, set()):
                    del value[key]
        for name in set(module.__dict__) - self.attributes:
            if "composable" in name or "fsdp" in name:
                del module.__dict__[name]
        _composable_state._module_state_mapping.pop(module, None)


def _is_hooks(name: str, value: Any) -> bool:
    return isinstance(value, dict) and name.startswith("_") and "hooks" in name
