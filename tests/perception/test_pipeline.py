import threading
from dataclasses import replace

import numpy as np
import pytest
from scripted import Call, ScriptedVLM, boxes_reply, canvas

from backbone.contracts import Box, Image
from backbone.errors import CancelledError, ConfigError, DataError
from backbone.images import SourceImage
from backbone.pixels import Pixels
from perception.answer import PerceptionAnswer, PerceptionEvent
from perception.config import PerceptionConfig
from perception.pipeline import Searcher

OPTIONS = ("red", "green", "blue", "pink")
MARK = Box(3000, 1000, 3012, 1012)  # pure red checks of 1 px: any averaging destroys them


def watermarked() -> Image:
    image = canvas(4096, 2048)
    rows, columns = np.mgrid[1000:1012, 3000:3012]
    image[1000:1012, 3000:3012] = np.where(((rows + columns) % 2)[..., None], (255, 0, 0), (0, 255, 255))
    return image


def has_watermark(image: Image) -> bool:
    return bool(((image[..., 0].astype(int) - image[..., 1]) > 200).any())


def numbers(box: Box, width: int = 4096, height: int = 2048) -> tuple[float, ...]:
    return (box.x0 / width * 1000, box.y0 / height * 1000, box.x1 / width * 1000, box.y1 / height * 1000)


@pytest.mark.parametrize("regime", [256, 512])
def test_stage_one_sees_the_regime_and_stage_two_the_original(regime: int) -> None:
    vlm = ScriptedVLM([boxes_reply((725, 480, 742, 500)), "B"])
    searcher = Searcher(vlm, PerceptionConfig(regime=regime))  # type: ignore[arg-type]
    answer = searcher.ask(watermarked(), "What colour is the mark?", OPTIONS)
    first, second = vlm.calls
    assert [max(image.shape[:2]) for image in first.images] == [regime]
    assert not has_watermark(first.images[0])
    assert len(second.images) == 2
    assert second.images[0] is first.images[0]
    assert has_watermark(second.images[1])
    assert answer.text == "B"
    assert answer.choice == 1
    assert answer.regions[0].coverage(MARK) == 1.0
    assert [stage.name for stage in answer.ledger.stages] == ["searching", "looking", "answering"]
    assert answer.notes == ()


def test_full_regime_is_limited_by_the_models_pixels_only() -> None:
    vlm = ScriptedVLM(["[]", "A"])
    Searcher(vlm, PerceptionConfig(regime="full")).ask(watermarked(), "?", OPTIONS)
    assert vlm.calls[0].images[0].shape == (2048, 4096, 3)
    small = ScriptedVLM(["[]", "A"], pixels=Pixels(32 * 32, 512 * 512, 32))
    Searcher(small, PerceptionConfig(regime="full")).ask(watermarked(), "?", OPTIONS)
    height, width = small.calls[0].images[0].shape[:2]
    assert width * height <= 512 * 512
    assert width == small.encoded_size(4096, 2048)[0]


def test_prompts_carry_the_question_the_options_and_the_place_of_each_close_up() -> None:
    vlm = ScriptedVLM([boxes_reply((100, 100, 200, 200), label="sign"), "A"])
    answer = Searcher(vlm).ask(canvas(1000, 1000), "What is on the sign?", OPTIONS)
    first, second = vlm.calls
    assert "What is on the sign?" in first.text
    assert "DO NOT ANSWER" in first.text
    assert "A. red" not in first.text
    assert "A. red\nB. green\nC. blue\nD. pink" in second.text
    assert second.options["choices"] == ["A", "B", "C", "D"]
    assert "sign [90, 90, 210, 210]:" in second.text
    assert answer.crops[0].tag == "sign [90, 90, 210, 210]:"


