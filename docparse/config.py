"""Settings of the document reader: flow, network, regions, and when it says that there is no answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from backbone.errors import ConfigError
from docparse.fields.patches import PatchConfig
from docparse.flow.config import FlowConfig
from docparse.model import NetworkConfig
from docparse.regions import RegionConfig

Fields = Literal["words", "patches", "both"]  # what the network knows of a page

# Closed-form steps that end on words. Balanced transport (relaxation 0) locates less well: mass that a coarse step has
# left in the wrong place can then only go somewhere near it.
DEFAULT_FLOW = FlowConfig(words=True, entropy=0.0, relaxation=1.0, epsilon_power=1.0, transport_weight=0.0)


@dataclass(frozen=True)
class DocparseConfig:
    """Everything that decides an answer, apart from weights."""

    flow: FlowConfig = field(default_factory=lambda: DEFAULT_FLOW)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    regions: RegionConfig = field(default_factory=RegionConfig)
    settled: float = 0.5  # OUR CHOICE: probability from which an answer is given
    longest_answer: int = 80  # words
    answerer: Literal["extractive", "generative"] = (
        "extractive"  # the document's own words, or a model's that sees them
    )
    sights: bool = True  # look at the pages where a question asks for a figure, a signature, a stamp or a box to tick
    patches: PatchConfig | None = None  # how pages are looked at; None: words alone

    def __post_init__(self) -> None:
        if not 0 <= self.settled <= 1 or self.longest_answer < 1:
            raise ConfigError(f"docparse: 0 <= settled <= 1 and longest_answer >= 1, got {self}")
        if self.answerer not in ("extractive", "generative"):
            raise ConfigError(f"docparse: the answerer is extractive or generative, got {self.answerer!r}")
        if self.flow.steps > self.network.steps:
            raise ConfigError(f"docparse: {self.flow.steps} steps, but the network has {self.network.steps} embeddings")
        width = 0 if self.patches is None else self.patches.width + 1
        if self.network.patch_width != width:
            raise ConfigError(
                f"docparse: patches {self.patches} need a network of patch_width {width}, got "
                f"{self.network.patch_width}; use docparse.config.with_fields"
            )
        if self.flow.words and not self.network.words:
            raise ConfigError("docparse: a network that sees no words cannot end on words; give flow.words=False")

    @property
    def fields(self) -> Fields:
        """What the network knows of a page."""
        return "words" if self.patches is None else "both" if self.network.words else "patches"

    def for_cells(self, cells_at: dict[int, int]) -> DocparseConfig:
        """The same with a coarser start where a long document has too many cells at the first level.

        ``cells_at[c]`` is the number of cells of the whole document with ``c`` along the longer side.
        """
        first = self.flow.levels[0]
        while first > 1 and cells_at.get(first, 0) > self.flow.max_particles:
            first //= 2
        if first == self.flow.levels[0]:
            return self
        return replace(self, flow=replace(self.flow, levels=(first, *self.flow.levels[1:])))


def with_fields(config: DocparseConfig, fields: Fields, patches: PatchConfig | None = None) -> DocparseConfig:
    """The same for other fields; ``patches`` are needed unless they are words.

    Patches alone end on cells, whose boxes are the evidence, and leave everything that asks for words aside.

    Raises:
        ConfigError: patches missing, or given for words alone.
    """
    if (fields == "words") != (patches is None):
        raise ConfigError(f"docparse: fields {fields} and patches {patches} do not go together")
    words = fields != "patches"
    width = 0 if patches is None else patches.width + 1
    return replace(
        config,
        network=replace(config.network, words=words, patch_width=width),
        flow=replace(config.flow, words=config.flow.words and words),
        sights=config.sights and words,
        patches=patches,
    )


def presets() -> dict[str, DocparseConfig]:
    """The reader, its rivals and its ablations, all with the same network."""
    base = DocparseConfig()
    return {
        "flow": base,
        "one-step": replace(base, flow=replace(base.flow, levels=(64,), max_particles=4096)),
        "kl": replace(base, flow=replace(base.flow, geometry="kl")),
        "balanced": replace(base, flow=replace(base.flow, relaxation=0.0, epsilon_power=2.0)),
        "far": replace(base, flow=replace(base.flow, relaxation=0.0, epsilon_power=0.5)),
        "entropy": replace(base, flow=replace(base.flow, relaxation=0.0, entropy=0.5)),
        "transport": replace(base, flow=replace(base.flow, transport="plan", transport_weight=0.1)),
        **_two_looks(base),
    }


def _two_looks(base: DocparseConfig) -> dict[str, DocparseConfig]:
    """The flow whose last two steps run on words and see what was found before them, and its rivals."""
    network = replace(base.network, recall=True)
    looks = replace(base.flow, levels=(8, 16, 32, 64, 64), word_steps=2)
    once = replace(base.flow, levels=(64,), max_particles=4096)
    flows = {"looks": looks, "looks-one-step": once, "looks-kl": replace(looks, geometry="kl")}
    return {name: replace(base, flow=flow, network=network) for name, flow in flows.items()}
