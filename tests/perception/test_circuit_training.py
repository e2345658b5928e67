"""Mining by rejection, and training one circuit while the other stays bit for bit what it was."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scripted import Call, ScriptedVLM, boxes_reply, canvas

from backbone.contracts import Box
from backbone.errors import ConfigError, DataError
from backbone.images import SourceImage
from backbone.local import LocalVLM
from backbone.vlm import VLM
from perception import prompts
from perception.benchmarks.items import Item
from perception.config import PerceptionConfig
from perception.data import (
    Mining,
    Record,
    mine,
    perception_record,
    read_records,
    reasoning_record,
    write_records,
)
from perception.parsing import parse_regions
from perception.pipeline import Searcher
from perception.train import Batches, CircuitTraining, loss, train_circuit

OPTIONS = ("red", "green", "blue", "pink")
BOXES = (Box(100, 100, 200, 200, 'the "sign"'),)
CONFIG = PerceptionConfig()


def item(name: str, answer: int = 0, boxes: tuple[Box, ...] = BOXES) -> Item:
    image = SourceImage.from_array(canvas(400, 300))
    return Item(name, "attribute", f"What colour is {name}?", OPTIONS, answer, lambda: image, boxes)


def student(with_crops: str, without: str) -> ScriptedVLM:
    def reply(call: Call) -> str:
        return with_crops if len(call.images) > 1 else without

    return ScriptedVLM([reply] * 1000)


def kept(vlm: VLM, items: list[Item], **options: object) -> tuple[list[str], dict[str, int]]:
    mining = Mining()
    names = [found.id for found, _ in mine(vlm, items, CONFIG, mining=mining, **options)]  # type: ignore[arg-type]
    return names, dict(mining.counts)


def test_only_regions_that_help_become_targets() -> None:
    items = [item("a"), item("b")]
    assert kept(student("A", "B"), items) == (["a", "b"], {"hard": 2})
    assert kept(student("B", "B"), items) == ([], {"wrong with close-ups": 2})
    assert kept(student("B", "A"), items) == ([], {"wrong with close-ups": 2})
    assert kept(student("A", "A"), items, easy_fraction=0.0) == ([], {"easy, left out": 2})
    assert kept(student("A", "B"), [item("c", boxes=())]) == ([], {"no boxes": 1})


def test_a_fixed_part_of_the_easy_items_is_kept_whatever_their_order() -> None:
    items = [item(f"item {i}") for i in range(100)]
    names, counts = kept(student("A", "A"), items)
    assert 15 < counts["easy"] < 45
    backwards, _ = kept(student("A", "A"), items[::-1])
    assert names == backwards[::-1]
    assert names != kept(student("A", "A"), items, seed=1)[0]


def test_a_teacher_may_propose_the_regions() -> None:
    teacher = Searcher(ScriptedVLM([boxes_reply((500, 500, 1000, 1000))]), PerceptionConfig(regime="full"))
    ((_, boxes),) = mine(student("A", "B"), [item("a", boxes=())], CONFIG, teacher=teacher)
    assert boxes[0].corners == (200, 150, 400, 300)


def test_records_are_the_prompts_of_use_and_survive_the_disk(tmp_path: Path) -> None:
    vlm = ScriptedVLM()
    eyes, mind = perception_record(vlm, item("a"), BOXES, CONFIG), reasoning_record(vlm, item("a", 2), BOXES, CONFIG)
    assert eyes.messages() == prompts.perception_messages(eyes.images[0], "What colour is a?")
    assert max(eyes.images[0].shape) == 256
    assert json.loads(eyes.target) == [{"bbox_2d": [250, 333, 500, 667], "label": "the sign"}]
    assert parse_regions(eyes.target).notes == ()
    asked = ScriptedVLM(["C"])
    Searcher(asked).answer_from(item("a").load(), "What colour is a?", OPTIONS, BOXES)
    assert repr(mind.messages()) == repr(asked.calls[0].messages) or mind.prompt[-1] in asked.calls[0].text
    assert mind.target == "C"
    assert len(mind.images) == 2
    assert write_records([eyes, mind], tmp_path / "records") == 2
    back = read_records(tmp_path / "records")
    assert back == [eyes, mind]
    assert all(
        (a == b).all() for r, s in zip(back, [eyes, mind], strict=True) for a, b in zip(r.images, s.images, strict=True)
    )
    with pytest.raises(DataError, match="choose another folder"):
        write_records([eyes], tmp_path / "records")


def test_broken_records_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_records(tmp_path)
    (tmp_path / "records.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(DataError, match="line 1"):
        read_records(tmp_path)
    with pytest.raises(DataError, match="circuit"):
        Record("x", "ears", ("?",), "A", (canvas(4, 4),))  # type: ignore[arg-type]


@pytest.fixture
def vlm(tiny_vlm_dir: Callable[[str], Path]) -> LocalVLM:
    model = VLM.load(str(tiny_vlm_dir("qwen3_vl")), device="cpu", dtype="float32")
    assert isinstance(model, LocalVLM)
    return model


def small_records(vlm: LocalVLM) -> list[Record]:
    config = PerceptionConfig(crop_longest=96, crop_shortest=64)
    return [
        perception_record(vlm, item("a"), BOXES, config),
        perception_record(vlm, item("b"), (Box(0, 0, 50, 300, "bar"),), config),
    ]


def test_training_perception_alone_leaves_reasoning_bit_identical(vlm: LocalVLM, tmp_path: Path) -> None:
    records = small_records(vlm)
    stage_two = prompts.reasoning_messages(canvas(96, 64), [("sign [1, 2, 3, 4]:", canvas(64, 64, 200))], "What is it?")
    before = vlm.next_logits(vlm.prefill(stage_two))
    searched = vlm.generate(records[0].messages(), max_new_tokens=4)
    settings = CircuitTraining(rank=4, alpha=8, batch=2, accumulate=1, learning_rate=1e-2, steps=6, precision="fp32")
    batch = Batches(vlm, records, 2, 0).at(0)
    with torch.no_grad():
        untrained, _ = loss(vlm, None, vlm.model, batch)
    result = train_circuit(vlm, records, tmp_path / "run", settings)
    vlm.forget()
    after = vlm.next_logits(vlm.prefill(stage_two))
    assert torch.equal(before, after)  # the perception adapter is attached, but not active in stage 2
    assert vlm.generate(records[0].messages(), max_new_tokens=4).log_probs == searched.log_probs
    with torch.no_grad():
        trained, _ = loss(vlm, "perception", vlm.model, batch)
    fresh = VLM.load(vlm.name, device="cpu", dtype="float32")
    assert isinstance(fresh, LocalVLM)
    fresh.adapters.attach("none", tmp_path / "run" / "adapter")
    assert not torch.equal(vlm.next_logits(vlm.prefill(stage_two, adapter="perception")), before)
    with torch.no_grad():
        loaded, _ = loss(fresh, "none", fresh.model, batch)
    assert result.steps == 6
    assert float(trained) < float(untrained) - 0.5
    assert float(loaded) == pytest.approx(float(trained), rel=1e-4)
    names = [n for n, _ in vlm.model.named_parameters() if ".perception." in n]
    assert any("visual" in n for n in names)
    assert any("language_model" in n for n in names)
    assert not any(p.requires_grad for n, p in vlm.model.named_parameters() if ".perception." in n)


def test_batches_put_labels_on_targets_only_and_equal_the_engines_prompt(vlm: LocalVLM) -> None:
    records = small_records(vlm)
    batch = Batches(vlm, records, 2, 0).at(0)
    order = np.random.default_rng([0, 0]).permutation(2)
    for row, index in enumerate(order):
        labels = batch["labels"][row]
        target = vlm.tokenizer.decode(labels[labels != -100])
        assert target == records[index].target + "<|im_end|>"
        prompt = vlm.prefill(records[index].messages())
        length = int((labels != -100).nonzero()[0])
        assert prompt.length == length
        with torch.no_grad():
            inputs = {k: v for k, v in batch.items() if k != "labels"}
            logits = vlm.model(**inputs, use_cache=False).logits[row, length - 1].float()
        torch.testing.assert_close(logits, vlm.next_logits(prompt), rtol=1e-3, atol=1e-3)
    again = Batches(vlm, records, 2, 0).at(0)
    assert all(torch.equal(batch[k], again[k]) for k in batch)


@pytest.mark.parametrize("method", ["sparc", "native", "zoom"])
def test_every_method_runs_on_a_real_model_and_calls_do_not_disturb_each_other(vlm: LocalVLM, method: str) -> None:
    config = PerceptionConfig(method=method, rollouts=2, max_search_tokens=8, max_zoom_tokens=8)  # type: ignore[arg-type]
    searcher = Searcher(vlm, config)
    first = searcher.ask(canvas(400, 300), "What colour?", OPTIONS)
    other = searcher.ask(canvas(300, 500, 10), "How many?", OPTIONS)
    again = searcher.ask(canvas(400, 300), "What colour?", OPTIONS)
    assert first.choice is not None
    assert first.ledger.total().visual_tokens > 0
    assert len(first.rollouts) == {"sparc": 2, "native": 0, "zoom": 1}[method]
    assert (again.text, again.log_probs, again.regions) == (first.text, first.log_probs, first.regions)
    assert again.ledger.total().visual_tokens == 0  # the prefix is still held
    assert other.ledger.total().visual_tokens > 0


def test_wrong_training_requests_are_refused(vlm: LocalVLM, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="need perception records"):
        train_circuit(vlm, [], tmp_path, CircuitTraining())
    with pytest.raises(DataError, match="another circuit"):
        train_circuit(vlm, small_records(vlm), tmp_path, CircuitTraining(circuit="reasoning"))
    with pytest.raises(ConfigError, match="multiple"):
        CircuitTraining(batch=10, accumulate=4)
    assert CircuitTraining().training(20_000).steps == 625
