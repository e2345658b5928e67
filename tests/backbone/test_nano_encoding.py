"""A packed row trains each conversation on exactly what the model sees when it stands alone."""

import numpy as np
import pytest
import torch
from PIL import Image as Pictures

from backbone.curriculum.sample import Sample, ask, box_pieces, reply
from backbone.curriculum.shapes import shapes
from backbone.errors import DataError
from backbone.nano.build import build_model, build_processor
from backbone.nano.config import VOCABULARY, Guidance, NanoConfig
from backbone.nano.encode import IGNORE, Encoder, central_cell, render
from backbone.nano.losses import NanoTraining, dense_targets
from backbone.tokenizer import build_tokenizer

CONFIG = NanoConfig(text_width=64, text_layers=4, text_feed_forward=96, vision_width=80, vision_layers=4)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return Encoder(tokenizer, CONFIG)


def for_processor(messages):
    """The same conversation with PIL pictures and without focus marks."""
    turns = []
    for message in messages:
        parts = []
        for part in message["content"]:
            if part["type"] == "image":
                parts.append({"type": "image", "image": Pictures.fromarray(part["image"])})
            else:
                parts.append({"type": "text", "text": part["text"]})
        turns.append({"role": message["role"], "content": parts})
    return turns


def two_picture_sample(rng):
    sample = shapes(rng, (192, 224))
    crop = np.ascontiguousarray(sample.image[:192, :192])
    first = sample.conversations[0]
    extra = {"role": "user", "content": [{"type": "image", "image": crop}, {"type": "text", "text": "And here?"}]}
    return Sample(sample.image, (*sample.conversations[:4], (*first, extra, reply("blue", " star"))), sample.things)


def test_tokens_pixels_and_positions_equal_the_processors(encoder, tokenizer):
    sample = two_picture_sample(np.random.default_rng(3))
    processor, model = build_processor(CONFIG, tokenizer), build_model(CONFIG)
    for conversation in sample.conversations:
        made = encoder.conversation(conversation)
        want = processor.apply_chat_template(
            [for_processor(conversation)], tokenize=True, return_dict=True, return_tensors="pt"
        )
        length = len(made.ids)
        assert want["input_ids"][0, :length].tolist() == made.ids.tolist()
        assert want["input_ids"].shape[1] == length  # without a generation prompt the last line feed is stripped
        pixels = np.concatenate([encoder.patches(i) for i in made.images])
        assert np.allclose(want["pixel_values"].numpy(), pixels, atol=1e-5)
        positions, _ = model.model.get_rope_index(
            want["input_ids"], mm_token_type_ids=want["mm_token_type_ids"], image_grid_thw=want["image_grid_thw"]
        )
        assert positions[:, 0, :length].tolist() == made.positions.tolist()


def test_loss_of_a_packed_row_equals_that_of_its_conversations_alone(encoder, tokenizer):
    samples = [two_picture_sample(np.random.default_rng(i)) for i in range(2)]
    model, processor = build_model(CONFIG, seed=1), build_processor(CONFIG, tokenizer)
    training = NanoTraining(model, CONFIG, Guidance(dense=0.0))
    with torch.no_grad():
        _, parts = training(encoder.batch(samples))
        total, count = 0.0, 0
        for conversation in (c for s in samples for c in s.conversations):
            made = encoder.conversation(conversation)
            inputs = processor.apply_chat_template(
                [for_processor(conversation)], tokenize=True, return_dict=True, return_tensors="pt"
            )
            at = torch.nonzero(torch.from_numpy(made.target))[:, 0]
            logits = model(**inputs).logits[0, at - 1]
            total += float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(made.ids)[at], reduction="sum"))
            count += len(at)
    assert float(parts["answer"]) == pytest.approx(total / count, rel=1e-5)


