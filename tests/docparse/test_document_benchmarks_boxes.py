"""Benchmarks with boxes: BBox-DocVQA and BoundingDocs, in their published layouts."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from backbone.errors import ConfigError, DataError
from docparse.benchmarks import bboxdocvqa, boundingdocs, load_benchmark
from tests.docparse.benchmark_files import picture, png, write_lines

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
