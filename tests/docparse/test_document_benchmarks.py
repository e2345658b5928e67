"""Loaders on small files in the published layouts, which the tests write."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from backbone.errors import ConfigError, DataError
from docparse.benchmarks import BENCHMARKS, bboxdocvqa, boundingdocs, docvqa, load_benchmark, mpdocvqa, slidevqa
from docparse.benchmarks.items import Item, PageFile


def picture(path: Path, width: int = 200, height: int = 100, value: int = 255) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(path)
    return path


def png(width: int, height: int, value: int = 255) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), value, np.uint8)).save(out, "PNG")
    return out.getvalue()


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")
    return path


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
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


# BBox-DocVQA


def bbox_folder(tmp_path: Path, **changes: Any) -> Path:
    record = {
        "query": "Which letter has two arrows?",
        "answer": "D",
        "doc_name": "2311.07631",
        "evidence_page": [4],
        "bbox": [[[20, 30, 120, 60], [10, 70, 60, 90]]],
        "rel_bbox": [[[100.0, 300.0, 600.0, 600.0], [50.0, 700.0, 300.0, 900.0]]],
        "subimg_type": [["image", "text"]],
        "category": "cs",
        **changes,
    }
    write_lines(tmp_path / "SciEGQA-Bench.jsonl", [{k: v for k, v in record.items() if v is not None}])
    for number in (2, 4, 10):
        picture(tmp_path / "Images" / "cs" / "2311.07631" / f"2311.07631_{number}.png", 200, 100)
    return tmp_path


def test_bboxdocvqa_boxes_are_pixels_of_the_evidence_page(tmp_path: Path) -> None:
    (item,) = load_benchmark("bboxdocvqa", bbox_folder(tmp_path)).items
    assert item.truth().evidence == ((0, (20.0, 30.0, 120.0, 60.0)), (0, (10.0, 70.0, 60.0, 90.0)))
    assert (len(item.pages), item.kind, item.document) == (1, "image+text", "2311.07631")


def test_bboxdocvqa_on_the_whole_document_numbers_pages_in_it(tmp_path: Path) -> None:
    (item,) = bboxdocvqa.load(bbox_folder(tmp_path), "document").items
    assert [Path(page.name).stem for page in item.pages] == ["2311.07631_2", "2311.07631_4", "2311.07631_10"]
    assert {page for page, _ in item.truth().evidence or ()} == {1}


def test_bboxdocvqa_in_the_older_release_has_paths_and_two_pages(tmp_path: Path) -> None:
    record = {
        "question": "?x",
        "answer": "y",
        "doc_name": "d",
        "category": "cs",
        "evidence_page": [1, 2],
        "images": ["cs/d/d_1.png", "cs/d/d_2.png"],
        "bbox": [[[0, 0, 10, 10]], [[5, 5, 20, 20]]],
        "subimg_type": ["text", "table"],
    }
    write_lines(tmp_path / "BBox_DocVQA_Bench.jsonl", [record])
    for number in (1, 2):
        picture(tmp_path / "cs" / "d" / f"d_{number}.png")
    (item,) = bboxdocvqa.load(tmp_path).items
    assert item.evidence == ((0, (0.0, 0.0, 10.0, 10.0)), (1, (5.0, 5.0, 20.0, 20.0)))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"rel_bbox": [[[1.0, 3.0, 6.0, 6.0], [1.0, 7.0, 3.0, 9.0]]]}, "not of the published size"),
        ({"bbox": [[20, 30, 120, 60]], "evidence_page": [2, 4], "rel_bbox": None}, "whose is not said"),
        ({"bbox": [[[20, 30, 120, 60]], [[0, 0, 9, 9]]], "rel_bbox": None}, "boxes of 2 pages, evidence_page names 1"),
        ({"bbox": [[[120, 30, 20, 60]]], "rel_bbox": None}, "x0 < x1"),
        ({"bbox": [[["a", 30, 20, 60]]], "rel_bbox": None}, "four numbers"),
        ({"evidence_page": [5], "rel_bbox": None}, "no picture"),
    ],
)
def test_bboxdocvqa_refuses_what_cannot_be_told(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        bboxdocvqa.load(bbox_folder(tmp_path, **changes))


def test_a_box_beyond_the_picture_says_that_the_unit_is_another(tmp_path: Path) -> None:
    (item,) = bboxdocvqa.load(bbox_folder(tmp_path, bbox=[[[20, 30, 900, 600]]], rel_bbox=None)).items
    with pytest.raises(DataError, match=r"leaves the picture of 200 x 100 pixels.*unit is another"):
        item.truth()


# BoundingDocs


def textract(*words: tuple[str, float, float, float, float]) -> str:
    """Words with left, top, width, height from 0 to 1."""
    blocks = [
        {
            "BlockType": "WORD",
            "Text": text,
            "Geometry": {"BoundingBox": {"Left": x, "Top": y, "Width": w, "Height": h}},
        }
        for text, x, y, w, h in words
    ]
    return json.dumps({"Blocks": [{"BlockType": "PAGE"}, *blocks]})


def bounding_question(location: Any = None, page: int = 2, **changes: Any) -> dict[str, Any]:
    answer = {"value": "$576,405.00", "location": location or [[90, 11, 364, 768]], "page": page}
    return {
        "question": "What is the Gross Amount?",
        "answers": [answer],
        "rephrased_question": "What is the value of the Gross Amount?",
        **changes,
    }


def bounding_folder(
    tmp_path: Path, questions: Any, ocr: tuple[str, ...] = ("", ""), name: str = "test-00000-of-00001.parquet"
) -> Path:
    page = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pages = [{"bytes": png(500, 1000, 9), "path": None}, {"bytes": png(1000, 2000, 5), "path": "p2.jpg"}]
    table = pa.table(
        {
            "source": ["Deepform", "FUNSD"],
            "doc_id": ["d1", "d2"],
            "doc_images": pa.array([pages, pages[:1]], pa.list_(page)),
            "doc_ocr": [list(ocr), [""]],
            "Q&A": [json.dumps(questions), json.dumps([bounding_question(page=1)])],
        }
    )
    (tmp_path / "data").mkdir(exist_ok=True)
    parquet.write_table(table, tmp_path / "data" / name)
    return tmp_path


def test_boundingdocs_reads_width_height_x_y_in_thousandths_from_the_top(tmp_path: Path) -> None:
    benchmark = load_benchmark("boundingdocs", bounding_folder(tmp_path, [bounding_question()]))
    assert benchmark.counts == {"expected": 2, "loaded": 2, "skipped": 0}
    item = benchmark.items[0]
    assert item.question == "What is the value of the Gross Amount?"
    assert item.truth().evidence == ((1, pytest.approx((364.0, 1536.0, 454.0, 1558.0))),)
    assert item.pages[1].load().array.shape == (2000, 1000, 3)
    assert item.pages[1].load().array[0, 0, 0] == 5
    assert benchmark.items[1].pages[0].load().array[0, 0, 0] == 9
    assert (item.kind, item.document, item.answers) == ("Deepform", "d1", ("$576,405.00",))


def test_boundingdocs_release_2_has_an_object_of_questions(tmp_path: Path) -> None:
    folder = bounding_folder(tmp_path, {"0": bounding_question(), "1": bounding_question(rephrased_question=None)})
    benchmark = boundingdocs.load(folder, question="template")
    assert [item.question for item in benchmark.items[:2]] == ["What is the Gross Amount?"] * 2


def test_boundingdocs_words_are_one_box_as_the_authors_score_them_or_kept_apart(tmp_path: Path) -> None:
    folder = bounding_folder(tmp_path, [bounding_question([[90, 11, 364, 768], [20, 11, 460, 770]])])
    assert boundingdocs.load(folder).items[0].evidence == ((1, (364.0, 768.0, 480.0, 781.0)),)
    apart = boundingdocs.load(folder, boxes="words").items[0].evidence
    assert apart == ((1, (364.0, 768.0, 454.0, 779.0)), (1, (460.0, 770.0, 480.0, 781.0)))


def test_boundingdocs_evidence_is_the_first_answer_or_all_of_them(tmp_path: Path) -> None:
    question = bounding_question()
    question["answers"].append({"value": "576,405", "location": [[10, 10, 100, 100]], "page": 1})
    folder = bounding_folder(tmp_path, [question])
    first, every = (boundingdocs.load(folder, answers=which).items[0] for which in ("first", "all"))  # type: ignore[arg-type]
    assert first.answers == every.answers == ("$576,405.00", "576,405")
    assert [page for page, _ in first.evidence or ()] == [1]
    assert [page for page, _ in every.evidence or ()] == [1, 0]


def test_boundingdocs_without_answers_is_refused(tmp_path: Path) -> None:
    folder = bounding_folder(tmp_path, [bounding_question(answers=[])])
    with pytest.raises(DataError, match="Q&A must be a list"):
        boundingdocs.load(bounding_folder(tmp_path, "none"))
    table = parquet.read_table(folder / "data" / "test-00000-of-00001.parquet")
    bare = pa.array([json.dumps([bounding_question(answers=[])])] * 2)
    table = table.set_column(table.schema.get_field_index("Q&A"), "Q&A", bare)
    parquet.write_table(table, folder / "data" / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="none of 2 questions has an answer"):
        boundingdocs.load(folder)


def test_boundingdocs_agrees_with_the_words_of_its_ocr(tmp_path: Path) -> None:
    here = textract(("$576,405.00", 0.364, 0.768, 0.09, 0.011), ("Gross", 0.1, 0.768, 0.09, 0.011))
    assert boundingdocs.load(bounding_folder(tmp_path, [bounding_question()], ("", here))).counts["skipped"] == 0


def test_boundingdocs_skips_a_question_whose_ocr_says_that_y_is_the_bottom(tmp_path: Path) -> None:
    above = textract(("$576,405.00", 0.364, 0.757, 0.09, 0.011))
    folder = bounding_folder(tmp_path, [bounding_question()], ("", above))
    benchmark = boundingdocs.load(folder)
    assert benchmark.counts == {"expected": 2, "loaded": 1, "skipped": 1}
    assert "the unit cannot be told" in benchmark.skipped[0]
    assert boundingdocs.load(folder, check=False).counts["skipped"] == 0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"location": [[90, 11, 364, 1768]]}, "its unit cannot be told"),  # pixels
        ({"location": [[0, 11, 364, 768]]}, "its unit cannot be told"),
        ({"location": [[1, 2, 3]]}, "four numbers"),
        ({"page": 3}, "page must be 1 to 2"),
        ({"page": 0}, "page must be 1 to 2"),
    ],
)
def test_boundingdocs_skips_what_cannot_be_told(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    benchmark = boundingdocs.load(bounding_folder(tmp_path, [bounding_question(**changes)]))
    assert benchmark.counts["skipped"] == 1
    assert match in benchmark.skipped[0]


def test_boundingdocs_without_its_columns_or_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no BoundingDocs files test-\*\.parquet"):
        boundingdocs.load(tmp_path)
    parquet.write_table(pa.table({"source": ["a"]}), tmp_path / "test-0.parquet")
    with pytest.raises(DataError, match="no column 'doc_id'"):
        boundingdocs.load(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="broken Parquet"):
        boundingdocs.load(tmp_path / "broken.parquet")
    with pytest.raises(ConfigError, match="rephrased"):
        boundingdocs.load(tmp_path, question="both")  # type: ignore[arg-type]


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
