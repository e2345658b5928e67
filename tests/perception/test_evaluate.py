import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripted import Call, ScriptedVLM, boxes_reply, canvas

from backbone.contracts import Box
from backbone.errors import CancelledError, ConfigError, DataError
from backbone.images import SourceImage
from perception.benchmarks import load_benchmark
from perception.benchmarks.items import Benchmark, Item
from perception.compare import compare
from perception.config import PerceptionConfig
from perception.evaluate import ITEMS_FILE, REPORT_FILE, evaluate, item_seed, read_records
from perception.experiments import overlap_experiment
from perception.oracle import Oracle

CONFIG = PerceptionConfig()
TARGET = Box(400, 200, 480, 260, "mark")  # of a 1000 x 500 picture: 400 400 480 520 in the family's numbers
LOOK = boxes_reply((400, 400, 480, 520))


def picture() -> SourceImage:
    return SourceImage.from_array(canvas(1000, 500))


def items(count: int, load: Callable[[], SourceImage] = picture) -> tuple[Item, ...]:
    kinds = ("attribute", "relation")
    return tuple(
        Item(f"i{i}", kinds[i % 2], f"Question {i}?", ("one", "two"), i % 2, load, (TARGET,), seed=i)
        for i in range(count)
    )


def bench(count: int = 4) -> Benchmark:
    return Benchmark("toy", "test", items(count))


def model(*answers: str, look: str = LOOK) -> ScriptedVLM:
    return ScriptedVLM(replies=[reply for answer in answers for reply in (look, answer)])


def run(output: Path, vlm: ScriptedVLM, benchmark: Benchmark, **options: object) -> dict[str, object]:
    config = options.pop("config", CONFIG)
    return evaluate(vlm, benchmark, config, output, progress=False, **options)  # type: ignore[arg-type]


def test_a_run_reports_accuracy_boxes_and_cost(tmp_path: Path) -> None:
    report = run(tmp_path, model("A", "B", "B", "B"), bench())
    assert report["n"] == {"expected": 4, "scored": 4, "failed": 0, "missing": 0, "unanswered": 0}
    assert report["accuracy"]["estimate"] == 0.75
    assert report["by_kind"]["relation"]["estimate"] == 1.0
    assert report["by_size"]["<= 1024 px"]["n"] == 4
    assert report["boxes"]["target_recall"]["estimate"] == 1.0
    assert report["boxes"]["proposal_iou"] == pytest.approx(1.0)
    assert 0.3 < report["boxes"]["region_iou"] < 0.9  # widened by the crop rules
    assert report["method"] == "sparc"
    assert report["config"]["regime"] == 256
    assert report["pixels"]["factor"] == 32
    records = read_records(tmp_path)
    ledger = records[0]
    assert ledger["visual_tokens"] > 0
    assert ledger["tokens"] == ledger["prompt_tokens"] + ledger["generated_tokens"]
    assert json.loads((tmp_path / REPORT_FILE).read_text()) == json.loads(json.dumps(report))


def test_missed_boxes_lower_recall(tmp_path: Path) -> None:
    report = run(tmp_path, model("A", "A", look=boxes_reply((0, 0, 100, 100))), bench(2))
    assert report["boxes"]["target_recall"]["estimate"] == 0.0
    assert report["boxes"]["proposal_iou"] == 0.0


def test_native_has_no_box_figures(tmp_path: Path) -> None:
    report = run(tmp_path, ScriptedVLM(replies=["A", "B"]), bench(2), config=replace(CONFIG, method="native"))
    assert report["accuracy"]["estimate"] == 1.0
    assert report["boxes"] is None


def test_one_failure_is_recorded_and_stops_nothing(tmp_path: Path) -> None:
    def broken() -> SourceImage:
        raise DataError("truncated JPEG")

    whole = items(3)
    benchmark = Benchmark("toy", "test", (whole[0], replace(whole[1], load=broken), whole[2]))
    report = run(tmp_path, model("A", "A"), benchmark)
    assert report["n"]["failed"] == 1
    assert report["n"]["scored"] == 2
    assert report["accuracy"]["estimate"] == 1.0
    assert report["accuracy_of_expected"]["estimate"] == pytest.approx(2 / 3)
    failed = [r for r in read_records(tmp_path) if r["status"] == "failed"]
    assert failed[0]["id"] == "i1"
    assert "truncated JPEG" in failed[0]["error"]


def test_resume_asks_only_what_is_missing_and_equals_a_straight_run(tmp_path: Path) -> None:
    answers = ("A", "B", "B", "A")
    straight = run(tmp_path / "straight", model(*answers), bench())
    stopped = model(*answers)

    def stop(call: Call) -> None:
        if "Question 2" in call.text:
            raise CancelledError("stop")

    stopped.on_call = stop
    with pytest.raises(CancelledError):
        run(tmp_path / "parts", stopped, bench())
    assert len(read_records(tmp_path / "parts")) == 2
    rest = model("B", "A")
    resumed = run(tmp_path / "parts", rest, bench(), resume=True)
    assert len(rest.calls) == 4  # two items, two stages each
    for key in ("n", "accuracy", "by_kind", "boxes", "tokens", "hash"):
        assert resumed[key] == straight[key]


