"""The published layouts, in files of a few rows."""

import base64
import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from backbone.errors import ConfigError, DataError
from perception.benchmarks import BENCHMARKS, load_benchmark
from perception.benchmarks.choices import marked_options
from perception.benchmarks.items import shuffled
from perception.benchmarks.tables import read_rows


def encoded(value: int = 200, width: int = 40, height: int = 30) -> bytes:
    return bytes(cv2.imencode(".png", np.full((height, width, 3), value, np.uint8))[1])


def text(value: int = 200) -> str:
    return base64.b64encode(encoded(value)).decode()


def write_vstar(root: Path, count: int = 6, **changes: object) -> Path:
    for kind in ("direct_attributes", "relative_position"):
        (root / kind).mkdir(parents=True)
        for i in range(count):
            record = {
                "target_object": ["mug"],
                "bbox": [[10, 5, 20, 10]],
                "question": f"What is the colour of mug {i}?",
                "options": ["right", "wrong 1", "wrong 2", "wrong 3"],
            }
            (root / kind / f"sa_{i}.json").write_text(json.dumps(record | changes))
            (root / kind / f"sa_{i}.jpg").write_bytes(encoded(i))
    return root


def test_vstar_boxes_are_corners_and_the_right_option_moves(tmp_path: Path) -> None:
    benchmark = load_benchmark("vstar", write_vstar(tmp_path))
    assert len(benchmark.items) == 12
    assert {item.kind for item in benchmark.items} == {"direct_attributes", "relative_position"}
    for item in benchmark.items:
        assert item.options[item.answer] == "right"
        assert item.boxes[0].corners == (10, 5, 30, 15)
        assert item.boxes[0].label == "mug"
    assert len({item.answer for item in benchmark.items}) > 1
    assert benchmark.items[3].load().size == (40, 30)


def test_vstar_order_depends_on_seed_and_item_only(tmp_path: Path) -> None:
    write_vstar(tmp_path)
    all_items = {i.id: i.options for i in load_benchmark("vstar", tmp_path, seed=3).items}
    part = load_benchmark("vstar", tmp_path, seed=3, limit=4)
    assert all(all_items[i.id] == i.options for i in part.items)
    assert {i.id: i.options for i in load_benchmark("vstar", tmp_path, seed=4).items} != all_items


def test_a_limit_is_a_fair_sample_and_grows(tmp_path: Path) -> None:
    write_vstar(tmp_path, 20)
    ids = [[i.id for i in load_benchmark("vstar", tmp_path, limit=n).items] for n in (8, 16)]
    assert ids[1][:8] == ids[0]
    assert len({i.split("/")[0] for i in ids[0]}) == 2  # not the first folder alone


def test_vstar_skips_and_tells_what_is_broken(tmp_path: Path) -> None:
    write_vstar(tmp_path, 2)
    folder = tmp_path / "direct_attributes"
    (folder / "sa_0.jpg").unlink()
    (folder / "sa_1.json").write_text("{not json")
    (tmp_path / "relative_position" / "sa_0.json").write_text(
        json.dumps({"question": "Q?", "options": ["a", "b"], "bbox": [[1, 2, 3]]})
    )
    benchmark = load_benchmark("vstar", tmp_path)
    assert [i.id for i in benchmark.items] == ["vstar-relative_position/sa_1"]
    reasons = " | ".join(benchmark.skipped)
    assert len(benchmark.skipped) == 3
    for part in ("no picture of the same name", "broken JSON", "[x, y, width, height]"):
        assert part in reasons


def test_vstar_other_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="direct_attributes"):
        load_benchmark("vstar", tmp_path)


HR_COLUMNS = ["index", "question", "answer", "category", "A", "B", "C", "D", "cycle_category", "image"]


