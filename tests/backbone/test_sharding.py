"""Training with weights in pieces, in two processes, equals data-parallel training and training in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from forked_ranks import in_two_processes
from peft import LoraConfig
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from training_helpers import log_of

from backbone.errors import ConfigError, ModelError, UnsupportedError
from backbone.local import LocalVLM
from backbone.sharding import blocks_of
from backbone.training import TrainingConfig, train
from backbone.training_config import LossFunction
from backbone.vlm import VLM

CONFIG = TrainingConfig(steps=4, learning_rate=1e-2, precision="fp32", log_every=1, clip=0.05, accumulate=2)
FULL = replace(CONFIG, sharding="full")
LORA = LoraConfig(r=3, target_modules=r".*(layers\.\d+\.self_attn\.[qv]_proj|visual\.blocks\.\d+\.attn\.qkv)")


class Block(nn.Module):
    """Odd sizes, so that pieces are unequal, a bias that one process has alone, and a parameter nobody learns with."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.idle = nn.Linear(6, 7), nn.Linear(7, 1), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(torch.tanh(self.a(x)))


class Net(nn.Module):
    _no_split_modules = ("Block",)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 6)
        self.last.weight = self.first.weight  # tied
        self.blocks[0].a.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


def batch_at(index: int) -> dict[str, Tensor]:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(index))
    return {"x": x, "y": x.flip(1).tanh()}


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
    keep = torch.nn.functional.dropout(torch.ones(4, 6), 0.2)  # random state of each process must come back
    return (((model(batch["x"]) - batch["y"]) * keep) ** 2).mean(), {}


def evaluate(model: nn.Module, step: int) -> dict[str, float]:
    """In pieces this works in a pass alone; every process must draw the same."""
    return {"score": float(model(torch.ones(2, 6)).sum() + torch.rand(()) * 0), "drawn": float(torch.rand(()))}


def steps_of(folder: Path) -> list[list[float]]:
    return [[e["loss"], e["gradient_norm"]] for e in log_of(folder) if e["event"] == "step"]