def test_rollouts_come_from_one_call_and_are_fused() -> None:
    replies = [boxes_reply((100 + d, 100, 200 + d, 200)) for d in (0, 10, 20)] + [boxes_reply((700, 700, 800, 800))]
    vlm = ScriptedVLM([replies, "A"])
    config = PerceptionConfig(rollouts=4, box_expand=1.0)
    answer = Searcher(vlm, config).ask(canvas(1000, 1000), "?", OPTIONS, seed=7)
    search, final = vlm.calls
    assert (search.options["n"], search.options["temperature"], search.options["seed"]) == (4, 0.7, 7)
    assert (final.options["n"], final.options["temperature"]) == (1, 0.0)
    assert [box.corners for box in answer.regions] == [(110, 100, 210, 200), (700, 700, 800, 800)]
    assert [box.score for box in answer.regions] == pytest.approx([3 / 4, 1 / 4])
    assert [len(boxes) for boxes in answer.rollouts] == [1, 1, 1, 1]


def test_one_rollout_is_greedy() -> None:
    vlm = ScriptedVLM(["[]", "A"])
    Searcher(vlm).ask(canvas(64, 64), "?", OPTIONS)
    assert vlm.calls[0].options["temperature"] == 0.0


def test_each_circuit_has_its_own_adapter() -> None:
    for method, expected in (("sparc", ["eyes", "mind"]), ("native", ["mind"]), ("zoom", ["mind"])):
        vlm = ScriptedVLM(["[]", "A"] if method == "sparc" else ["A"])
        config = PerceptionConfig(method=method, perception_adapter="eyes", reasoning_adapter="mind")  # type: ignore[arg-type]
        Searcher(vlm, config).ask(canvas(64, 64), "?", OPTIONS)
        assert [call.options["adapter"] for call in vlm.calls] == expected


@pytest.mark.parametrize(
    "reply", ["", "The answer is B.", "[]", '[{"bbox_2d": [NaN, 1, 2, 3]}]', boxes_reply((5, 5, 5, 5))]
)
def test_without_usable_regions_the_global_image_answers_and_says_so(reply: str) -> None:
    vlm = ScriptedVLM([reply, "C"])
    answer = Searcher(vlm).ask(canvas(800, 600), "?", OPTIONS)
    assert answer.text == "C"
    assert answer.regions == answer.crops == ()
    assert "no region found: answered from the global image alone" in answer.notes
    assert len(vlm.calls[1].images) == 1
    assert "close-ups" not in vlm.calls[1].text


def test_absolute_pixels_of_the_resized_image_for_qwen2_5() -> None:
    vlm = ScriptedVLM([boxes_reply((64, 64, 128, 128)), "A"], family="qwen2_5_vl", pixels=Pixels(28 * 28, 10**7, 28))
    answer = Searcher(vlm, PerceptionConfig(box_expand=1.0)).ask(canvas(1024, 1024), "?", OPTIONS)
    assert vlm.encoded_size(256, 256) == (252, 252)
    x0, _, x1, _ = answer.regions[0].corners
    assert (x0, x1) == pytest.approx((64 / 252 * 1024, 128 / 252 * 1024), abs=1)


def test_interleaved_calls_of_one_searcher_equal_separate_ones() -> None:
    def look(call: Call) -> str:
        return boxes_reply((100, 100, 300, 300) if "one" in call.text else (600, 600, 900, 900))

    def ask(searcher: Searcher, question: str, **more: object) -> PerceptionAnswer:
        return searcher.ask(canvas(900, 700), question, OPTIONS, **more)  # type: ignore[arg-type]

    alone = [ask(Searcher(ScriptedVLM([look, "A"])), "one"), ask(Searcher(ScriptedVLM([look, "B"])), "two")]
    searcher = Searcher(ScriptedVLM([look, look, "B", "A"]))
    inner: list[PerceptionAnswer] = []

    def interrupt(event: PerceptionEvent) -> None:
        if event.kind == "looking" and not inner:
            inner.append(ask(searcher, "two"))

    outer = ask(searcher, "one", on_event=interrupt)
    for got, want in zip((outer, inner[0]), alone, strict=True):
        assert (got.text, got.regions, got.rollouts, got.notes) == (want.text, want.regions, want.rollouts, want.notes)


def test_events_stream_in_order_with_boxes_crops_and_text() -> None:
    events: list[PerceptionEvent] = []
    vlm = ScriptedVLM([boxes_reply((100, 100, 300, 300)), "a red mug"])
    answer = Searcher(vlm).ask(canvas(900, 700), "What is it?", on_event=events.append)
    assert [event.kind for event in events] == ["searching"] * 2 + ["looking"] + ["answering"] * 4
    assert events[1].boxes == answer.rollouts[0]
    assert events[2].boxes == answer.regions
    assert events[2].crops[0].image is answer.crops[0].image
    assert events[-1].text.strip() == "a red mug"
    assert answer.choice is None