def test_a_conversation_does_not_see_its_neighbours(encoder):
    sample = two_picture_sample(np.random.default_rng(5))
    training = NanoTraining(build_model(CONFIG, seed=2), CONFIG, Guidance(dense=0.0, attention=0.0))

    def loss_and_count(*conversations):
        batch = encoder.batch([Sample(sample.image, conversations, sample.things)])
        with torch.no_grad():
            return training(batch)[1]["answer"], (batch.labels != IGNORE).sum()

    loss_alone, n_alone = loss_and_count(sample.conversations[0])
    other = ask(sample.image, "What is at [1, 2, 3, 4]?", "a pink cross that is wrong")
    other_alone, n_other = loss_and_count(other)
    both, n_both = loss_and_count(sample.conversations[0], other)
    assert n_both == n_alone + n_other
    assert float(both * n_both) == pytest.approx(float(loss_alone * n_alone + other_alone * n_other), rel=1e-5)


def test_only_assistant_text_is_learned(encoder, tokenizer):
    image = np.zeros((64, 64, 3), np.uint8)
    made = encoder.conversation(ask(image, "What is it?", "red", " circle"))
    assert tokenizer.decode(made.ids[made.target]) == "red circle<|im_end|>"


def test_focus_marks_the_numbers_of_a_box(encoder, tokenizer):
    image = np.zeros((256, 256, 3), np.uint8)
    made = encoder.conversation(ask(image, "Locate it.", *box_pieces([((64, 64, 96, 96), "red circle")], (256, 256))))
    marked = tokenizer.decode([made.ids[i] for i, _ in made.focus])
    assert marked.replace(" ", "") == "250,250,375,375"
    batch = encoder.batch([Sample(image, (ask(image, "Locate it.", ("9", (64, 64, 96, 96))),))])
    at, cells = batch.focus_at[:, 0].tolist(), batch.focus_cells[0]
    place = batch.mask.shape[3] - batch.mask.shape[2] + at[1] * batch.mask.shape[2] + at[2]
    assert tokenizer.decode([int(batch.labels[at[0], place])]) == "9"
    assert int(cells.sum()) == 1
    picture_start = int(torch.nonzero(batch.visual[0])[0])
    assert int(torch.nonzero(cells)[0]) - picture_start == 2 * 8 + 2  # row 2, column 2 of an 8 x 8 grid


def test_central_cell_is_the_token_under_the_centre():
    assert central_cell((0, 0, 64, 32), (4, 4), 32) == 1
    assert central_cell((31, 31, 34, 34), (4, 4), 32) == 5
    assert central_cell((120, 120, 140, 140), (4, 4), 32) == 15  # clipped to the picture


def test_dense_targets_name_the_thing_at_its_centre_only():
    sample = shapes(np.random.default_rng(0), (256, 256))
    colour, shape, _, box = dense_targets(sample, CONFIG)
    assert colour.shape == (64,)
    assert ((colour > 0) == (shape > 0)).all()
    assert 0 < (colour > 0).sum() <= len(sample.things)
    biggest = max(sample.things, key=lambda t: t.area)
    cell = int(biggest.centre[1] // 32) * 8 + int(biggest.centre[0] // 32)
    assert np.allclose(box[cell] * 256, biggest.box, atol=1e-2)


def test_samples_that_hide_their_picture_or_target_are_refused():
    image = np.zeros((64, 64, 3), np.uint8)
    with pytest.raises(DataError, match="begin with a user turn"):
        Sample(image, (ask(image.copy(), "What?", "red"),))
    with pytest.raises(DataError, match="end with an assistant turn"):
        Sample(image, (ask(image, "What?", "red")[:1],))
    with pytest.raises(DataError, match="multiples of 32"):
        Encoder(build_tokenizer(VOCABULARY), CONFIG).conversation(ask(np.zeros((60, 64, 3), np.uint8), "What?", "red"))


def test_rendering_marks_every_assistant_turn():
    image = np.zeros((64, 64, 3), np.uint8)
    messages = (*ask(image, "One?", "a"), *ask(image, "Two?", "b"))
    text, images, targets, _ = render(messages)
    assert len(images) == 2
    assert [text[a:b] for a, b in targets] == ["a<|im_end|>", "b<|im_end|>"]
