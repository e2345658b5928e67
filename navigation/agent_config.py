"""The agent ``hydra`` as plain values, for rollouts, servers and other processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets import NAVIGATION
from backbone.contracts import ActionSpec, Agent
from backbone.errors import ConfigError
from navigation.config import PRESETS, NavigationConfig
from navigation.switching import Strategy, SwitchConfig

if TYPE_CHECKING:
    from backbone.vlm import VLM

ADAPTER = "navigation"  # the name under which a LoRA is attached
SHIPPED_DEFAULT = "stage2"  # of what assets/navigation holds
ADAPTER_FILE = "adapter_config.json"


@dataclass(frozen=True)
class HydraConfig:
    """Hydra-Nav on any model. What is not given stays as the model's preset has it."""

    model: str = "nano"  # nano, a hub id, a local directory, or http://host:port/v1#model
    adapter: str = "auto"  # a directory that training wrote, or the name of a shipped one; empty: the bare model
    device: str = "auto"  # auto, cpu, cuda, cuda:1, ...
    preset: str = ""  # nano or qwen; empty: by the model
    strategy: Strategy = "learned"  # learned, threshold, never, always, fixed, random
    threshold: float = 0.5  # of strategy threshold: probability of obs from which it looks around
    period: int = 16  # of strategy fixed: actions from one look to the next
    rate: float = 0.03  # of strategy random: probability of a look before an action
    memory_limit: int | None = None  # most landmarks; 1 is no memory
    temperature: float | None = None  # 0 is greedy
    thought_tokens: int | None = None  # longest thought
    blocked_change: float | None = None  # change of the picture below which a step counts as blocked; 0: never
    end_confidence: float | None = None  # least probability of end at which it is done; 0: whenever it is likeliest
    constrained: bool = True  # False reads actions out of free replies
    cached: bool = True  # False encodes everything anew at every step
    cache_mebibytes: int = 256  # of encoded conversations kept
    trace: str = ""  # a folder for one file an episode: every step with its probability of obs

    def __post_init__(self) -> None:
        self.navigation()
        self.switch()

    @property
    def agent(self) -> str:
        """``hydra``."""
        return "hydra"

    def navigation(self) -> NavigationConfig:
        """Sizes, limits and prompts; `ConfigError` for impossible ones."""
        names = ("memory_limit", "temperature", "thought_tokens", "blocked_change", "end_confidence")
        given = {name: getattr(self, name) for name in names}
        changes = {name: value for name, value in given.items() if value is not None}
        base = NavigationConfig.preset(self.preset or preset_for(self.model))
        return replace(base, constrained=self.constrained, **changes)

    def switch(self) -> SwitchConfig:
        """When to think."""
        return SwitchConfig(self.strategy, self.threshold, self.period, self.rate)

    def world_settings(self) -> dict[str, Any]:
        """What it wants of a world: pictures of its size, and the look around as an action if it thinks."""
        config = self.navigation()
        return {"width": config.width, "height": config.height, "panorama": self.switch().thinks}

    def make(self, spec: ActionSpec) -> Agent:
        """Load the model and make the agent; raises `ModelError` or `RemoteError` where that fails."""
        from navigation.agent import HydraAgent
        from navigation.tracing import TracedAgent

        config = self.navigation()
        check_acts(self.model, self.adapter)
        vlm, adapter = load(self.model, config, self.adapter, self.device, self.cache_mebibytes)
        agent = HydraAgent(vlm, spec, config, self.switch(), adapter=adapter, cached=self.cached)
        return TracedAgent(agent, Path(self.trace)) if self.trace else agent


def preset_for(model: str) -> str:
    """The preset of a model: ``nano`` for nano and directories with its small vocabulary, else ``qwen``."""
    if model in PRESETS:
        return model
    tokenizer = Path(model) / "tokenizer.json"
    small = tokenizer.is_file() and tokenizer.stat().st_size < SMALL_TOKENIZER
    return "nano" if small else "qwen"


SMALL_TOKENIZER = 1_000_000  # bytes; nano's has 263 kB, the families' own 7 to 11 MB


def resolved_adapter(model: str, adapter: str, default: str = SHIPPED_DEFAULT) -> str:
    """The directory of what was trained for navigation: that of a shipped training by its name, for nano.

    ``auto`` is ``default`` for nano, and nothing for other models: theirs may know the task, or were trained whole.

    Raises:
        ConfigError: the name of a shipped training with a model that it does not belong to.
    """
    shipped = sorted(p.name for p in NAVIGATION.glob("*/") if (p / ADAPTER_FILE).is_file() or _is_whole(p))
    if adapter == "auto":
        return str(NAVIGATION / default) if model == "nano" and default in shipped else ""
    if adapter in shipped and not Path(adapter).is_dir():
        if model != "nano":
            raise ConfigError(f"{adapter} was trained on nano, not on {model}; give a directory trained on it")
        return str(NAVIGATION / adapter)
    return adapter


def check_acts(model: str, adapter: str) -> None:
    """Raise `ConfigError` for weights that have learned to see homes and neither to act nor to think in them."""
    from navigation.sight_heads import HEADS_FILE

    folder = Path(resolved_adapter(model, adapter) or ".")
    if (folder / HEADS_FILE).is_file():
        raise ConfigError(f"{folder} has learned to see, not to act; it serves the frontier agent and further training")


def _is_whole(folder: Path) -> bool:
    """Whether a directory holds a model, not an adapter."""
    return (folder / "config.json").is_file()


def load(
    model: str, config: NavigationConfig, adapter: str = "", device: str = "auto", cache_mebibytes: int = 256
) -> tuple[VLM, str | None]:
    """A model with the pixel limits of ``config``, and the name of its adapter if one is given (`resolved_adapter`).

    A directory that holds a whole model is loaded in place of ``model``.

    Raises:
        ConfigError: the adapter is no directory, or the model is behind a server, which has its own.
        ModelError: the weights do not load.
    """
    from backbone.local import LocalVLM
    from backbone.vlm import VLM

    adapter = resolved_adapter(model, adapter)
    whole = bool(adapter) and _is_whole(Path(adapter))
    if whole and model not in ("nano", adapter):
        raise ConfigError(f"{adapter} is a whole model, not an adapter of {model}; name it as the model itself")
    source = adapter if whole else model
    vlm = VLM.load(source, device=device, cache_mebibytes=cache_mebibytes)
    pixels = config.pixels(vlm.pixels)
    if pixels != vlm.pixels:  # known only now; such models are small
        vlm = VLM.load(source, device=device, cache_mebibytes=cache_mebibytes, pixels=pixels)
    if not adapter or whole:
        return vlm, None
    if not isinstance(vlm, LocalVLM):
        return vlm, adapter  # a name the server knows
    if not Path(adapter).is_dir():
        raise ConfigError(f"adapter {adapter}: no such directory and no shipped name; give one that training wrote")
    vlm.adapters.attach(ADAPTER, adapter)
    return vlm, ADAPTER