def test_resume_survives_a_line_cut_in_the_middle_and_retries_failures(tmp_path: Path) -> None:
    run(tmp_path, model("A", "B"), bench(), limit=2)
    file = tmp_path / ITEMS_FILE
    lines = file.read_text().splitlines()
    failed = json.loads(lines[1]) | {"status": "failed", "correct": False}
    file.write_text(lines[0] + "\n" + json.dumps(failed) + "\n" + lines[1][:40])
    vlm = model("B", "B", "B")
    report = run(tmp_path, vlm, bench(), resume=True)
    assert len(vlm.calls) == 6
    assert report["n"]["scored"] == 4
    assert [r["id"] for r in read_records(tmp_path)] == ["i0", "i1", "i2", "i3"]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ITEMS_FILE).write_text('{"id": \n{"id": "i1"}\n')
    with pytest.raises(DataError, match="line 1"):
        read_records(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_records(tmp_path / "nothing")


def test_results_are_never_mixed_or_overwritten(tmp_path: Path) -> None:
    run(tmp_path, model("A", "B"), bench(2))
    with pytest.raises(ConfigError, match="already holds results"):
        run(tmp_path, model("A", "B"), bench(2))
    changes: tuple[dict[str, object], ...] = (
        {"seed": 1},
        {"config": replace(CONFIG, regime=512)},
        {"model_version": "other weights"},
        {"oracle": Oracle()},
    )
    for change in changes:
        with pytest.raises(DataError, match="other settings"):
            run(tmp_path, model("A", "B"), bench(2), resume=True, **change)
    turned = tuple(replace(i, options=i.options[::-1]) for i in items(2))
    with pytest.raises(DataError, match="was asked with options"):
        run(tmp_path, model(), Benchmark("toy", "test", turned), resume=True)
    assert len(read_records(tmp_path)) == 2


def test_a_longer_run_continues_a_shorter_one(tmp_path: Path) -> None:
    run(tmp_path, model("A"), bench(), limit=1)
    vlm = model("B", "A", "B")
    report = run(tmp_path, vlm, bench(), resume=True)
    assert len(vlm.calls) == 6
    assert report["accuracy"]["estimate"] == 1.0
    with pytest.raises(ConfigError, match="at least 1"):
        run(tmp_path / "other", vlm, bench(), limit=0)


def test_seeds_belong_to_items(tmp_path: Path) -> None:
    config = replace(CONFIG, rollouts=2)
    seeds = []
    for name, benchmark in (("a", bench(3)), ("b", Benchmark("toy", "test", items(3)[::-1]))):
        vlm = ScriptedVLM(replies=[[LOOK, LOOK], "A"] * 3)
        run(tmp_path / name, vlm, benchmark, config=config)
        found = {c.text.split("Question ")[1][0]: c.options["seed"] for c in vlm.calls if c.options["n"] == 2}
        seeds.append(found)
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0].values())) == 3
    assert item_seed(0, "x") != item_seed(1, "x")


def test_every_item_starts_with_an_empty_prefix_cache(tmp_path: Path) -> None:
    events: list[str] = []

    class Cached(ScriptedVLM):
        def forget(self) -> None:
            events.append("forget")

    vlm = Cached(replies=[LOOK, "A", LOOK, "B"], on_call=lambda call: events.append(call.options["stage"]))
    run(tmp_path, vlm, bench(2))
    assert events == ["forget", "searching", "answering"] * 2


def test_oracle_shows_the_true_boxes_without_searching(tmp_path: Path) -> None:
    vlm = ScriptedVLM(replies=["A", "B"])
    report = run(tmp_path, vlm, bench(2), oracle=Oracle())
    assert len(vlm.calls) == 2
    assert report["method"] == "oracle"
    assert report["boxes"]["target_recall"]["estimate"] == 1.0
    assert report["boxes"]["proposal_iou"] is None


@pytest.mark.parametrize("overlap", [0.05, 0.25, 0.5, 0.8, 1.0])
def test_oracle_overlap_is_what_was_asked(tmp_path: Path, overlap: float) -> None:
    run(tmp_path, ScriptedVLM(replies=["A"] * 3), bench(3), oracle=Oracle(overlap))
    for record in read_records(tmp_path):
        assert record["coverage"][0] == pytest.approx(overlap, abs=0.04)  # regions are whole pixels


