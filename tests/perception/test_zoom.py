import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import ScriptedVLM, canvas, zoom_reply

from backbone.errors import ConfigError
from backbone.vlm import VLM
from perception.answer import PerceptionAnswer
from perception.config import PerceptionConfig
from perception.pipeline import Searcher
from perception.tool import TOOL, InvalidCall, ZoomCall, parse_call, system_message
from perception.zoom import DEMAND

OPTIONS = ("red", "green", "blue", "pink")
CONFIG = PerceptionConfig(method="zoom")


def ask(vlm: ScriptedVLM, options: tuple[str, ...] = OPTIONS, config: PerceptionConfig = CONFIG) -> PerceptionAnswer:
    return Searcher(vlm, config).ask(canvas(2000, 1000), "What colour?", options)


def test_zooms_then_answers() -> None:
    vlm = ScriptedVLM([zoom_reply((100, 100, 200, 200), prose="I should look. "), "B"])
    answer = ask(vlm)
    assert answer.text == "B"
    assert answer.choice == 1
    assert answer.regions[0].corners == (200, 100, 400, 200)
    first, second = vlm.calls
    assert [m["role"] for m in first.messages] == ["system", "user"]
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant", "user"]
    assert "I should look. <tool_call>" in second.text
    assert "<tool_response>\n\n</tool_response>" in second.text
    assert len(second.images) == 2
    assert [s.name for s in answer.ledger.stages] == ["searching", "looking", "answering"]


def test_answers_at_once_without_the_tool() -> None:
    answer = ask(ScriptedVLM(["The answer is C."]))
    assert (answer.text, answer.choice, answer.crops) == ("C", 2, ())


def test_image_index_addresses_an_earlier_crop() -> None:
    vlm = ScriptedVLM([zoom_reply((500, 0, 1000, 1000)), zoom_reply((0, 500, 500, 1000), index=1), "A"])
    answer = ask(vlm)
    assert [box.corners for box in answer.regions] == [(1000, 0, 2000, 1000), (1000, 500, 1500, 1000)]


def test_prose_that_names_no_option_is_settled_by_a_constrained_pass() -> None:
    vlm = ScriptedVLM(["It is hard to tell, sorry.", "D"])
    answer = ask(vlm)
    assert answer.text == "D"
    assert vlm.calls[1].options["choices"] == ["A", "B", "C", "D"]
    assert any("named no option" in note for note in answer.notes)


@pytest.mark.parametrize("options", [OPTIONS, ()])
def test_endless_calls_end_after_six_turns_with_a_demanded_answer(options: tuple[str, ...]) -> None:
    vlm = ScriptedVLM([zoom_reply((k * 100, 0, k * 100 + 90, 500)) for k in range(6)] + ["never"])
    answer = ask(vlm, options)
    assert len(vlm.calls) == 6
    assert DEMAND in vlm.calls[-1].text
    assert DEMAND not in vlm.calls[-2].text
    assert len(answer.crops) == 5
    if options:
        assert answer.choice == 0
    else:
        assert answer.text == ""
        assert any("kept calling the tool" in note for note in answer.notes)


def test_the_same_call_again_demands_an_answer() -> None:
    vlm = ScriptedVLM([zoom_reply((100, 100, 200, 200))] * 2 + ["C"])
    answer = ask(vlm)
    assert len(vlm.calls) == 3
    assert answer.choice == 2
    assert any("asked again" in note for note in answer.notes)


BAD_CALLS = [
    "<tool_call>\nplease zoom in\n</tool_call>",
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3]}}</tool_call>',
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"label": "x"}}</tool_call>',
    '<tool_call>{"name": "web_search", "arguments": {"query": "x"}}</tool_call>',
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [NaN, 1, 2, 3]}}</tool_call>',
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [2000, 2000, 3000, 3000]}}</tool_call>',
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [50, 50, 50, 50]}}</tool_call>',
    zoom_reply((1, 1, 500, 500), index=7),
    '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1,1,9,9], "img_idx": "first"}}</tool_call>',
]


@pytest.mark.parametrize("bad", BAD_CALLS)
def test_invalid_calls_are_explained_to_the_model_and_bounded(bad: str) -> None:
    recovered = ScriptedVLM([bad, zoom_reply((100, 100, 200, 200)), "B"])
    answer = ask(recovered)
    assert answer.choice == 1
    assert "<tool_response>\nError: " in recovered.calls[1].text
    assert any("invalid call" in note for note in answer.notes)
    stubborn = ScriptedVLM([bad] * 9)
    assert ask(stubborn).choice == 0
    assert len(stubborn.calls) == CONFIG.zoom_invalid + 1


def test_only_failures_in_a_row_count() -> None:
    vlm = ScriptedVLM(
        [BAD_CALLS[0], zoom_reply((100, 100, 200, 200)), BAD_CALLS[1], zoom_reply((700, 0, 900, 90)), "D"]
    )
    answer = ask(vlm)
    assert answer.choice == 3
    assert len(answer.crops) == 2
    assert DEMAND not in vlm.calls[3].text


