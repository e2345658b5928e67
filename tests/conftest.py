"""Settings and fixtures for all tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# A busy machine is no failure, and the same code gives the same result: examples are drawn from each test's own seed.
# `make explore` draws new ones every time; what it finds becomes an @example.
settings.register_profile("fovea", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("FOVEA_HYPOTHESIS", "fovea"))


@pytest.fixture(scope="session")
def tiny_vlm_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``tiny_vlm_dir(family)``: a tiny random model of the family in hub layout, written once per test run."""
    from tiny_models import write_model

    written: dict[str, Path] = {}

    def directory(family: str = "qwen3_vl") -> Path:
        if family not in written:
            written[family] = write_model(family, tmp_path_factory.mktemp(family))
        return written[family]

    return directory