def test_overlap_experiment_covers_every_regime_and_overlap(tmp_path: Path) -> None:
    def reply(call: Call) -> str:
        return "A" if len(call.images) > 1 else "B"

    found = overlap_experiment(
        ScriptedVLM(replies=[reply] * 8),
        bench(2),
        CONFIG,
        tmp_path,
        overlaps=(0.5,),
        regimes=(256, 512),
        progress=False,
    )
    rows = [(r["regime"], r["overlap"]) for r in found["runs"]]
    assert rows == [(256, None), (256, 0.5), (512, None), (512, 0.5)]
    assert found["runs"][0]["visual_tokens"] < found["runs"][2]["visual_tokens"] < found["runs"][3]["visual_tokens"]
    again = overlap_experiment(
        ScriptedVLM(), bench(2), CONFIG, tmp_path, overlaps=(0.5,), regimes=(256, 512), progress=False
    )
    assert again == found  # continued, nothing asked again
    assert json.loads((tmp_path / "overlap.json").read_text()) == json.loads(json.dumps(found))


def test_oracle_without_boxes_is_refused(tmp_path: Path) -> None:
    blind = Benchmark("toy", "test", tuple(replace(i, boxes=()) for i in items(2)))
    with pytest.raises(DataError, match="no boxes"):
        run(tmp_path, model(), blind, oracle=Oracle())


def test_free_text_answers_are_scored(tmp_path: Path) -> None:
    vlm = ScriptedVLM(replies=[LOOK, "B"])
    found = run(tmp_path, vlm, bench(1))
    assert found["accuracy"]["estimate"] == 0.0
    record = read_records(tmp_path)[0]
    assert (record["choice"], record["answer"], record["correct"]) == (1, 0, False)


def test_ministar_with_a_model_that_sees_the_badges(tmp_path: Path) -> None:
    """End to end: a detector that reads the true box is told by nothing but pixels' positions."""
    benchmark = load_benchmark("ministar", limit=3)
    by_question = {i.question: i for i in benchmark.items}

    def reply(call: Call) -> str:
        item = next(i for q, i in by_question.items() if q in call.text)
        if call.options["stage"] != "searching":
            return "ABCD"[item.answer]
        width, height = item.load().size
        scale = np.array([1000 / width, 1000 / height] * 2)
        return boxes_reply(*[tuple(np.array(b.corners) * scale) for b in item.boxes])

    report = run(tmp_path, ScriptedVLM(replies=[reply] * 6), benchmark)
    assert report["accuracy"]["estimate"] == 1.0
    assert report["boxes"]["item_recall"]["estimate"] == 1.0
    assert report["boxes"]["proposal_iou"] > 0.8
    assert report["boxes"]["area_seen"] < 0.05


def test_compare_pairs_the_items(tmp_path: Path) -> None:
    run(tmp_path / "a", model("A", "B", "A", "B", "A", "B"), bench(6))
    run(tmp_path / "b", model("A", "A", "B", "A"), bench(6), limit=4)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found["n"] == {"common": 4, "only_a": 2, "only_b": 0, "failed_a": 0, "failed_b": 0}
    assert (found["accuracy"]["a"], found["accuracy"]["b"]) == (1.0, 0.25)
    assert found["accuracy"]["difference"]["estimate"] == pytest.approx(0.75)
    assert (found["accuracy"]["only_a_right"], found["accuracy"]["only_b_right"]) == (3, 0)
    assert found["accuracy"]["mcnemar_p"] == pytest.approx(0.25)
    assert set(found["by_kind"]) == {"attribute", "relation"}
    assert found["costs"]["visual_tokens"]["ratio"] == pytest.approx(1.0)
    back = compare(tmp_path / "b" / ITEMS_FILE, tmp_path / "a")
    assert back["accuracy"]["difference"]["estimate"] == pytest.approx(-0.75)


def test_compare_refuses_what_cannot_be_paired(tmp_path: Path) -> None:
    run(tmp_path / "a", model("A"), bench(1))
    other = Benchmark("toy", "test", (replace(items(1)[0], id="x"),))
    run(tmp_path / "b", model("A"), other)
    with pytest.raises(DataError, match="no item in common"):
        compare(tmp_path / "a", tmp_path / "b")
    turned = Benchmark("toy", "test", (replace(items(1)[0], options=("two", "one")),))
    run(tmp_path / "c", model("A"), turned)
    with pytest.raises(DataError, match="asked differently"):
        compare(tmp_path / "a", tmp_path / "c")


def test_items_are_validated() -> None:
    with pytest.raises(DataError, match="not distinct"):
        replace(items(1)[0], options=("a", "a"))
    with pytest.raises(DataError, match="answer index"):
        replace(items(1)[0], answer=2)
    with pytest.raises(DataError, match="not unique: i0"):
        Benchmark("toy", "test", items(1) + items(1))
    with pytest.raises(DataError, match="no item"):
        Benchmark("toy", "test", (), ("row 2: no answer",))
