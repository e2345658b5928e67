"""Settings and fixtures for all tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("fovea", deadline=None, max_examples=60)  # a busy machine is no failure
settings.load_profile("fovea")


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
