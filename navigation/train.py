"""Training: stage 1 (shortest ways), stage 2 (memory and thoughts), and the training of a round of stage 3.

All three learn every reply of a conversation in one pass over it, on LoRA adapters and, if asked for, on the vision
tower or the whole language model. Rates, schedule and optimiser STATED in section 3.6 and table 1 are the defaults of
`StageTraining`; what a model of a few million weights needs instead is the preset ``nano``.
"""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from peft import LoraConfig
from peft.helpers import disable_input_dtype_casting
from safetensors.torch import save_file
from torch import Tensor, nn

from assets import NAVIGATION
from backbone.errors import ConfigError, ModelError
from backbone.local import LocalVLM
from backbone.training import TrainingConfig, TrainingResult, train
from backbone.training_config import fast_precision
from navigation.batches import Encoder, Guide, loss
from navigation.config import NavigationConfig
from navigation.even_pictures import even_pictures
from navigation.feature_store import FeatureStore
from navigation.guidance import Mentions
from navigation.mixing import Batches, Questions, find_places
from navigation.sight_heads import CLASS_OF, SightHeads, check_fit

ADAPTER = "navigation"
LANGUAGE = r".*language_model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
TOWER = (
    r".*visual\.blocks\.\d+\.(attn\.(qkv|proj)|mlp\.(linear_fc1|linear_fc2|fc1|fc2|gate_proj|up_proj|down_proj))"
    r"|.*visual\.(merger|deepstack_merger_list\.\d+)\.linear_fc[12]"
)
Part = Literal["frozen", "lora", "full"]


@dataclass(frozen=True)
class StageTraining:
    """How one stage is trained. The paper trains all weights; which parts learn here is `language` and `tower`."""

    language: Part = "lora"  # OUR CHOICE
    tower: Part = "lora"  # OUR CHOICE: the paper does not say
    rank: int = 64  # OUR CHOICE
    alpha: int = 128
    learning_rate: float = 1e-5  # STATED peak (stages 1 and 2; 1e-6 for stage 3)
    final_fraction: float = 0.1  # STATED: to a tenth of it
    warmup_fraction: float = 0.1  # STATED
    weight_decay: float = 0.1  # STATED
    betas: tuple[float, float] = (0.9, 0.95)  # STATED
    clip: float = 1.0  # STATED
    batch: int = 1024  # STATED for stage 1; 768 and 512 for stages 2 and 3
    accumulate: int = 256  # OUR CHOICE: ``batch`` is reached in so many passes
    epochs: float = 2.0  # STATED: 2, 2 and 3
    steps: int | None = None  # instead of ``epochs``
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # STATED bf16; auto: where the processor computes in it
    sharding: Literal["none", "full"] = "none"  # full: under torchrun, each process holds a piece of every weight
    questions: Questions = field(default_factory=Questions)
    store_mebibytes: int = 8192  # of features kept where the tower is frozen; 0 computes them every time
    guidance: float = 0.0  # weight of telling heads where to look; the tower must rest
    guided: tuple[tuple[int, int], ...] = ((2, 0), (3, 0))  # layer and head; nano's, which its own training guided too
    followers: tuple[tuple[int, int], ...] = ((2, 2), (3, 2))  # likewise, of the heads that are told where the plan is
    sight: str = ""  # directory of the classifiers that say where things are; empty: the shipped ones
    checkpoint_minutes: float = 3.0
    log_every: int = 10
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for key in ("language", "tower"):
            if getattr(self, key) not in get_args(Part):
                raise ConfigError(
                    f"training: {key} must be one of {', '.join(get_args(Part))}, not {getattr(self, key)}"
                )
        for key in ("rank", "alpha", "batch", "accumulate"):
            if getattr(self, key) < 1:
                raise ConfigError(f"training: {key} must be at least 1, got {getattr(self, key)}")
        if self.language == self.tower == "frozen":
            raise ConfigError("training: nothing learns; let language or tower be lora or full")
        if not 0.0 <= self.guidance < 100.0 or (
            self.guidance > 0 and not (self.tower == "frozen" and self.store_mebibytes)
        ):
            raise ConfigError(
                f"training: guidance must lie in [0, 100) and needs a tower that rests and a store of features, got "
                f"{self.guidance} with tower {self.tower} and store_mebibytes {self.store_mebibytes}"
            )
        if self.sharding == "full" and self.tower == "frozen" and self.store_mebibytes:
            raise ConfigError(
                "training: with sharding full all processes must run the same blocks, but each would keep features of "
                "its own pictures; set store_mebibytes to 0 (in Python), or let the tower learn (--tower lora)"
            )
        if self.batch % self.accumulate:
            raise ConfigError(f"training: batch {self.batch} must be a multiple of accumulate {self.accumulate}")
        if not self.epochs > 0 or (self.steps is not None and self.steps < 1):
            raise ConfigError(f"training: epochs and steps must be positive, got {self.epochs} and {self.steps}")

    @property
    def has_adapter(self) -> bool:
        """Whether a LoRA adapter is trained."""
        return "lora" in (self.language, self.tower)

    @property
    def has_base(self) -> bool:
        """Whether weights of the model itself are trained."""
        return "full" in (self.language, self.tower)

    @property
    def targets(self) -> str:
        """The layers that get an adapter, as PEFT's regular expression."""
        parts = [r for part, r in ((self.language, LANGUAGE), (self.tower, TOWER)) if part == "lora"]
        return "|".join(parts)

    @property
    def resolved_precision(self) -> Literal["fp32", "bf16"]:
        """What ``auto`` comes to here."""
        return fast_precision() if self.precision == "auto" else self.precision

    def loop(self, examples: int) -> TrainingConfig:
        """The settings of the shared loop for so many examples."""
        return TrainingConfig(
            steps=self.steps or max(1, math.ceil(self.epochs * examples / self.batch)),
            learning_rate=self.learning_rate,
            warmup_fraction=self.warmup_fraction,
            final_fraction=self.final_fraction,
            weight_decay=self.weight_decay,
            betas=self.betas,
            clip=self.clip,
            accumulate=self.accumulate,
            precision=self.resolved_precision,
            sharding=self.sharding,
            seed=self.seed,
            checkpoint_minutes=self.checkpoint_minutes,
            log_every=self.log_every,
            threads=self.threads,
        )

    @classmethod
    def preset(cls, model: str, stage: str) -> StageTraining:
        """The settings of a stage (``stage1``, ``stage2``, ``irft``) for ``nano`` or, else, as the paper states."""
        key = ("nano" if model == "nano" else "qwen", stage)
        if key not in PRESETS:
            close = difflib.get_close_matches(stage, ("stage1", "stage2", "irft"), 1)
            raise ConfigError(f"no stage {stage!r}; there are stage1, stage2, irft" + (f"; {close[0]}?" * bool(close)))
        return PRESETS[key]