def small_rank(rank: int, folder: Path) -> None:
    data = Net()
    train(data, batch_at, loss, CONFIG, folder / "data", prefetch=0)
    full = Net()
    before, kinds = list(full.parameters()), [type(m) for m in full.modules()]
    if rank == 1:
        with torch.no_grad():
            full.first.weight.add_(1.0)  # process 0 decides what is begun with
    seen: list[bool] = []

    def watched(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        weights = model.first.weight, model.blocks[0].b.weight, model.blocks[1].a.bias
        seen.append([isinstance(w, DTensor) for w in weights] == [False, True, True])
        return loss(model, batch)

    straight = train(full, batch_at, watched, FULL, folder / "full", prefetch=0)
    assert seen == [True] * 8
    assert all(a is b for a, b in zip(before, full.parameters(), strict=True))
    assert [type(m) for m in full.modules()] == kinds
    assert full.last.weight is full.first.weight
    assert not full.blocks[0].a.weight.requires_grad
    saved = load_file(straight.checkpoint / "weights.safetensors")
    assert not any(k.startswith("blocks.0.a.w") for k in saved)
    for name, value in saved.items():
        assert torch.equal(value, full.state_dict()[name]), name
    copy = Net()
    copy.load_state_dict(full.state_dict())
    torch.testing.assert_close(copy.eval()(torch.ones(2, 6)), full.eval()(torch.ones(2, 6)), rtol=0, atol=0)
    full.train()
    again(full, folder)
    resumed(rank, folder)


def again(model: nn.Module, folder: Path) -> None:
    """The same modules can be sharded a second time, and evaluated on the way without a trace."""
    plain, other = Net(), Net()
    for net in (plain, other):
        net.load_state_dict(model.state_dict())
    train(plain, batch_at, loss, FULL, folder / "again", prefetch=0)
    result = train(model, batch_at, loss, FULL, folder / "eval", prefetch=0, evaluate=evaluate, evaluate_every=1)
    for (name, a), b in zip(plain.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    mode = model.training
    with torch.no_grad():
        score = evaluate(model.eval(), 4)["score"]
    model.train(mode)
    assert result.metrics["evaluate/score"] == pytest.approx(score, rel=1e-5)
    for name in ("drawn", "score"):
        values = [torch.zeros(()) for _ in range(2)]
        torch.distributed.all_gather(values, torch.tensor(result.metrics[f"evaluate/{name}"]))
        assert values[0] == values[1]


def resumed(rank: int, folder: Path) -> None:
    """Stopped and gone on with: the same to the last bit. Data-parallel from pieces, and pieces from data-parallel."""
    stop, calls = threading.Event(), iter(range(100))

    def stopping(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        if rank == 1 and next(calls) == 3:
            stop.set()
        return loss(model, batch)

    half = train(Net(), batch_at, stopping, FULL, folder / "resumed", stop=stop, prefetch=0)
    assert half.steps == 2
    train(Net(), batch_at, loss, FULL, folder / "resumed", prefetch=0)
    for begins, ends, name in ((FULL, CONFIG, "joined"), (CONFIG, FULL, "split")):
        train(Net(), batch_at, loss, replace(begins, steps=2, warmup_fraction=0.0), folder / name, prefetch=0)
        train(Net(), batch_at, loss, replace(ends, warmup_fraction=0.0), folder / name, prefetch=0)


def newest(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(max((folder / "checkpoints").glob("step-*")) / f"{name}.safetensors")


def test_in_pieces_equals_data_parallel_and_resumes_exactly(tmp_path: Path) -> None:
    in_two_processes(small_rank, tmp_path)
    data, full = steps_of(tmp_path / "data"), steps_of(tmp_path / "full")
    assert min(norm for _, norm in data) > CONFIG.clip  # clipping was at work
    assert full == [pytest.approx(row, rel=1e-5) for row in data]
    for name in ("weights", "optimizer"):
        expected, found = newest(tmp_path / "data", name), newest(tmp_path / "full", name)
        assert not any("idle" in key for key in found) or name == "weights"
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        once = newest(tmp_path / "resumed", name)
        assert once.keys() == found.keys()
        assert all(torch.equal(once[key], value) for key, value in found.items())
        joined, split = newest(tmp_path / "joined", name), newest(tmp_path / "split", name)
        torch.testing.assert_close(joined, split, rtol=1e-4, atol=1e-5)
    one = Net()
    train(one, batch_at, loss, replace(CONFIG, steps=6), tmp_path / "full")  # one process goes on with the pieces' run
    assert log_of(tmp_path / "full")[-1]["steps"] == 6


VLM_CONFIG = replace(CONFIG, steps=3, learning_rate=1e-3, accumulate=1)


def tuned(directory: Path, adapter: bool) -> tuple[LocalVLM, LossFunction, Callable[[int], dict[str, Tensor]]]:
    """A model that learns as an adapter or whole, the loss of the next token, and batches with a picture each."""
    vlm = VLM.load(str(directory), device="cpu")
    assert isinstance(vlm, LocalVLM)
    torch.manual_seed(5)
    if adapter:
        vlm.adapters.attach("a", LORA)
        vlm.adapters.trainable("a")
    else:
        vlm.model.requires_grad_(True)

    def rows(index: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.randint(0, 256, (3, 64, 64), generator=generator, dtype=torch.uint8)
        text = f"<|vision_start|><|image_pad|><|vision_end|>{index} is what?"
        return dict(vlm.processor(text=[text], images=[picture], return_tensors="pt"))

    def next_token(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        with vlm.adapters.active("a" if adapter else None):
            logits = model(**batch, use_cache=False).logits.float()
        return nn.functional.cross_entropy(logits[0, :-1], batch["input_ids"][0, 1:]), {}

    return vlm, next_token, rows


def vlm_rank(directory: Path, adapter: bool, precision: Any) -> Callable[[int, Path], None]:
    config = replace(VLM_CONFIG, precision=precision)

    def work(rank: int, folder: Path) -> None:
        for name, settings in (("data", config), ("full", replace(config, sharding="full"))):
            vlm, objective, rows = tuned(directory, adapter)
            inner = [
                m for m in vlm.model.modules() if type(m).__name__ in ("Qwen3VLVisionBlock", "Qwen2_5_VLVisionBlock")
            ]
            assert len(list(blocks_of(vlm.model))) == 6
            seen: list[Tensor] = []
            handle = inner[-1].register_forward_pre_hook(lambda m, _, seen=seen: seen.append(m.norm1.weight))
            train(vlm.model, rows, objective, settings, folder / name, prefetch=0)
            handle.remove()
            kinds = {w.dtype for w in seen}
            assert kinds == {torch.bfloat16 if (precision, name) == ("bf16", "full") else torch.float32}
            if adapter and rank == 0:
                vlm.adapters.save("a", folder / name / "adapter")
            reply = vlm.generate([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], max_new_tokens=3)
            assert reply.texts  # the model is whole again

    return work


@pytest.mark.parametrize(
    ("family", "adapter", "precision"),
    [("qwen3_vl", True, "fp32"), ("qwen2_5_vl", False, "fp32"), ("qwen3_vl", True, "bf16")],
)
def test_vision_language_models_in_pieces(
    tmp_path: Path, tiny_vlm_dir: Callable[[str], Path], family: str, adapter: bool, precision: str
) -> None:
    directory = tiny_vlm_dir(family)
    in_two_processes(vlm_rank(directory, adapter, precision), tmp_path)
    close = 1e-5 if precision == "fp32" else 2e-2
    data, full = steps_of(tmp_path / "data"), steps_of(tmp_path / "full")
    assert full == [pytest.approx(row, rel=close) for row in data]
    expected, found = newest(tmp_path / "data", "weights"), newest(tmp_path / "full", "weights")
    assert all(".a." in key for key in found) or not adapter
    assert "lm_head.weight" not in found  # tied
    limit = 1e-5 if precision == "fp32" else 2 * VLM_CONFIG.learning_rate  # Adam's first steps know signs only
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=limit)
    vlm, objective, rows = tuned(directory, adapter)
    before = {k: v.clone() for k, v in vlm.model.state_dict().items()}
    result = train(vlm.model, rows, objective, VLM_CONFIG, tmp_path / "full")  # done already: takes the weights alone
    assert result.steps == 3
    assert any(not torch.equal(before[k], v) for k, v in vlm.model.state_dict().items())
    for key, value in found.items():
        assert torch.equal(vlm.model.state_dict()[key], value)
    if adapter:
        saved = load_file(tmp_path / "full" / "adapter" / "adapter_model.safetensors")
        assert sorted(tuple(v.shape) for v in saved.values()) == sorted(tuple(v.shape) for v in found.values())


def test_what_cannot_be_sharded_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"several processes \(torchrun"):
        train(Net(), batch_at, loss, FULL, tmp_path)
    with pytest.raises(ConfigError, match="sharding='half'"):
        replace(CONFIG, sharding="half")  # type: ignore[arg-type]
    for kind in (DistributedType.DEEPSPEED, DistributedType.FSDP):
        with monkeypatch.context() as patch:
            patch.setattr(Accelerator, "distributed_type", kind)
            with pytest.raises(UnsupportedError, match=rf"{kind.value}.*torchrun.*sharding to full"):
                train(Net(), batch_at, loss, CONFIG, tmp_path)


def refused_rank(rank: int, folder: Path) -> None:
    single, mixed = Net(), Net()
    single.scale = nn.Parameter(torch.ones(()))
    mixed.first.bias.data = mixed.first.bias.data.double()
    for model, said in ((single, r"single numbers \['model.scale'\]"), (mixed, "float32.*float64")):
        with pytest.raises(ModelError, match=said):
            train(model, batch_at, loss, FULL, folder / "refused")


def test_parameters_without_dimension_and_several_dtypes_are_refused(tmp_path: Path) -> None:
    in_two_processes(refused_rank, tmp_path)
