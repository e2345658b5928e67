"""Paths of the files shipped with Fovea: nano's weights and tokenizer, the document reader's weights, samples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent
NANO = ROOT / "nano"
DOCPARSE = ROOT / "docparse"
SAMPLES = ROOT / "samples"