def write_hrbench(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HR_COLUMNS, dialect="excel-tab", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def hr_row(index: int, **changes: object) -> dict[str, object]:
    options = ["27B", "37B", "27D", "27E"]
    turned = options[index % 4 :] + options[: index % 4]
    row: dict[str, object] = dict(zip("ABCD", turned, strict=True))
    row |= {"index": index, "question": 'What is the\n"number"?', "answer": "ABCD"[turned.index("27B")]}
    return row | {"category": "single", "cycle_category": index % 4, "image": text(index)} | changes


def test_hrbench_keeps_its_option_orders_and_cycles(tmp_path: Path) -> None:
    write_hrbench(tmp_path / "hr_bench_4k.tsv", [hr_row(i) for i in range(4)])
    benchmark = load_benchmark("hrbench-4k", tmp_path)
    assert [i.options[i.answer] for i in benchmark.items] == ["27B"] * 4
    assert [i.answer for i in benchmark.items] == [0, 3, 2, 1]
    assert [i.group for i in benchmark.items] == [f"cycle {c}" for c in range(4)]
    assert benchmark.items[0].question == 'What is the\n"number"?'
    for value, item in enumerate(benchmark.items):  # read back from the right row, after quoted line breaks
        assert int(item.load().resized(None)[0, 0, 0]) == value


def test_hrbench_pointer_cells_lead_to_the_picture(tmp_path: Path) -> None:
    rows = [hr_row(0), hr_row(1, image="0"), hr_row(2, image="3"), hr_row(3), hr_row(4, image="99")]
    items = load_benchmark("hrbench-8k", write_hrbench(tmp_path / "any.tsv", rows)).items
    assert [int(i.load().resized(None)[0, 0, 0]) for i in items[:4]] == [0, 0, 3, 3]
    with pytest.raises(DataError, match="'99'"):
        items[4].load()


def test_a_split_without_answers_is_refused(tmp_path: Path) -> None:
    write_hrbench(tmp_path / "hr_bench_4k.tsv", [hr_row(i, answer="") for i in range(3)])
    with pytest.raises(DataError, match="none of 3 rows has an 'answer'"):
        load_benchmark("hrbench-4k", tmp_path)


@pytest.mark.parametrize(
    "change", [{"answer": "E"}, {"answer": ""}, {"A": "", "B": ""}, {"category": ""}, {"image": ""}]
)
def test_a_bad_row_is_skipped_with_its_place(tmp_path: Path, change: dict[str, object]) -> None:
    write_hrbench(tmp_path / "hr_bench_4k.tsv", [hr_row(0), hr_row(1, **change)])
    benchmark = load_benchmark("hrbench-4k", tmp_path)
    assert len(benchmark.items) == 1
    assert "row 3" in benchmark.skipped[0]


def test_broken_tables_are_typed_errors(tmp_path: Path) -> None:
    table = tmp_path / "hr_bench_4k.tsv"
    table.write_text("index\tquestion\n1\tQ\n")
    with pytest.raises(DataError, match="no column 'image'"):
        load_benchmark("hrbench-4k", table)
    table.write_text("index\timage\n1\n")
    with pytest.raises(DataError, match="1 cells for 2 columns"):
        load_benchmark("hrbench-4k", table)
    table.write_bytes(b"index\timage\n\xff\xfe\t1\n")
    with pytest.raises(DataError, match="UTF-8"):
        load_benchmark("hrbench-4k", table)
    with pytest.raises(DataError, match=r"hr_bench_8k\.tsv"):
        load_benchmark("hrbench-8k", tmp_path)


def test_a_broken_picture_fails_when_it_is_loaded(tmp_path: Path) -> None:
    rows = [hr_row(0, image="x" * 80), hr_row(1, image=base64.b64encode(b"no picture" * 9).decode())]
    items = load_benchmark("hrbench-4k", write_hrbench(tmp_path / "hr.tsv", rows)).items
    for item in items:
        with pytest.raises(DataError):
            item.load()


def xlrs_row(index: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "index": index,
        "question": "What is in the upper left?",
        "multi-choice options": ["(A) Pond", "(B) Road", "(C) Field (dry)", "(D) Dock"],
        "answer": "C",
        "category": "Object properties",
        "l2-category": "Object classification",
        "image": [text(index)],
    }
    return row | changes


def write_xlrs(folder: Path, rows: list[dict[str, object]], part: int = 0) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"XLRS-Bench-lite_part{part}.jsonl").write_text(lines)
    return folder


def test_xlrs_json_lines(tmp_path: Path) -> None:
    for part in (10, 2):
        write_xlrs(tmp_path, [xlrs_row(part)], part)
    items = load_benchmark("xlrs-lite", tmp_path).items
    assert [i.id for i in items] == ["xlrs-lite-2", "xlrs-lite-10"]  # parts in the order of their numbers
    assert items[0].options == ("Pond", "Road", "Field (dry)", "Dock")
    assert items[0].answer == 2
    assert items[0].kind == "Object properties/Object classification"
    assert [int(i.load().resized(None)[0, 0, 0]) for i in items] == [2, 10]


LAND_USE = "Land use classification/Overall Land use classification"


