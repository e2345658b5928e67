"""Thinking with images, SPARC's rival: the model itself calls a zoom tool, turn by turn, until it answers.

Follows Qwen3-VL's cookbook: the tool crops one region of the original or of an earlier crop, and the crop comes back
as the tool's reply. The cookbook samples; here a turn is greedy unless ``zoom_temperature`` is set, so that methods are
compared under equal decoding. Crops follow the same size rules as SPARC's close-ups.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

from backbone.contracts import Box, Ledger, Stage
from backbone.errors import DataError
from backbone.vlm import Generation, Message
from perception import prompts, tool
from perception.answer import PerceptionAnswer, PerceptionEvent
from perception.crops import Crop, widened
from perception.request import Request, regions_of
from perception.scoring import choose
from perception.scoring_several import choose_several
from perception.tool import InvalidCall, ZoomCall
from perception.views import View, close_up

DEMAND = "Do not call the tool again. Answer the question now."
SEED_STEP = 1_000_003
_TAGS = re.compile(r"<think>.*?</think>|</?answer>|<\|[^|<>]*\|>", re.DOTALL)


class ZoomLoop:
    """The state of one call of the zoom loop."""

    def __init__(self, request: Request) -> None:
        """Begin a conversation about the request's image."""
        self.request, self.vlm, self.config = request, request.vlm, request.config
        self.views = [request.view]  # what img_idx counts: the whole image, then every crop
        self.crops: list[Crop] = []
        self.boxes: list[Box] = []  # as called, before widening
        self.stages: list[Stage] = []
        self.notes: list[str] = []
        first = prompts.zoom_messages if self.config.zoom_prompt == "short" else tool.first_turn
        self.messages: list[Message] = first(request.view.image, request.prompt)
        self.invalid = 0  # calls in a row that could not be carried out
        self.demanded = self.config.zoom_turns == 1  # the next turn must answer

    def run(self) -> PerceptionAnswer:
        """Turns until the model answers; it must at the last turn, or once it repeats itself or keeps failing."""
        turn = 0
        while True:
            self.request.check_cancelled(f"after {turn} turns of the zoom loop")
            turn += 1
            if self.demanded and self.request.constraint:
                return self._constrained()
            generation = self._generate("searching", [])
            call = tool.parse_call(generation.texts[0])
            if call is None:
                return self._answered(generation)
            if self.demanded:
                self.notes.append(f"no answer within {turn} turns: the model kept calling the tool")
                return self._free(_plain(generation.texts[0].split("<tool_call>")[0]), generation)
            self.stages.append(generation.stage)
            self.demanded = turn == self.config.zoom_turns - 1
            self._reply(call)

    def _generate(self, stage: str, choices: list[str]) -> Generation:
        """A turn; one that is held to the letters is greedy, as it is with the other methods."""
        config, event = self.config, PerceptionEvent("searching", tuple(self.boxes), tuple(self.crops))
        sampling: dict[str, float] = {}
        if config.zoom_temperature > 0 and not choices:
            seed = (self.request.seed + SEED_STEP * len(self.messages)) % 2**31  # else all turns draw the same numbers
            sampling = {"temperature": config.zoom_temperature, "top_p": config.zoom_top_p, "seed": seed}
        return self.request.generate(
            self.messages,
            stage,
            self.config.max_zoom_tokens,
            choices,
            lambda text: self.request.emit(replace(event, text=text)),
            **sampling,
        )

    def _reply(self, call: ZoomCall | InvalidCall) -> None:
        """Carry out a call, or tell the model why not, and write both into the conversation."""
        result = self._look(call) if isinstance(call, ZoomCall) else call.reason
        if isinstance(result, str):
            self.invalid += 1
            self.notes.append(f"zooming: invalid call: {result}")
            self.demanded |= self.invalid >= self.config.zoom_invalid
            turn = tool.error_turn(call.text, result)
        else:
            self.invalid = 0
            turn = prompts.tool_turn(call.text, result.image)
        if self.demanded:
            turn[-1]["content"].append({"type": "text", "text": f"\n{DEMAND}"})
        self.messages = [*self.messages, *turn]

    def _look(self, call: ZoomCall) -> View | str:
        """The crop that was asked for, or the reason why there is none."""
        if not 0 <= call.image_index < len(self.views):
            return f"img_idx {call.image_index} does not exist; there are images 0 to {len(self.views) - 1}"
        started = time.perf_counter()
        source, image = self.views[call.image_index], self.request.image
        side = self.config.point_side_fraction * min(source.region.width, source.region.height)
        try:
            box = source.decode(call.region, self.vlm, max(side, 1.0))
        except DataError as error:
            return str(error)
        region = widened(box, image.size, replace(self.config, box_expand=self.config.zoom_expand))
        if any(region.iou(crop.box) > self.config.duplicate_iou for crop in self.crops):
            self.demanded = True
            self.notes.append(f"zooming: asked again for {prompts.box_region(region)}")
        view = close_up(image, region, self.config.crop_cap, self.config.crop_shortest)
        self.views.append(view)
        self.boxes.append(box)
        tag = prompts.crop_tag(region.label or "region", self.request.view.encode(region, self.vlm))
        self.crops.append(Crop(region, tag, view.image))
        self.stages.append(Stage("looking", milliseconds=1000 * (time.perf_counter() - started)))
        self.request.emit(PerceptionEvent("looking", regions_of(self.crops), tuple(self.crops)))
        return view

    def _answered(self, generation: Generation) -> PerceptionAnswer:
        """The turn is an answer; with options it must name one, else one more pass is constrained to the letters."""
        text = _plain(generation.texts[0])
        if not self.request.constraint:
            return self._free(text, generation)
        index = choose(text, self.request.options)
        if index is not None:
            return self._finish(self.request.letters[index], generation, index)
        self.notes.append("the answer named no option: chosen by a further pass constrained to the letters")
        self.stages.append(generation.stage)
        return self._constrained()

    def _constrained(self) -> PerceptionAnswer:
        generation = self._generate("answering", self.request.letters)
        return self._finish(generation.texts[0], generation, self.request.letters.index(generation.texts[0]))

    def _free(self, text: str, generation: Generation) -> PerceptionAnswer:
        """A text, or the letters that it names where several options may be right."""
        chosen = choose_several(text, self.request.options) if self.request.several else ()
        return self._finish(text, generation, None, chosen)

    def _finish(
        self, text: str, generation: Generation, choice: int | None, chosen: tuple[int, ...] = ()
    ) -> PerceptionAnswer:
        if not generation.finished[0]:
            self.notes.append(f"answer cut off after {len(generation.token_ids[0])} tokens")
        regions, crops = regions_of(self.crops), tuple(self.crops)
        self.request.emit(PerceptionEvent("answering", regions, crops, text))
        return PerceptionAnswer(
            text,
            regions,
            Ledger((*self.stages, replace(generation.stage, name="answering"))),
            tuple(dict.fromkeys(self.notes)),
            method="zoom",
            regime=self.config.regime,
            choice=choice,
            chosen=chosen,
            log_probs=generation.log_probs[0],
            crops=crops,
            rollouts=(tuple(self.boxes),),
            shown_size=self.request.view.size,
        )


def _plain(text: str) -> str:
    """An answer without tags and special tokens."""
    return _TAGS.sub("", text).strip()