_CO_TRAINING = Questions(share=0.2)
# Nano's language model learns whole: it never wrote the actions' words, and an adapter cannot reach their embeddings
# (measured: after 240 steps it turned left in none of 185 cases). Its tower learned to see before, and rests.
_NANO = StageTraining(
    language="full", tower="frozen", learning_rate=8e-4, weight_decay=0.01, warmup_fraction=0.03, batch=16, accumulate=2
)
_QWEN = StageTraining()
PRESETS = {
    ("qwen", "stage1"): _QWEN,
    ("qwen", "stage2"): replace(_QWEN, batch=768, questions=replace(_CO_TRAINING, size=(640, 480))),
    ("qwen", "irft"): replace(_QWEN, batch=512, learning_rate=1e-6, epochs=3.0),
    ("nano", "stage1"): _NANO,
    ("nano", "stage2"): replace(_NANO, learning_rate=4e-4, questions=_CO_TRAINING),
    ("nano", "irft"): replace(_NANO, learning_rate=1e-4, epochs=3.0, questions=_CO_TRAINING),
}


def train_stage(
    vlm: LocalVLM,
    folders: Sequence[Path],
    output: Path,
    agent: NavigationConfig,
    settings: StageTraining,
    *,
    resume: bool = True,
    record: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train on all episodes of ``folders``; leaves ``output/adapter`` (PEFT), or ``output/model`` with the weights too.

    An adapter named `ADAPTER` that is attached already is trained on; otherwise a fresh one is made.

    Raises:
        DataError: a folder holds nothing to learn from.
        ModelError: the model has no layers that could be trained so.
    """
    places = find_places(folders, agent)
    guide = guide_of(vlm, settings)
    if guide is not None:
        check_fit(vlm, ADAPTER if ADAPTER in vlm.adapters.names else None, guide.classifiers, agent)
    encoder = Encoder(vlm, agent.context_tokens, mentions_of(vlm) if guide is not None else None)
    name = ADAPTER if settings.has_adapter else None
    keeps = settings.tower == "frozen" and settings.store_mebibytes > 0
    store = FeatureStore(vlm, name, settings.store_mebibytes) if keeps else None
    size = settings.batch // settings.accumulate
    batches = Batches(encoder, places, agent, size, settings.seed, settings.questions, patches=store is None)
    kept = {"training": asdict(settings), "agent": asdict(agent), "examples": len(places), "model": vlm.name}
    kept["folders"] = [str(f) for f in folders]
    with learning(vlm, settings), even_pictures(vlm.model):
        result = train(
            vlm.model,
            batches.at,
            lambda model, batch: loss(vlm, name, model, batch, store, guide),
            settings.loop(len(places)),
            output,
            resume=resume,
            config_record={**kept, **(record or {})},
        )
    if int(os.environ.get("RANK", "0")) == 0:  # under torchrun all processes hold the same weights
        save(vlm, settings, output)
        (output / "agent.json").write_text(json.dumps(asdict(agent), indent=1) + "\n", encoding="utf-8")
    return result


def guide_of(vlm: LocalVLM, settings: StageTraining) -> Guide | None:
    """What tells the heads where to look, if that is wanted; `ModelError` if there are no classifiers for the tower."""
    if settings.guidance == 0:
        return None
    folder = Path(settings.sight) if settings.sight else NAVIGATION / "sight"
    return Guide(SightHeads.load(folder, vlm.network.width), settings.guided, settings.guidance, settings.followers)


def mentions_of(vlm: LocalVLM) -> Mentions:
    """Finds, in this model's tokens, what replies rest on."""
    tokenizer: Any = vlm.tokenizer
    return Mentions(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.decode, CLASS_OF)


@contextmanager
def learning(vlm: LocalVLM, settings: StageTraining) -> Iterator[None]:
    """Only the parts that `settings` names require a gradient inside; afterwards none does."""
    vlm.model.requires_grad_(False)
    if settings.has_adapter:
        torch.manual_seed(settings.seed)
        if ADAPTER not in vlm.adapters.names:
            lora = LoraConfig(r=settings.rank, lora_alpha=settings.alpha, target_modules=settings.targets)
            vlm.adapters.attach(ADAPTER, lora)
        vlm.adapters.trainable(ADAPTER)
        learned = 0
        for key, parameter in vlm.model.named_parameters():  # an adapter to go on from may have more than learns now
            part = settings.tower if ".visual." in key else settings.language
            parameter.requires_grad_(parameter.requires_grad and part == "lora")
            learned += parameter.requires_grad
        if not learned:
            raise ModelError(f"{vlm.name}: no layer matches the adapter's targets {settings.targets}")
    for part, module in (
        (settings.language, vlm.model.model.language_model),
        (settings.tower, vlm.model.model.visual),
    ):
        if part == "full":
            for parameter in module.parameters():
                parameter.requires_grad_(True)
    light = settings.resolved_precision == "bf16" and settings.has_adapter and not settings.has_base
    try:
        with halved(vlm.model) if light else nullcontext():
            yield
    finally:
        vlm.model.requires_grad_(False)


@contextmanager
def halved(model: nn.Module) -> Iterator[None]:
    """What does not learn in bfloat16 inside, as it was afterwards; what learns stays as it is.

    Between layers that compute in bfloat16 anyway nothing need be converted then, a fifth of a small model's step.
    """
    kept = {p: p.data for p in model.parameters() if not p.requires_grad and p.dtype == torch.float32}
    for parameter, values in kept.items():
        parameter.data = values.to(torch.bfloat16)
    try:
        with disable_input_dtype_casting(model):
            yield
    finally:
        for parameter, values in kept.items():
            parameter.data = values


def save(vlm: LocalVLM, settings: StageTraining, output: Path) -> None:
    """What was trained: the adapter alone, or where the base changed as well a whole model with it folded in."""
    if settings.has_base:
        save_whole(vlm, ADAPTER if settings.has_adapter else None, output / "model")
    elif settings.has_adapter:
        vlm.adapters.save(ADAPTER, output / "adapter")


def save_whole(vlm: LocalVLM, adapter: str | None, folder: Path) -> None:
    """A model directory in hub layout, which ``VLM.load`` takes, with an adapter folded into its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name, value in vlm.model.state_dict().items():
        if ".lora_" not in name and not (name == "lm_head.weight" and vlm.model.config.tie_word_embeddings):
            tensors[name.replace(".base_layer.", ".")] = value.detach().float().cpu().clone()
    if adapter is not None:
        for name, module in vlm.model.named_modules():
            if adapter in getattr(module, "lora_A", {}):
                tensors[f"{name}.weight"] += module.get_delta_weight(adapter).detach().float().cpu()
    kind = next(vlm.model.parameters()).dtype
    save_file({k: v.to(kind).contiguous() for k, v in tensors.items()}, folder / "model.safetensors")
    vlm.model.config.save_pretrained(folder)
    vlm.processor.save_pretrained(folder)
