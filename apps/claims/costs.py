"""Claims about time and memory, measured on this machine."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import assets
from apps.claims.claim import Finding, Workbench

REPEATS = 5
SAMPLE = assets.SAMPLES / "collage.jpg"
QUESTION = "What letter is on the green diamond?"
COLD_S, ANSWER_S, PEAK_MB, SAMPLES_RATIO = 12.0, 3.0, 2048.0, 2.0
# Runs one command line and prints what it took; the parent reads the last line.
_PROBE = (
    "import json, resource, sys, time; begun = time.perf_counter(); "
    "from apps.cli import main; code = main(sys.argv[1:]); "
    "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024; "
    "sys.stderr.write('\\n' + json.dumps({'code': code, 'seconds': time.perf_counter() - begun, 'peak_mb': peak}))"
)


def shared_samples(bench: Workbench) -> Finding:
    """Wall time of a search with 8 samples over that of one: they share one prefill."""
    from backbone.images import SourceImage, read_image
    from perception.pipeline import Searcher

    picture = read_image(SAMPLE).array
    times: dict[int, list[float]] = {1: [], 8: []}
    for repeat in range(REPEATS + 1):  # the first round warms up and is not counted
        for n in times:
            # another picture and question every time, or a cached prefix would do the work
            image = SourceImage.from_array(picture[2 * repeat + (n == 8) :]).resized(256)
            searcher = Searcher(bench.vlm, bench.config("sparc", 256, n))
            begun = time.perf_counter()
            searcher.search(image, f"{QUESTION} Attempt {repeat} of {n}.", seed=repeat)
            if repeat:
                times[n].append(time.perf_counter() - begun)
    one, eight = (statistics.median(times[n]) for n in (1, 8))
    words = f"8 samples {eight * 1000:.0f} ms, 1 {one * 1000:.0f} ms: {eight / one:.2f} times (median of {REPEATS})"
    return Finding(eight <= SAMPLES_RATIO * one, words, {"seconds": {str(n): v for n, v in times.items()}})


def cold_start(bench: Workbench) -> Finding:
    """`fovea ask` in a new process: all of it, and the answer alone after loading."""
    cost, answer = _ask(bench, SAMPLE)
    seconds = answer["ledger"]["total"]["milliseconds"] / 1000
    words = f"{cost['seconds']:.1f} s from start to answer, {seconds:.2f} s of it for the answer"
    numbers = {**cost, "answer_seconds": seconds}
    return Finding(cost["seconds"] <= COLD_S and seconds <= ANSWER_S, words, numbers)


def memory_8192(bench: Workbench) -> Finding:
    """Peak memory of the whole process for a question about an 8192 x 8192 JPEG."""
    import numpy as np
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jpg"
        cells = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
        Image.fromarray(cells).resize((8192, 8192), Image.Resampling.BILINEAR).save(path, quality=90)
        cost, _ = _ask(bench, path)
    return Finding(cost["peak_mb"] <= PEAK_MB, f"{cost['peak_mb']:,.0f} MB at its peak", cost)


def _ask(bench: Workbench, picture: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    options = bench.options
    line = ["ask", str(picture), QUESTION, "--rollouts", "4", "--json"]
    line += ["--model", options.model, "--device", options.device, "--seed", str(options.seed)]
    done = subprocess.run([sys.executable, "-c", _PROBE, *line], capture_output=True, text=True)  # noqa: S603
    lines = done.stderr.strip().splitlines()
    cost = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"code": done.returncode}
    if cost["code"] != 0:
        from backbone.errors import DataError

        raise DataError(
            f"fovea ask failed with code {cost['code']}: {lines[-2] if len(lines) > 1 else done.stderr[-200:]}"
        )
    return cost, json.loads(done.stdout)
