"""Patch fields: pooling and ink against brute force, real conditioning on the question, caches, records, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import ConfigError, DataError, ModelError, UnsupportedError
from backbone.vlm import VLM
from docparse.data import GeneratedConfig, load_document, make_generated, make_records
from docparse.fields.patches import PagePatches, PatchConfig, PatchField, PatchSeer, ink_blocks, reduced, shown
from docparse.flow.grids import Grid, Support, page_grid
from docparse.patch_data import find_patches, load_patches, make_patches, patch_folder, with_patches
from tests.docparse.patch_cases import SEEN, WIDTH, Pretended, field_of
from tests.docparse.reading import LettersEmbedder

SIZES = ((0.75, 1.0), (1.0, 0.5))


def support_of(boxes, pages):
    count = len(pages)
    none = torch.full((count,), -1, dtype=torch.long)
    return Support(Grid(SIZES, 1, 1), torch.tensor(boxes, dtype=torch.float32), torch.tensor(pages), none, none)


def by_force(values, ink, box, extent, fine=240):
    """The mean over the centres of a fine raster inside the box, and whether a block with ink is touched."""
    x0, y0, x1, y1 = (v / e for v, e in zip(box, extent * 2, strict=True))
    xs = x0 + (np.arange(fine) + 0.5) / fine * (x1 - x0)
    ys = y0 + (np.arange(fine) + 0.5) / fine * (y1 - y0)
    rows, columns = values.shape[:2]
    picked = values[np.minimum((ys * rows).astype(int), rows - 1)][
        :, np.minimum((xs * columns).astype(int), columns - 1)
    ]
    height, width = ink.shape
    inked = ink[np.minimum((ys * height).astype(int), height - 1)][:, np.minimum((xs * width).astype(int), width - 1)]
    return picked.mean((0, 1)), inked.any()


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 7))
def test_pooling_is_the_mean_over_the_area_and_ink_any_block_touched(seed, rows, columns):
    field = field_of(seed, 2, rows, columns)
    rng = np.random.default_rng(seed)
    boxes, pages = [], []
    for _ in range(5):
        page = int(rng.integers(2))
        (ax, bx), (ay, by) = (np.sort(rng.random(2)) * side for side in SIZES[page])
        boxes.append([ax, ay, bx + 1e-3, by + 1e-3])
        pages.append(page)
    boxes = np.minimum(boxes, [[*SIZES[p], *SIZES[p]] for p in pages]).astype(np.float32)
    support = support_of(boxes.tolist(), pages)
    pooled, inked = field.pooled(support), field.inked(support)
    assert pooled.shape == (5, WIDTH + 1)
    assert (pooled[:, -1] == 1).all()
    for i, page in enumerate(pages):
        mean, touched = by_force(field.pages[page].values, field.pages[page].ink, boxes[i].astype(float), SIZES[page])
        np.testing.assert_allclose(pooled[i, :-1], mean, atol=0.12)  # of the raster's edges
        if touched:  # a raster may step over a sliver of a block, never the other way round
            assert bool(inked[i])


def test_a_particle_on_patch_borders_pools_exactly_those_patches():
    field = field_of(3, 1, 4, 3)
    values = torch.from_numpy(field.pages[0].values)
    grid = page_grid([SIZES[0]], 4)  # 3 x 4 cells on this page: one patch each
    assert torch.allclose(field.pooled(grid)[:, :-1], values.reshape(12, -1), atol=1e-6)
    whole = page_grid([SIZES[0]], 1)
    assert torch.allclose(field.pooled(whole)[0, :-1], values.mean((0, 1)), atol=1e-6)
    tiny = support_of([[0.3, 0.6, 0.3000001, 0.6000001]], [0])
    assert torch.allclose(field.pooled(tiny)[0, :-1], values[2, 1], atol=1e-4)


def test_pages_not_seen_pool_to_zeros_and_have_no_ink():
    field = PatchField({1: field_of(0).pages[0]}, WIDTH)
    support = support_of([[0, 0, 0.7, 0.9], [0, 0, 0.9, 0.4]], [0, 1])
    assert (field.pooled(support)[0] == 0).all()
    assert field.pooled(support)[1, -1] == 1
    assert field.inked(support).tolist() == [False, True]


def test_ink_inside_words_is_taken_out_and_boxes_shrink_to_what_is_left():
    ink = np.zeros((20, 15), bool)
    ink[2:4, 2:8] = True  # a word
    ink[10:14, 5:9] = True  # a picture
    field = PatchField({0: PagePatches(np.zeros((2, 2, WIDTH), np.float32), ink)}, WIDTH)
    unit = 1 / 20
    words = np.array([[2 * unit, 2 * unit, 8 * unit, 4 * unit]])
    bare = field.without(words, np.array([0]), [SIZES[0]])
    assert bare.pages[0].ink.sum() == 16
    assert field.pages[0].ink.sum() == 28
    assert bare.tight(0, (0, 0, 0.75, 1.0), SIZES[0]) == pytest.approx((5 * unit, 10 * unit, 9 * unit, 14 * unit))
    assert bare.tight(0, (0, 0, 0.2, 0.2), SIZES[0]) == (0, 0, 0.2, 0.2)  # no ink in it
    assert bare.tight(3, (0, 0, 0.2, 0.2), SIZES[0]) == (0, 0, 0.2, 0.2)  # not seen


def test_ink_is_found_on_paper_of_any_tint_and_size():
    for tint in (255, 225):
        page = np.full((400, 300, 3), tint, np.uint8)
        page[100:140, 60:120] = 30
        ink = ink_blocks(page)
        assert ink.shape == (100, 75)
        assert ink[26:34, 16:29].all()
        assert not ink[40:].any()
    assert not ink_blocks(np.full((64, 64, 3), 255, np.uint8)).any()


def test_reduced_states_keep_distances_and_have_one_width():
    states = torch.randn(4, 3, 512, generator=torch.Generator().manual_seed(0)) * 30 + 5
    small = reduced(states, 256)
    assert small.shape == (4, 3, 256)
    full = torch.nn.functional.layer_norm(states, (512,)).reshape(12, -1)
    ratio = torch.pdist(small.reshape(12, -1)) / torch.pdist(full) * 2**0.5
    assert 0.8 < float(ratio.min()) <= float(ratio.max()) < 1.25
    assert torch.equal(reduced(states, 256), small)
    padded = reduced(states[..., :10], 16)
    assert padded.shape == (4, 3, 16)
    assert (padded[..., 10:] == 0).all()


def test_pages_are_made_smaller_and_never_larger():
    assert shown(np.zeros((1000, 500, 3), np.uint8), 200).shape == (200, 100, 3)
    assert shown(np.zeros((100, 50, 3), np.uint8), 200).shape == (100, 50, 3)


# backbones -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen2_5_vl"])
def tiny(request, tiny_vlm_dir) -> VLM:
    return VLM.load(str(tiny_vlm_dir(request.param)))


def page_picture(seed: int = 0) -> np.ndarray:
    page = np.full((200, 150, 3), 250, np.uint8)
    rng = np.random.default_rng(seed)
    page[60:120, 30:90] = rng.integers(0, 200, (60, 60, 3))
    return page


def test_another_question_gives_another_field_and_the_same_one_the_same(tiny):
    seer = PatchSeer(tiny, PatchConfig(backbone=tiny.name, longest=160))
    first = seer.look(page_picture(), "Where is the signature?")
    other = seer.look(page_picture(), "What is the total of the invoice?")
    again = seer.look(page_picture(), "Where is the signature?")  # what the vision tower made is kept by now
    assert first.values.shape == other.values.shape == (*first.values.shape[:2], 160)
    assert np.abs(first.values - other.values).max() > 0.05
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.ink, other.ink)
    tiny.forget()
    np.testing.assert_allclose(seer.look(page_picture(), "Where is the signature?").values, first.values, atol=1e-5)


def test_other_weights_than_those_trained_on_are_refused():
    seer = PatchSeer(Pretended(print_="a"), PatchConfig(backbone="pretended"))
    assert seer.config.fingerprint == "a"
    PatchSeer(Pretended(print_="a"), seer.config)
    with pytest.raises(ModelError, match=r"fingerprint a, .* has b"):
        PatchSeer(Pretended(print_="b"), seer.config)


def test_a_server_is_refused_with_a_typed_error():
    class Server(Pretended):
        fingerprint = VLM.fingerprint
        image_states = VLM.image_states

    with pytest.raises(UnsupportedError, match="local"):
        PatchSeer(Server(), PatchConfig(backbone="http://host/v1#model"))
    with pytest.raises(UnsupportedError, match="hidden states"):
        Server().image_states([])


def test_sessions_keep_by_page_and_question_and_do_not_meet():
    backbone = Pretended()
    seer = PatchSeer(backbone, SEEN)
    one, two = seer.session(), seer.session()
    pictures = page_picture(0), page_picture(1)
    alone = [[seer.look(p, q).values for q in ("What?", "Where?")] for p in pictures]
    before = backbone.calls
    for _ in range(2):
        for number, question in enumerate(("What?", "Where?")):
            np.testing.assert_array_equal(one.look(0, pictures[0], question).values, alone[0][number])
            np.testing.assert_array_equal(two.look(0, pictures[1], question).values, alone[1][number])
    assert backbone.calls == before + 4
    assert one.known(0, "What?")
    assert not one.known(1, "What?")


@pytest.mark.parametrize("changes", [{"longest": 8}, {"width": 0}, {"pages": 0}, {"backbone": ""}])
def test_impossible_settings_are_refused(changes):
    with pytest.raises(ConfigError, match="patches"):
        PatchConfig(**changes)


# records -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> GeneratedConfig:
    config = GeneratedConfig(tmp_path_factory.mktemp("records"), "train", 3, 1, sights=True)
    assert len([*make_records(config, LettersEmbedder())]) == 1
    assert len([*make_patches(config, PatchSeer(Pretended(), replace(SEEN, longest=512)))]) == 1
    return config


def test_records_hold_what_looking_again_gives(records):
    config = find_patches(records.output, "pretended")
    assert config == replace(SEEN, longest=512)
    [record] = records.output.glob("*.npz")
    examples = with_patches(load_document(record), records.output, config)
    document, seer = make_generated(records, 3, render=True), PatchSeer(Pretended(), config)
    for example, question in zip(examples, document.questions, strict=True):
        assert sorted(example.patches.pages) == list(range(min(len(document.pages), config.pages)))
        for page, got in example.patches.pages.items():
            wanted = seer.look(document.pages[page].image, question.text)
            np.testing.assert_allclose(got.values, wanted.values, atol=2e-3)  # float16
            np.testing.assert_array_equal(got.ink, wanted.ink)


def test_making_records_again_computes_nothing(records):
    backbone = Pretended()
    assert len([*make_patches(records, PatchSeer(backbone, replace(SEEN, longest=512)))]) == 1
    assert backbone.calls == 0


def test_a_folder_begun_with_other_weights_is_refused(records):
    seer = PatchSeer(Pretended(print_="others"), PatchConfig("pretended", 512, width=WIDTH))
    with pytest.raises(DataError, match="begun with"):
        list(make_patches(records, seer))


def test_faults_of_patch_records_are_told(records, tmp_path: Path):
    with pytest.raises(DataError, match=r"no patch fields of the backbone other .*pretended"):
        find_patches(records.output, "other")
    config = find_patches(records.output, "pretended")
    [record] = records.output.glob("*.npz")
    with pytest.raises(DataError, match="question 99"):
        load_patches(patch_folder(records.output, config) / record.name, 99)
    with pytest.raises(DataError, match="holds no patch fields"):
        load_patches(tmp_path / "none.npz", 0)
    with pytest.raises(DataError, match="the reader sees"):
        with_patches(load_document(record), records.output, replace(config, fingerprint="others"))
    broken = patch_folder(tmp_path, config)
    broken.mkdir(parents=True)
    (broken / "about.json").write_text(json.dumps({"version": 99, "config": {}}))
    with pytest.raises(DataError, match="version 99"):
        find_patches(tmp_path, "pretended")