@pytest.mark.parametrize(
    "text",
    [
        zoom_reply((1, 2, 3, 4)),
        zoom_reply((1, 2, 3, 4), prose="Let me look closer at {the sign}.\n"),
        "<tool_call>\n{'name': 'image_zoom_in_tool', 'arguments': {'bbox_2d': [1, 2, 3, 4], 'label': 'mark'}}\n</tool_call>",  # noqa: E501
        '<tool_call>\n{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3, 4], "label": "mark"}}',
        '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3, 4], "label": "mark"',
        '<tool_call>{"name": "image_zoom_in_tool", "arguments": "{\\"bbox_2d\\": [1, 2, 3, 4], \\"label\\": \\"mark\\"}"}</tool_call>',  # noqa: E501
        '<tool_call>{"bbox_2d": [1, 2, 3, 4], "label": "mark"}</tool_call>',
        '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3, 4], "label": "mark"}}',
        '```json\n{"name": "image_zoom_in_tool", "parameters": {"bbox_2d": ["1", "2", "3", "4"], "label": "mark"}}\n```',  # noqa: E501
        zoom_reply((1, 2, 3, 4)) + "\n" + zoom_reply((5, 6, 7, 8)),
    ],
)
def test_calls_are_read_tolerantly(text: str) -> None:
    call = parse_call(text)
    assert isinstance(call, ZoomCall), call
    assert call.region.numbers == (1, 2, 3, 4)
    assert call.region.label == "mark"
    assert call.image_index == 0
    assert call.text.count("</tool_call>") <= 1


def test_answers_are_not_calls() -> None:
    for text in ("B", "", "I would use image_zoom_in_tool but the answer is B", "[1, 2, 3, 4]"):
        assert parse_call(text) is None
    assert isinstance(parse_call("<tool_call>"), InvalidCall)


def test_short_prompt_for_nano() -> None:
    vlm = ScriptedVLM(["A"])
    ask(vlm, config=PerceptionConfig.preset("nano"))
    ask(zoom := ScriptedVLM(["A"]), config=PerceptionConfig(method="zoom", zoom_prompt="short"))
    assert [m["role"] for m in zoom.calls[0].messages] == ["user"]
    assert "You may call image_zoom_in_tool" in zoom.calls[0].text


def test_system_text_is_what_qwens_template_renders_for_the_tool() -> None:
    tokenizer = pytest.importorskip("backbone.tokenizer").build_tokenizer(4096, "qwen3_vl")
    user = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    by_template = tokenizer.apply_chat_template([user], tools=[TOOL], tokenize=False, add_generation_prompt=True)
    by_us = tokenizer.apply_chat_template([system_message(), user], tokenize=False, add_generation_prompt=True)
    assert json.dumps(TOOL) in by_us
    assert by_us == by_template


def test_turns_are_greedy_unless_they_are_to_be_drawn() -> None:
    replies = [zoom_reply((100, 100, 200, 200)), zoom_reply((500, 500, 600, 700)), "It is hard to tell.", "B"]
    greedy, drawn = ScriptedVLM(list(replies)), ScriptedVLM(list(replies))
    ask(greedy)
    assert {(c.options["temperature"], c.options["top_p"], c.options["seed"]) for c in greedy.calls} == {(0.0, 1.0, 0)}
    config = replace(CONFIG, zoom_temperature=0.7, zoom_top_p=0.8)
    Searcher(drawn, config).ask(canvas(2000, 1000), "What colour?", OPTIONS, seed=5)
    *turns, last = drawn.calls
    assert [(c.options["temperature"], c.options["top_p"]) for c in turns] == [(0.7, 0.8)] * 3
    assert len({c.options["seed"] for c in turns}) == 3  # no two turns draw the same numbers
    assert (last.options["choices"], last.options["temperature"]) == (["A", "B", "C", "D"], 0.0)
    again = ScriptedVLM(list(replies))
    Searcher(again, config).ask(canvas(2000, 1000), "What colour?", OPTIONS, seed=5)
    assert [c.options for c in again.calls] == [c.options for c in drawn.calls]


def test_drawn_turns_do_not_depend_on_what_is_cached(tiny_vlm_dir: Callable[[str], Path]) -> None:
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    config = replace(CONFIG, zoom_temperature=1.2, zoom_top_p=0.9, max_zoom_tokens=12)

    def text(seed: int) -> str:
        return Searcher(vlm, config).ask(canvas(200, 100), "What colour?", seed=seed).text

    first = text(1)
    assert text(1) == first
    vlm.forget()
    assert text(1) == first
    assert text(2) != first


@pytest.mark.parametrize(
    "wrong", [{"zoom_temperature": -1.0}, {"zoom_top_p": 0.0}, {"zoom_top_p": 1.2}, {"zoom_top_p": 0.8}]
)
def test_impossible_sampling_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PerceptionConfig(**wrong)  # type: ignore[arg-type]
