import json
from dataclasses import replace

import pytest

from backbone.errors import ConfigError
from docparse.flow.benchmark import Benchmark, main, measure

pytestmark = pytest.mark.filterwarnings("ignore:If reg_type = entropy")
QUICK = Benchmark(batch=3, side=8, epsilon=0.02, repeats=1, rival_problems=2, log_domain=True)


def test_every_solver_finds_the_same_laws() -> None:
    rows = measure(QUICK)
    assert [row.solver for row in rows] == [
        "ours, float32", "ours, float64", "POT sinkhorn", "POT semi-relaxed", "POT sinkhorn_log",
    ]  # fmt: skip
    assert rows[0].ratio == 1.0
    assert all(row.seconds > 0 and row.ratio == pytest.approx(row.seconds / rows[0].seconds) for row in rows)
    assert rows[0].largest_difference < 1e-6
    assert all(row.largest_difference < 1e-7 for row in rows[1:])


def test_it_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    small = Benchmark(batch=2, side=6, epsilon=0.05, repeats=1)
    main(replace(small, json=True))
    printed = json.loads(capsys.readouterr().out)
    assert printed["config"]["batch"] == 2
    assert len(printed["rows"]) == 4
    main(small)
    assert "POT semi-relaxed" in capsys.readouterr().out


def test_refuses_an_empty_batch() -> None:
    with pytest.raises(ConfigError, match="batch"):
        Benchmark(batch=0)
