"""Reports of evaluations: worked rows, comparisons, resuming, benchmarks, and the command."""

import json
from dataclasses import replace

import pytest

from apps.cli import main
from apps.commands.eval_navigation import command_for
from backbone.errors import ConfigError, DataError
from backbone.rollout.agents import ExpertConfig
from backbone.rollout.config import RolloutConfig
from backbone.rollout.results import EpisodeError, EpisodeResult
from navigation.agent_config import HydraConfig, preset_for
from navigation.benchmarks import BENCHMARKS, benchmark, with_settings
from navigation.evaluate import evaluate, read_rows, watched
from navigation.reports import category_of, compare, report
from navigation.watching import WatchedConfig
from navigation.worlds.habitat import HabitatConfig
from navigation.worlds.rooms import RoomsConfig

SMALL = RoomsConfig(width=32, height=24, max_steps=60, homes=3, min_rooms=3, max_rooms=3)


def row(index, success, seconds=40.0, status="scored", slow=2, **changes):
    metrics = {
        "success": float(success), "success_view_point": float(success), "success_object": 1.0, "oracle_success": 1.0,
        "spl": 0.5 * success, "soft_spl": 0.5, "optimal_time": 20.0, "execution_time": seconds, "stopped": 1.0,
        "reachable": 1.0, "stagnated": 0.0, "target_seen": 1.0, "target_ahead": 0.0, "object_ahead": 1.0,
        "collisions": 2.0,
    }  # fmt: skip
    values = {
        "index": index, "seed": 100 + index, "options": {}, "status": status, "instruction": "find the tv monitor",
        "success": bool(success), "steps": 30, "metrics": metrics if status == "scored" else {},
        "ledger": {"generated_tokens": 0}, "statuses": {"obs: start": 1, "obs: forced": 1, "slow": slow, "fast": 18},
        "timing": {"seconds": 3.0}, "error": None if status == "scored" else EpisodeError("WorldError", "gone"),
    }  # fmt: skip
    return EpisodeResult(**{**values, **changes})


class TestReport:
    def test_a_worked_run(self):
        found = report([row(0, 1), row(1, 0), row(2, 1, seconds=80.0), row(3, 0, status="failed")], expected=5)
        assert found["n"] == {"expected": 5, "scored": 3, "failed": 1, "missing": 1}
        assert found["success"]["estimate"] == 0.5  # a failed row is no success
        assert found["success"]["n"] == 4
        assert found["spl"]["estimate"] == 0.25
        assert found["sot"]["estimate"] == pytest.approx((20 / 40 + 20 / 80) / 4)
        assert found["reasoning"]["ratio"] == 6 / 60
        assert found["reasoning"]["forced_share"] == 1.0
        assert found["failures"]["misidentified"]["count"] == 1
        assert found["failures"]["success"]["count"] == 2
        assert list(found["by_category"]) == ["tv monitor"]
        assert found["errors"] == {"WorldError": 1}
        json.dumps(found, allow_nan=False)

    def test_nothing_is_no_report(self):
        with pytest.raises(DataError, match="no episodes"):
            report([], 3)

    def test_an_agent_that_does_not_think_and_a_world_not_watched(self):
        plain = row(0, 1, statuses={"ok": 30})
        plain = replace(plain, metrics={k: v for k, v in plain.metrics.items() if k != "stagnated"})
        found = report([plain], 1)
        assert found["failures"] is None
        assert found["reasoning"]["ratio"] == 0.0
        assert category_of(plain) == "tv monitor"


