"""Paths of the files shipped with Fovea: nano's weights and tokenizer, what the systems were trained to, samples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent
NANO = ROOT / "nano"
DOCPARSE = ROOT / "docparse"
NAVIGATION = ROOT / "navigation"
SAMPLES = ROOT / "samples"
