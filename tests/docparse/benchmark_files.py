"""Files of benchmarks as small as can be."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    return path


def png(width: int, height: int, value: int = 255) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(out, "PNG")
    return out.getvalue()


def picture(path: Path, width: int = 200, height: int = 100, value: int = 255) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(path)
    return path
