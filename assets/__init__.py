"""Paths of the files shipped with Fovea: nano's weights and tokenizer, sample pictures."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent
NANO = ROOT / "nano"
SAMPLES = ROOT / "samples"
