"""Small patch fields with known values, and a stand-in for a backbone that tells what it was asked."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import torch

from backbone.vlm import VLM
from docparse.config import DocparseConfig, with_fields
from docparse.data import Example
from docparse.fields.patches import PagePatches, PatchConfig, PatchField
from docparse.flow.config import FlowConfig
from docparse.model import NetworkConfig
from tests.docparse.reading import small_config

WIDTH = 6
SEEN = PatchConfig(backbone="pretended", longest=256, width=WIDTH, fingerprint="pretended")


def field_of(seed: int, pages: int = 1, rows: int = 5, columns: int = 4, width: int = WIDTH) -> PatchField:
    rng = np.random.default_rng(seed)
    made = {
        page: PagePatches(
            rng.normal(size=(rows, columns, width)).astype(np.float32), rng.random((4 * rows, 4 * columns)) < 0.4
        )
        for page in range(pages)
    }
    return PatchField(made, width)


def seeing_config(fields: str) -> DocparseConfig:
    config = small_config(flow=FlowConfig(levels=(4, 8, 16), words=True, entropy=0.0, relaxation=1.0))
    return with_fields(config, fields, None if fields == "words" else SEEN)  # type: ignore[arg-type]


def seen(example: Example, seed: int = 0) -> Example:
    return replace(example, patches=field_of(seed, len(example.words.sizes)))


def network_config(fields: str) -> NetworkConfig:
    return seeing_config(fields).network


class Pretended(VLM):
    """States that are a function of the picture's patches and of the words before it; counts its calls."""

    def __init__(self, name: str = "pretended", print_: str = "pretended", side: int = 32) -> None:
        self.name, self._print, self._side, self.calls = name, print_, side, 0

    def generate(self, prompt, **options):  # type: ignore[no-untyped-def,override]
        raise AssertionError("nothing is generated for patch fields")

    def generate_batch(self, prompts, **options):  # type: ignore[no-untyped-def,override]
        raise AssertionError("nothing is generated for patch fields")

    def image_states(self, messages, *, layer=-1, adapter=None):  # type: ignore[no-untyped-def,override]
        self.calls += 1
        text, image = messages[0]["content"][0]["text"], messages[0]["content"][1]["image"]
        rows, columns = (max(1, side // self._side) for side in image.shape[:2])
        seed = list(hashlib.sha256(text.encode()).digest())
        asked = torch.from_numpy(np.random.default_rng(seed).normal(size=WIDTH)).float()
        grey = torch.from_numpy(image.astype(np.float32).mean(2))
        pooled = torch.nn.functional.adaptive_avg_pool2d(grey[None], (rows, columns))[0]
        return [(pooled[..., None] / 255 - 0.5) * torch.arange(1, WIDTH + 1) + asked]

    def fingerprint(self) -> str:
        return self._print
