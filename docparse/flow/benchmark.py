"""How much faster than POT the steps are, and that they give the same laws: ``python -m docparse.flow.benchmark``.

POT (pythonot) is in the test extra. Its rows solve the same problems one by one, as its API does:

- ``ot.sinkhorn``: the balanced problem between the old law and the new one, whose plan is the step's plan. It is given
  the new marginal, which only the step itself knows.
- the same in the log domain, which a smaller epsilon needs (only with ``--log-domain``: over a minute a problem).
- the semi-relaxed problem itself (`ot.unbalanced`): the first marginal exact, the second free.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from backbone.errors import ConfigError
from docparse.flow.cost import ground_cost
from docparse.flow.step import jko_step


@dataclass(frozen=True)
class Benchmark:
    """Time a batch of steps without entropy term against POT on the same problems."""

    batch: int = 32  # problems
    side: int = 32  # a square page of side x side cells, N = side^2
    tau: float = 0.125  # step size
    epsilon: float = 1 / 1024  # regularisation: the squared cell size
    threads: int = 1  # of torch; NumPy's are set by OMP_NUM_THREADS
    repeats: int = 5  # of ours; the median counts
    rival_problems: int = 4  # problems given to POT; its time is scaled to the batch
    tolerance: float = 1e-9  # POT's stopThr
    seed: int = 0
    log_domain: bool = False  # time ot.sinkhorn(method="sinkhorn_log") too
    json: bool = False  # print one JSON object instead of the table

    def __post_init__(self) -> None:
        if min(self.batch, self.side, self.threads, self.repeats, self.rival_problems) < 1:
            raise ConfigError("benchmark: batch, side, threads, repeats and rival_problems must be at least 1")


@dataclass(frozen=True)
class Row:
    """One solver's time for the whole batch, and how far its laws are from ours."""

    solver: str
    seconds: float
    ratio: float  # its time over ours
    largest_difference: float  # of a mass; float64 laws have 1 in all


def problems(config: Benchmark) -> tuple[Tensor, Tensor, Tensor]:
    """Laws (B, N), potentials (B, N) and the cost (N, N) of a square page, float32."""
    generator = torch.Generator().manual_seed(config.seed)
    ticks = (torch.arange(config.side) + 0.5) / config.side
    points = torch.stack(torch.meshgrid(ticks, ticks, indexing="xy"), -1).reshape(-1, 2)
    n = config.side**2
    rho = torch.rand(config.batch, n, generator=generator) ** 4 + 1e-6
    bumps = torch.rand(config.batch, 5, 2, generator=generator)
    near = torch.exp(-((points[None, :, None] - bumps[:, None]) ** 2).sum(-1) / 0.01).sum(-1)
    noise = 0.1 * torch.randn(config.batch, n, generator=generator)
    return rho / rho.sum(-1, keepdim=True), noise - near, ground_cost(points)


def measure(config: Benchmark) -> list[Row]:
    """Ours in float32 and float64, then POT's three ways.

    Raises:
        ConfigError: POT is not installed.
    """
    try:
        ot: Any = import_module("ot")
    except ImportError as error:
        raise ConfigError("benchmark: POT is missing; pip install -e '.[test]'") from error
    torch.set_num_threads(config.threads)
    rho, potential, cost = problems(config)
    doubles = rho.double() / rho.double().sum(-1, keepdim=True), potential.double(), cost.double()
    reference = jko_step(*doubles, config.tau, config.epsilon).rho
    ours = _median_time(lambda: jko_step(rho, potential, cost, config.tau, config.epsilon), config.repeats)
    single = jko_step(rho, potential, cost, config.tau, config.epsilon).rho
    exact = _median_time(lambda: jko_step(*doubles, config.tau, config.epsilon), config.repeats)
    rows = [
        Row("ours, float32", ours, 1.0, float((single - reference).abs().max())),
        Row("ours, float64", exact, exact / ours, 0.0),
    ]
    for name, solver in _rivals(ot, config).items():
        count = min(config.rival_problems, config.batch)
        given = [
            tuple(t.numpy() for t in (doubles[0][i], doubles[1][i], doubles[2], reference[i])) for i in range(count)
        ]
        start = time.perf_counter()
        laws = [solver(*problem) for problem in given]
        seconds = (time.perf_counter() - start) / count * config.batch
        difference = max(float(np.abs(law - problem[3]).max()) for law, problem in zip(laws, given, strict=True))
        rows.append(Row(name, seconds, seconds / ours, difference))
    return rows


def _rivals(ot: Any, config: Benchmark) -> dict[str, Callable[..., Any]]:
    """Each takes the law, the potential, the cost and the new law, and gives the new law it finds: the column sums."""
    eps, tau, stop = config.epsilon, config.tau, config.tolerance

    def balanced(method: str) -> Callable[..., Any]:
        def solve(q: Any, v: Any, c: Any, p: Any) -> Any:
            # row sums are exact after POT's last half step of u, so the columns tell how far it got
            plan = ot.sinkhorn(q, p, c, eps, method=method, numItermax=5000, stopThr=stop, warn=False)
            return plan.sum(0)

        return solve

    def semi_relaxed(q: Any, v: Any, c: Any, p: Any) -> Any:
        options = {"reg_m": (np.inf, 1e-16), "reg_type": "entropy", "stopThr": stop}
        return ot.unbalanced.sinkhorn_stabilized_unbalanced(q, np.ones_like(p), c + tau * v, eps, **options).sum(0)

    rivals = {"POT sinkhorn": balanced("sinkhorn"), "POT semi-relaxed": semi_relaxed}
    return {**rivals, "POT sinkhorn_log": balanced("sinkhorn_log")} if config.log_domain else rivals


def _median_time(function: Callable[[], object], repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main(config: Benchmark) -> None:
    """Measure and print."""
    rows = measure(config)
    console = Console()
    about = f"{config.batch} steps, N = {config.side**2}, eps {config.epsilon:.3g}, tau {config.tau}"
    software = (
        f"torch {torch.__version__}, POT {metadata.version('POT')}, {platform.machine()}, {config.threads} threads"
    )
    if config.json:
        console.print_json(
            json.dumps({"config": asdict(config), "software": software, "rows": [asdict(r) for r in rows]})
        )
        return
    table = Table(
        "solver", "seconds a batch", "times ours", "largest difference of a mass", title=about, caption=software
    )
    for row in rows:
        table.add_row(row.solver, f"{row.seconds:.3f}", f"{row.ratio:.1f}", f"{row.largest_difference:.1e}")
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Benchmark, description=__doc__))