@pytest.mark.parametrize(
    ("answer", "right"), [("ABD", (0, 1, 3)), ("D, B", (1, 3)), ("A C", (0, 2)), ("C", (2,)), ("['A','B']", (0, 1))]
)
@pytest.mark.parametrize(
    "kinds", [{"category": LAND_USE}, dict(zip(("category", "l2-category"), LAND_USE.split("/"), strict=True))]
)
def test_xlrs_overall_land_use_has_several_answers(
    tmp_path: Path, answer: str, right: tuple[int, ...], kinds: dict[str, str]
) -> None:
    rows = [xlrs_row(0), xlrs_row(1, answer=answer, **kinds)]
    single, several = load_benchmark("xlrs-lite", write_xlrs(tmp_path, rows)).items
    assert (single.several, single.answer) == ((), 2)
    assert (several.several, several.answer) == (right, right[0])


@pytest.mark.parametrize("answer", ["AE", "AAB", "Pond"])
def test_xlrs_broken_several_answers_are_skipped_and_told(tmp_path: Path, answer: str) -> None:
    rows = [xlrs_row(0), xlrs_row(1, answer=answer, category=LAND_USE)]
    benchmark = load_benchmark("xlrs-lite", write_xlrs(tmp_path, rows))
    assert len(benchmark.items) == 1
    assert f"answer {answer!r} is not letters A to D" in benchmark.skipped[0]


def test_xlrs_several_answers_and_pictures_are_skipped_and_told(tmp_path: Path) -> None:
    rows = [xlrs_row(0), xlrs_row(1, answer="ABD"), xlrs_row(2, image=[text(), text()])]
    benchmark = load_benchmark("xlrs-lite", write_xlrs(tmp_path, rows))
    assert len(benchmark.items) == 1
    assert "several right options (ABD)" in benchmark.skipped[0]
    assert "2 pictures" in benchmark.skipped[1]


def test_xlrs_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet is read with the optional pyarrow")
    from pyarrow import parquet

    rows = [xlrs_row(i, image=[{"bytes": encoded(i), "path": f"{i}.png"}] * (1 + (i == 1))) for i in range(5)]
    (tmp_path / "data").mkdir()
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "data" / "train-00000.parquet", row_group_size=2)
    benchmark = load_benchmark("xlrs-lite", tmp_path, split="train")
    assert [i.id for i in benchmark.items] == [f"xlrs-lite-{i}" for i in (0, 2, 3, 4)]
    assert "2 pictures" in benchmark.skipped[0]
    assert [int(i.load().resized(None)[0, 0, 0]) for i in benchmark.items] == [0, 2, 3, 4]
    (tmp_path / "data" / "train-00000.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="broken Parquet"):
        load_benchmark("xlrs-lite", tmp_path)


def test_hrbench_parquet_with_base64(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet is read with the optional pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist([hr_row(7)]), tmp_path / "hr_bench_4k.parquet")
    (item,) = load_benchmark("hrbench-4k", tmp_path).items
    assert int(item.load().resized(None)[0, 0, 0]) == 7


@pytest.mark.parametrize(
    "value",
    ["(A) Pond\n(B) Road", "(A)Pond (B) Road", ["A. Pond", "B. Road"], ["Pond", "Road"], " (A) Pond  (B)  Road "],
)
def test_marked_options(value: object) -> None:
    assert marked_options(value, "row 1") == ("Pond", "Road")


@pytest.mark.parametrize("value", ["", "Pond", None, ["(A) Pond"], ["(B) Pond", "(A) Road"], ["x"] * 11])
def test_unreadable_options_are_refused(value: object) -> None:
    with pytest.raises(DataError, match="row 1"):
        marked_options(value, "row 1")


def test_rows_of_an_unknown_or_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ending in"):
        list(read_rows(tmp_path / "a.pkl"))
    with pytest.raises(DataError, match="does not exist"):
        list(read_rows(tmp_path / "a.tsv"))
    (tmp_path / "a.jsonl").write_text('{"image": "x"}\n[1]\n')
    with pytest.raises(DataError, match="line 2"):
        list(read_rows(tmp_path / "a.jsonl"))


def test_registry_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'ministar'"):
        load_benchmark("minstar")
    with pytest.raises(ConfigError, match="path"):
        load_benchmark("vstar")
    with pytest.raises(ConfigError, match="'test' only"):
        load_benchmark("vstar", write_vstar(tmp_path), split="train")
    with pytest.raises(ConfigError, match="train and held_out"):
        load_benchmark("ministar", split="test")
    with pytest.raises(ConfigError, match="at least 1"):
        load_benchmark("ministar", limit=0)
    assert "xlrs-lite" in BENCHMARKS


def test_shuffling_follows_the_right_option() -> None:
    places = set()
    for seed in range(30):
        order, answer = shuffled(("r", "a", "b", "c"), 0, (seed,))
        assert order[answer] == "r"
        assert sorted(order) == ["a", "b", "c", "r"]
        places.add(answer)
    assert places == {0, 1, 2, 3}
