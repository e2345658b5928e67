"""Claims about accuracy and tokens on held-out mini-V*: searching against one pass, the zoom loop, more samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.claims.claim import Finding, Workbench
from perception.config import Regime

SAMPLES = 4
LARGE = 8192


def beats_native(bench: Workbench, regime: Regime, points: float) -> Finding:
    """SPARC minus the native method on the same weights and items, in points of accuracy."""
    search, _ = bench.run("sparc", regime, SAMPLES)
    native, _ = bench.run("native", regime)
    numbers = _compared(search, native)
    difference = numbers["accuracy"]["difference"]["estimate"]
    return Finding(difference >= points / 100, _difference("SPARC", "native", numbers), numbers)


def beats_zoom(bench: Workbench) -> Finding:
    """SPARC against the zoom-tool loop: at least its accuracy, at fewer tokens."""
    search, _ = bench.run("sparc", 256, SAMPLES)
    zoom, _ = bench.run("zoom", 256)
    numbers = _compared(search, zoom)
    ratio = numbers["costs"]["tokens"]["ratio"]
    holds = numbers["accuracy"]["difference"]["estimate"] > 0 and ratio is not None and ratio < 1
    tokens = "no item was scored by both" if ratio is None else f"{ratio:.2f} times its tokens"
    return Finding(holds, f"{_difference('SPARC', 'zoom', numbers)}, {tokens}", numbers)


def samples_help(bench: Workbench) -> Finding:
    """4 and 8 fused perception samples against one, paired."""
    one, _ = bench.run("sparc", 256, 1)
    numbers = {str(n): _compared(bench.run("sparc", 256, n)[0], one) for n in (4, 8)}
    holds = all(value["accuracy"]["difference"]["estimate"] >= 0 for value in numbers.values())
    words = "; ".join(_difference(f"{n} samples", "1", value) for n, value in numbers.items())
    return Finding(holds, words, numbers)


def few_tokens(bench: Workbench) -> Finding:
    """On 8192 px scenes: visual tokens against one pass at full size, accuracy against the largest pass that runs."""
    from perception.benchmarks import ministar

    search, report = bench.run("sparc", 256, SAMPLES, sizes=(LARGE,))
    native, largest = bench.run("native", "full", sizes=(LARGE,))
    side = bench.vlm.pixels.factor
    sizes = [item.load().size for item in ministar.benchmark(bench.items, sizes=(LARGE,)).items]
    full = sum((w // side) * (h // side) for w, h in sizes) / len(sizes)
    spent = report["tokens"]["visual_tokens"]
    numbers = {**_compared(search, native), "visual_tokens": spent, "visual_tokens_full": full}
    if spent is None:
        return Finding(False, "no item was scored", numbers)
    holds = full >= 100 * spent and numbers["accuracy"]["difference"]["estimate"] >= 0
    words = (
        f"{spent:,.0f} visual tokens against {full:,.0f} at full size ({full / spent:.0f} times fewer); "
        f"{_difference('SPARC', 'native at the largest size the model takes', numbers)} "
        f"({largest['tokens']['visual_tokens'] or 0:,.0f} visual tokens)"
    )
    return Finding(holds, words, numbers)


def _compared(a: Path, b: Path) -> dict[str, Any]:
    from perception.compare import compare

    return compare(a, b)


def _difference(a: str, b: str, numbers: dict[str, Any]) -> str:
    accuracy = numbers["accuracy"]
    d = accuracy["difference"]
    return (
        f"{a} {accuracy['a']:.3f}, {b} {accuracy['b']:.3f}, difference {d['estimate']:+.3f} "
        f"({d['low']:+.3f} to {d['high']:+.3f}, n = {accuracy['n']}, McNemar p = {accuracy['mcnemar_p']:.2g})"
    )