class TestCompare:
    def test_pairs_by_hand(self):
        a = [row(0, 1), row(1, 1), row(2, 0), row(3, 1)]
        b = [row(0, 0), row(1, 1), row(2, 0), row(4, 1)]
        found = compare(a, b)
        assert found["n"] == {"common": 3, "only_a": 1, "only_b": 1}
        assert found["difference"]["success"]["estimate"] == pytest.approx(1 / 3)
        assert found["difference"]["sot"]["estimate"] == pytest.approx(0.5 / 3)
        assert found["only_a_succeeds"] == 1
        assert found["only_b_succeeds"] == 0
        assert found["mcnemar_p"] == 1.0
        assert set(found["sot_sensitivity"]) == {"0.0075", "0.015", "0.03", "0.06", "0.12", "0.24", "0.48"}

    def test_a_run_equals_itself(self):
        rows = [row(i, i % 2) for i in range(8)]
        assert all(v["estimate"] == v["low"] == v["high"] == 0.0 for v in compare(rows, rows)["difference"].values())

    def test_other_episodes_are_refused(self):
        with pytest.raises(DataError, match="not the same"):
            compare([row(0, 1)], [row(0, 1, seed=5)])
        with pytest.raises(DataError, match="not the same"):
            compare([row(0, 1)], [row(0, 1, instruction="find the bed")])
        with pytest.raises(DataError, match="in common"):
            compare([row(0, 1)], [row(1, 1)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = RolloutConfig(world=SMALL, agent=ExpertConfig(), output=folder / "a", episodes=2)
    return config, evaluate(config)


class TestEvaluate:
    def test_the_expert_is_measured_and_written(self, done):
        config, found = done
        assert found["n"]["scored"] == 2
        assert found["config"]["world"]["world"] == "rooms"
        assert json.loads((config.output / "report.json").read_text())["success"] == found["success"]
        assert {r["end"] for r in found["episodes"]} <= {"success", "timeout_wandering", "misidentified", "gave_up"}

    def test_it_goes_on_where_it_stopped(self, done):
        config, _ = done
        more = evaluate(replace(config, episodes=3))
        assert more["timing"]["new_episodes"] == 1
        assert len(read_rows(config.output)) == 3

    def test_runs_of_the_same_episodes_are_compared(self, done, tmp_path):
        config, _ = done
        again = replace(config, output=tmp_path / "b", world=replace(SMALL, depth=True))  # another camera, same homes
        found = evaluate(again, against=[config.output])
        (compared,) = found["against"].values()
        assert compared["n"]["common"] == 2
        assert compared["difference"]["success"]["estimate"] == 0.0

    def test_other_homes_are_refused_before_anything_runs(self, done, tmp_path):
        config, _ = done
        other = replace(config, output=tmp_path / "c", world=replace(SMALL, homes=4))
        with pytest.raises(ConfigError, match="other episodes"):
            evaluate(other, against=[config.output])
        assert not (tmp_path / "c").exists()
        with pytest.raises(DataError, match=r"config\.json"):
            evaluate(other, against=[tmp_path])


class TestSettings:
    def test_an_agent_gets_the_cameras_it_wants_unless_they_were_set(self):
        config = watched(RolloutConfig(world=RoomsConfig(), agent=HydraConfig()))
        assert isinstance(config.world, WatchedConfig)
        inner = config.world.inner
        assert (inner.width, inner.height, inner.panorama) == (160, 128, True)
        mine = watched(RolloutConfig(world=RoomsConfig(width=64), agent=HydraConfig(strategy="never")))
        assert (mine.world.inner.width, mine.world.inner.height, mine.world.inner.panorama) == (64, 128, False)
        assert watched(config) is config

    def test_presets_follow_the_model(self, tiny_vlm_dir):
        assert preset_for("nano") == "nano"
        assert preset_for("Qwen/Qwen3-VL-4B-Instruct") == "qwen"
        assert preset_for(str(tiny_vlm_dir("qwen3_vl"))) == "nano"
        assert HydraConfig(memory_limit=5).navigation().memory_limit == 5
        with pytest.raises(ConfigError):
            HydraConfig(memory_limit=0)

    @pytest.mark.parametrize("name", list(BENCHMARKS))
    def test_benchmarks_are_settings_of_habitat(self, name):
        chosen = benchmark(name)
        world = with_settings(HabitatConfig(), {**chosen.settings, "episodes": "e", "scenes": "s"}, name)
        assert world.success_radius == (0.25 if name.startswith("ovon") else 0.1)
        assert world.allow_sliding == name.startswith("ovon")
        with pytest.raises(ConfigError, match="choose habitat"):
            with_settings(RoomsConfig(), chosen.settings, name)

    def test_unknown_benchmarks_are_refused(self):
        with pytest.raises(ConfigError, match="did you mean 'ovon-unseen'"):
            benchmark("ovon-unseeen")


class TestCommand:
    def test_it_runs_and_prints_json(self, tmp_path, capsys):
        words = "eval navigation --agent expert --n 1 --world.max-steps 60 --world.width 32 --world.height 24"
        small = "--world.homes 3 --world.min-rooms 3 --world.max-rooms 3 --json --output"
        assert main([*words.split(), *small.split(), str(tmp_path / "a")]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["n"]["scored"] == 1
        assert found["config"]["world"]["inner"]["split"] == "val"

    def test_benchmarks_bring_their_settings(self, tmp_path):
        import tyro

        words = ["--world", "habitat", "--benchmark", "ovon-unseen", "--episodes", "f", "--scenes", "s"]
        command = tyro.cli(command_for(words), args=[*words, "--strategy", "fixed", "--world.camera-height", "1.0"])
        config = command.config()
        assert config.episodes == 3000
        assert (config.world.episodes, config.world.allow_sliding, config.world.camera_height) == ("f", True, 1.0)
        assert config.agent.strategy == "fixed"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--benchmark mp3d", "add --world habitat"),
            ("--world habitat --benchmark mp3d", "give both --episodes"),
            ("--scenes x", "belongs to --episodes"),
            ("--agent expert --strategy fixed", "has no strategy"),
            ("--strategy often", "strategy must be one of"),
        ],
    )
    def test_impossible_wishes_are_wrong_usage(self, words, said, capsys):
        assert main(["eval", "navigation", *words.split()]) == 2
        assert said in capsys.readouterr().err