@pytest.mark.parametrize("method", ["sparc", "native", "zoom"])
def test_cancel_before_and_between_stages(method: str) -> None:
    cancel = threading.Event()
    cancel.set()
    vlm = ScriptedVLM(["[]", "A"])
    searcher = Searcher(vlm, PerceptionConfig(method=method))  # type: ignore[arg-type]
    with pytest.raises(CancelledError):
        searcher.ask(canvas(64, 64), "?", OPTIONS, cancel=cancel)
    cancel.clear()
    vlm = ScriptedVLM([boxes_reply((1, 1, 500, 500)), "A"])
    with pytest.raises(CancelledError):
        Searcher(vlm).ask(
            canvas(64, 64), "?", OPTIONS, cancel=cancel, on_event=lambda e: e.kind == "looking" and cancel.set()
        )  # type: ignore[func-returns-value]
    assert len(vlm.calls) == 1


def test_bad_requests_say_what_is_wrong() -> None:
    searcher = Searcher(ScriptedVLM())
    with pytest.raises(DataError, match="uint8"):
        searcher.ask(np.zeros((4, 4, 3), np.float32), "?")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="question is empty"):
        searcher.ask(canvas(4, 4), " \n")
    for options in (("a",), tuple("abcdefghijk")):
        with pytest.raises(ConfigError, match="2 to 10 options"):
            searcher.ask(canvas(4, 4), "?", options)


def test_sparc_on_8k_costs_a_hundredth_of_the_visual_tokens_of_one_full_pass() -> None:
    class Canvas8K:  # never holds 8192 x 8192 pixels
        size = (8192, 8192)

        def resized(self, longest: int | None) -> Image:
            side = min(longest or 8192, 8192)
            return np.broadcast_to(np.uint8(0), (side, side, 3))

        def crop(self, box: Box, width: int, height: int) -> Image:
            return np.zeros((height, width, 3), np.uint8)

    full = ScriptedVLM(["A"], pixels=Pixels(1024, 8192 * 8192, 32))
    native = Searcher(full, PerceptionConfig(method="native", regime="full")).ask(Canvas8K(), "?", OPTIONS)
    sparc = Searcher(ScriptedVLM([boxes_reply((500, 500, 510, 510)), "A"])).ask(Canvas8K(), "?", OPTIONS)
    ratio = native.ledger.total().visual_tokens / sparc.ledger.total().visual_tokens
    assert native.ledger.total().visual_tokens == 256 * 256
    assert ratio >= 100, ratio


def test_search_and_answer_from_given_boxes() -> None:
    vlm = ScriptedVLM([boxes_reply((100, 100, 300, 300)), "D"])
    searcher = Searcher(vlm)
    found = searcher.search(SourceImage.from_array(canvas(1000, 1000)), "?")
    assert [box.corners for box in found.fused] == [(100, 100, 300, 300)]
    answer = searcher.answer_from(canvas(1000, 1000), "?", OPTIONS, found.fused)
    assert answer.text == "D"
    assert answer.regions[0].corners == (80, 80, 320, 320)
    without = Searcher(ScriptedVLM(["A"])).answer_from(canvas(1000, 1000), "?", OPTIONS, ())
    assert without.notes == ()


def test_answer_is_plain_json() -> None:
    import json

    record = json.loads(json.dumps(PerceptionAnswer.make_example().to_dict()))
    assert record["method"] == "sparc"
    assert record["choice"] == 0
    assert record["rollouts"][0][0]["label"] == "mug"
    assert replace(PerceptionAnswer.make_example(), text="B").to_dict()["answer"] == "B"


def test_repeated_options_are_refused() -> None:
    searcher = Searcher(ScriptedVLM([]), PerceptionConfig())
    with pytest.raises(ConfigError, match="more than once: \\['red'\\]"):
        searcher.ask(canvas(64, 64), "What colour?", ("red", "blue", "red"))
