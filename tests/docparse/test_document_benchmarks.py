"""Loaders on small files in the published layouts, which the tests write."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from backbone.errors import ConfigError, DataError
from docparse.benchmarks import BENCHMARKS, docvqa, load_benchmark, mpdocvqa, slidevqa
from docparse.benchmarks.items import Item, PageFile
from tests.docparse.benchmark_files import picture, write_lines


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")
    return path


# DocVQA


def docvqa_record(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "questionId": number,
        "question": "What is the date?",
        "question_types": ["form", "handwritten"],
        "image": "documents/xnbl0037_1.png",
        "docId": 279,
        "ucsf_document_id": "xnbl0037",
        "ucsf_document_page_no": "1",
        "answers": ["1/8/93", "January 8, 1993"],
        "data_split": "val",
        **changes,
    }


def docvqa_file(folder: Path, records: list[dict[str, Any]], split: str = "val") -> Path:
    whole = {"dataset_name": "SP-DocVQA", "dataset_split": split, "dataset_version": "1.0", "data": records}
    return write(folder / f"{split}_v1.0_withQT.json", whole)


def test_docvqa_gives_answers_one_page_and_no_boxes(tmp_path: Path) -> None:
    docvqa_file(tmp_path, [docvqa_record(337)])
    picture(tmp_path / "documents" / "xnbl0037_1.png", 120, 80, 7)
    benchmark = load_benchmark("docvqa", tmp_path)
    (item,) = benchmark.items
    assert (benchmark.split, benchmark.counts) == ("val", {"expected": 1, "loaded": 1, "skipped": 0})
    assert (item.id, item.answers, item.kind) == (
        "docvqa-337",
        ("1/8/93", "January 8, 1993"),
        "form+handwritten",
    )
    truth = item.truth()
    assert (truth.evidence, truth.pages, truth.sizes) == (None, (0,), {0: (120.0, 80.0)})
    assert item.pages[0].load().array[0, 0].tolist() == [7, 7, 7]


def test_docvqa_finds_pictures_in_the_newer_download(tmp_path: Path) -> None:
    file = docvqa_file(tmp_path / "qas", [docvqa_record(1)])
    picture(tmp_path / "spdocvqa_images" / "xnbl0037_1.png")
    assert len(docvqa.load(file, tmp_path).items) == 1


def test_docvqa_test_split_without_answers_is_refused(tmp_path: Path) -> None:
    records = [docvqa_record(i) for i in (1, 2)]
    for record in records:
        del record["answers"]
    file = docvqa_file(tmp_path, records, "test")
    with pytest.raises(DataError, match=r"split 'test': none of 2 questions has an answer.*train or validation"):
        docvqa.load(file)


def test_docvqa_counts_what_it_leaves_out(tmp_path: Path) -> None:
    records = [docvqa_record(1), docvqa_record(2, image="documents/lost.png"), docvqa_record(3, answers=[])]
    docvqa_file(tmp_path, records)
    picture(tmp_path / "documents" / "xnbl0037_1.png")
    benchmark = load_benchmark("docvqa", tmp_path)
    assert benchmark.counts == {"expected": 3, "loaded": 1, "skipped": 2}
    assert "no picture at" in benchmark.skipped[0]
    assert "no answer" in benchmark.skipped[1]


@pytest.mark.parametrize("content", [[1], {"data": 3}, {"data": [3]}])
def test_other_layouts_are_refused(tmp_path: Path, content: Any) -> None:
    file = write(tmp_path / "val_v1.0.json", content)
    with pytest.raises(DataError, match=r"layout|no object"):
        docvqa.load(file)


# MP-DocVQA


def mp_record(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "questionId": number,
        "question": "Who signed?",
        "doc_id": "fjnp0228",
        "page_ids": ["fjnp0228_p4", "fjnp0228_p5", "fjnp0228_p10"],
        "answers": ["J. Smith"],
        "answer_page_idx": 2,
        "data_split": "val",
        **changes,
    }


def mp_folder(tmp_path: Path, records: list[dict[str, Any]]) -> Path:
    write(tmp_path / "val.json", {"dataset_name": "MP-DocVQA", "dataset_split": "val", "data": records})
    for number, page in enumerate(("p4", "p5", "p10")):
        picture(tmp_path / "images" / f"fjnp0228_{page}.jpg", 100 + number, 50)
    return tmp_path


def test_mpdocvqa_keeps_the_order_of_pages_and_the_page_of_the_answer(tmp_path: Path) -> None:
    (item,) = mpdocvqa.load(mp_folder(tmp_path, [mp_record(1)])).items
    assert [page.size()[0] for page in item.pages] == [100, 101, 102]
    assert item.evidence_pages == (2,)
    assert item.evidence is None


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"answer_page_idx": 3}, "page 4 of a document of 3"),
        ({"answer_page_idx": "2"}, "whole number"),
        ({"page_ids": []}, "no page_ids"),
        ({"page_ids": ["other"], "answer_page_idx": 0}, "no picture"),
    ],
)
def test_mpdocvqa_skips_broken_records_with_their_reason(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    benchmark = mpdocvqa.load(mp_folder(tmp_path, [mp_record(1), mp_record(2, **changes)]))
    assert benchmark.counts == {"expected": 2, "loaded": 1, "skipped": 1}
    with pytest.raises(DataError, match=match):
        raise DataError(benchmark.skipped[0])


# SlideVQA


def slide_folder(tmp_path: Path, slides: int = 12, **changes: Any) -> Path:
    record = {
        "deck_name": "a-deck_95",
        "deck_url": "https://example.org/a-deck",
        "image_urls": [],
        "qa_id": 8,
        "question": "How many offices in 2012?",
        "answer": "54",
        "arithmetic_expression": "None",
        "evidence_pages": [2, 11],
        "reasoning_type": "Multi-Hop",
        "answer_type": "Single-Span",
        **changes,
    }
    write_lines(tmp_path / "annotations" / "qa" / "test.jsonl", [record])
    for number in range(1, slides + 1):
        picture(tmp_path / "images" / "test" / "a-deck_95" / f"a-deck-{number}-1024.jpg", 100 + number, 50)
    return tmp_path


def test_slidevqa_orders_slides_by_number_and_counts_pages_from_0(tmp_path: Path) -> None:
    (item,) = slidevqa.load(slide_folder(tmp_path)).items
    assert [page.size()[0] for page in item.pages] == list(range(101, 113))  # not 1, 10, 11, 12, 2
    assert item.evidence_pages == (1, 10)
    assert (item.answers, item.kind, item.evidence) == (("54",), "Multi-Hop", None)


def test_slidevqa_with_a_missing_slide_is_refused(tmp_path: Path) -> None:
    folder = slide_folder(tmp_path)
    (folder / "images" / "test" / "a-deck_95" / "a-deck-3-1024.jpg").unlink()
    with pytest.raises(DataError, match=r"no usable item of 1.*expected 1 to 11"):
        slidevqa.load(folder)


def test_slidevqa_evidence_beyond_the_deck_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="page 11 of a document of 5"):
        slidevqa.load(slide_folder(tmp_path, slides=5))


# All


def test_a_part_is_a_fair_sample_and_contained_in_a_larger_part(tmp_path: Path) -> None:
    docvqa_file(tmp_path, [docvqa_record(i) for i in range(30)])
    picture(tmp_path / "documents" / "xnbl0037_1.png")
    small, large = (load_benchmark("docvqa", tmp_path, limit=n, seed=4) for n in (5, 12))
    assert {i.id for i in small.items} < {i.id for i in large.items}
    assert [i.id for i in small.items] != [f"docvqa-{i}" for i in range(5)]
    assert small.counts == {"expected": 5, "loaded": 5, "skipped": 0}


def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'slidevqa'"):
        load_benchmark("slidvqa", tmp_path)
    with pytest.raises(ConfigError, match="at least 1"):
        load_benchmark("docvqa", tmp_path, limit=0)


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "real"])  # that one fetches its files
def test_a_place_without_files_is_an_error_of_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError):
        load_benchmark(name, tmp_path)


def test_several_splits_in_a_folder_have_to_be_chosen(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_lines(tmp_path / "annotations" / "qa" / f"{split}.jsonl", [{}])
    with pytest.raises(DataError, match="give one of them as the path"):
        slidevqa.load(tmp_path)


def test_sizes_are_those_of_the_picture_as_it_is_shown(tmp_path: Path) -> None:
    from docparse.benchmarks.files import page_file

    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.fromarray(np.zeros((30, 80, 3), np.uint8)).save(path, exif=exif)
    page = page_file(path)
    assert page.size() == (30, 80) == page.load().size


def test_a_broken_picture_is_a_stated_error(tmp_path: Path) -> None:
    from docparse.benchmarks.files import page_file

    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"broken\.png"):
        page_file(tmp_path / "broken.png").size()


def test_items_check_themselves() -> None:
    page = PageFile(lambda: pytest.fail("decoded"), lambda: (10, 10))
    with pytest.raises(DataError, match="question is empty"):
        Item("a", " ", ("x",), (page,))
    with pytest.raises(DataError, match="no pages"):
        Item("a", "?", ("x",), ())
    with pytest.raises(DataError, match="page 2 of a document of 1"):
        Item("a", "?", ("x",), (page,), ((1, (0.0, 0.0, 1.0, 1.0)),))
    clipped = Item("a", "?", ("x",), (page,), ((0, (-1.0, 0.0, 11.0, 4.0)),)).truth()
    assert clipped.evidence == ((0, (0.0, 0.0, 10.0, 4.0)),)
