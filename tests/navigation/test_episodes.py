"""ObjectNav files: Habitat's layouts read, written and read again; every defect named with its file and episode."""

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from navigation.episode_files import read_episodes, to_json, write_episodes
from navigation.episodes import Episode, EpisodeSet, ObjectGoal, unit_xyzw


def goal(category="chair", object_id=7, **more):
    view = {"agent_state": {"position": [1.5, 0.1, -2.25], "rotation": [0, 0.6, 0, 0.8]}, "iou": 0.25}
    blank = {"agent_state": {"position": [1.6, 0.1, -2.25], "rotation": [0, 1, 0, 0]}, "iou": None}
    named = {"object_name": f"{category}_7", "object_name_id": None, "room_id": None, "room_name": None}
    own = {"position": [1.0, 0.5, -3.0], "radius": None, "object_id": object_id, "object_category": category}
    return {**own, **named, "view_points": [view, blank], **more}


def record(i=0, scene="hm3d/val/00800-abc/abc.basis.glb", **more):
    return {
        "episode_id": str(i),
        "scene_id": scene,
        "scene_dataset_config": "./data/hm3d.scene_dataset_config.json",
        "additional_obj_config_paths": [],
        "start_position": [0.1 + i, 0.0, 1 / 3],
        "start_rotation": [0, math.sin(0.3), 0, math.cos(0.3)],
        "info": {"geodesic_distance": 4.5, "euclidean_distance": 4.0, "closest_goal_object_id": 7},
        "goals": [],
        "start_room": None,
        "shortest_paths": None,
        "object_category": "chair",
        **more,
    }


def content(*records, **more):
    goals = {"abc.basis.glb_chair": [goal()], "abc.basis.glb_bed": [goal("bed", "bed_3")]}
    ids = {"chair": 0, "bed": 1}
    return {
        "category_to_task_category_id": ids,
        "category_to_scene_annotation_category_id": {"chair": 3, "bed": 11},
        "goals_by_category": goals,
        "episodes": list(records or [record(0), record(1, object_category="bed")]),
        **more,
    }


def put(path, value, packed=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def test_hm3d_layout_keeps_every_field(tmp_path):
    file = put(tmp_path / "val.json.gz", content())
    episodes = read_episodes(file)
    first = episodes.episodes[0]
    assert (first.category, first.goals_key, first.geodesic_distance) == ("chair", "abc.basis.glb_chair", 4.5)
    assert first.start_rotation_xyzw == (0, math.sin(0.3), 0, math.cos(0.3))  # w last, as in the file
    assert episodes.goals_of(first)[0].view_rotations_xyzw[0].tolist() == [0, 0.6, 0, 0.8]
    assert episodes.view_positions(first).shape == (2, 3)
    assert np.isnan(episodes.goals_of(first)[0].view_ious[1])
    assert to_json(episodes) == content()
    write_episodes(episodes, tmp_path / "again.json.gz")
    assert to_json(read_episodes(tmp_path / "again.json.gz")) == content()
    write_episodes(episodes, tmp_path / "twice.json.gz")
    assert (tmp_path / "twice.json.gz").read_bytes() == (tmp_path / "again.json.gz").read_bytes()
    assert to_json(read_episodes(put(tmp_path / "plain.json", content(), packed=False))) == content()


def test_mp3d_and_ovon_layouts(tmp_path):
    mp3d = content(record(0, "mp3d/abc/abc.glb"))
    mp3d["goals_by_category"] = {"abc.glb_chair": [goal()]}
    mp3d["category_to_mp3d_category_id"] = mp3d.pop("category_to_scene_annotation_category_id")
    assert read_episodes(put(tmp_path / "mp3d.json.gz", mp3d)).scene_ids == {"chair": 3, "bed": 11}
    assert to_json(read_episodes(tmp_path / "mp3d.json.gz")) == mp3d
    ovon = content(record(0, children_object_categories=["armchair", "stool"]))
    ovon["goals_by_category"] = {"abc.basis.glb_chair": [goal(object_id="chair_12", children_object_categories=["x"])]}
    again = read_episodes(put(tmp_path / "ovon.json.gz", ovon))
    assert again.episodes[0].fields["children_object_categories"] == ["armchair", "stool"]
    assert to_json(again) == ovon


def test_oldest_layout_has_goals_in_its_episodes(tmp_path):
    old = content(record(0, goals=[goal()], object_category=None), record(1, goals=[goal()], object_category=None))
    del old["goals_by_category"]
    episodes = read_episodes(put(tmp_path / "old.json.gz", old))
    assert [e.category for e in episodes.episodes] == ["chair", "chair"]
    assert list(episodes.goals) == ["abc.basis.glb_chair"]


def test_split_file_with_content_folder(tmp_path):
    split = content()
    split["episodes"], split["goals_by_category"] = [], {}
    split["content_scenes_path"] = "{data_path}/content/{scene}.json.gz"
    put(tmp_path / "val" / "val.json.gz", split)
    with pytest.raises(DataError, match=r"content folder .*content is missing"):
        read_episodes(tmp_path / "val")
    bare = {key: value for key, value in content().items() if not key.startswith("category_to")}  # tables: the split's
    put(tmp_path / "val" / "content" / "abc.json.gz", bare)
    other = json.loads(json.dumps(content(record(0, "hm3d/val/00801-xyz/xyz.basis.glb"))).replace("abc.", "xyz."))
    put(tmp_path / "val" / "content" / "xyz.json.gz", other)
    assert [e.scene_id[-13:] for e in read_episodes(tmp_path / "val").episodes] == ["abc.basis.glb"] * 2 + [
        "xyz.basis.glb"
    ]
    assert len(read_episodes(tmp_path / "val" / "val.json.gz", scenes=["xyz"]).episodes) == 1
    with pytest.raises(DataError, match="nope"):
        read_episodes(tmp_path / "val", scenes=["nope"])
    both = read_episodes(tmp_path / "val")
    write_episodes(both, tmp_path / "copy" / "copy.json.gz", by_scene=True)
    copied = to_json(read_episodes(tmp_path / "copy"))
    assert copied["episodes"] == to_json(both)["episodes"]
    assert copied["goals_by_category"].keys() == {e.goals_key for e in both.episodes}


def test_scene_paths_stay_in_their_folder(tmp_path):
    def path(scene):
        return Episode.from_json(record(0, scene), "x").scene_path(tmp_path)

    assert path("data/scene_datasets/hm3d/a.glb") == tmp_path / "hm3d/a.glb" == path("hm3d/a.glb")
    for outside in ("../secret.glb", "/etc/passwd", "data/scene_datasets/../../x.glb"):
        with pytest.raises(DataError, match="leads out"):
            path(outside)
    for template in ("/etc/{scene}.json.gz", "{data_path}/../{scene}.json.gz", "{data_path}/content", "{scene.x}"):
        with pytest.raises(DataError, match="content_scenes_path"):
            read_episodes(put(tmp_path / "t.json.gz", content(content_scenes_path=template)))


def test_duplicate_ids_are_refused_or_renumbered(tmp_path):
    file = put(tmp_path / "d.json.gz", content(record(5), record(5)))
    with pytest.raises(DataError, match=r"d\.json\.gz, episode 5: this id occurs twice.*renumber"):
        read_episodes(file)
    assert [e.episode_id for e in read_episodes(file, renumber=True).episodes] == ["0", "1"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"start_rotation": [0, 0, 0, 2]}, "start_rotation.*length 1, this one 2"),
        ({"start_rotation": [0, 0, 1]}, "start_rotation.*expected 4 numbers"),
        ({"start_position": [0, float("nan"), 0]}, "start_position: NaN or infinite"),
        ({"start_position": [0, float("inf"), 0]}, "start_position: NaN or infinite"),
        ({"start_position": [0, True, 0]}, "start_position: expected 3 numbers"),
        ({"start_position": None}, "start_position: expected 3 numbers"),
        ({"info": {"geodesic_distance": float("nan")}}, "geodesic_distance: NaN"),
        ({"shortest_paths": [[{"position": float("inf")}]]}, "NaN or infinite value"),
        ({"info": 3}, "info: expected an object"),
        ({"scene_id": ""}, "scene_id: expected text"),
        ({"object_category": "sofa"}, "no goals under 'abc.basis.glb_sofa'"),
        ({"object_category": 3}, "object_category: expected text"),
        ({"episode_id": None}, "episode_id"),
    ],
)
def test_a_broken_episode_is_named(tmp_path, change, says):
    broken = {**record(4), **change}
    file = put(tmp_path / "b.json.gz", content(record(0), broken))
    with pytest.raises(DataError, match=rf"b\.json\.gz, episode (4|None).*{says}"):
        read_episodes(file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"view_points": []}, "episode 0.*has a view point"),
        ({"view_points": [{"agent_state": {"position": [0, 0, 0], "rotation": [0, 0, 0, 0]}, "iou": 0}]}, "length 1"),
        ({"view_points": [{"agent_state": None, "iou": 0}]}, "view point 0: expected an object"),
        ({"position": [0, 0]}, "goal 0 position: expected 3"),
        ({"object_id": None}, "object_id"),
    ],
)
def test_a_broken_goal_is_named(tmp_path, change, says):
    broken = content(record(0))
    broken["goals_by_category"]["abc.basis.glb_chair"] = [{**goal(), **change}]
    with pytest.raises(DataError, match=rf"g\.json\.gz.*{says}"):
        read_episodes(put(tmp_path / "g.json.gz", broken))


def test_broken_files_are_named(tmp_path):
    whole = gzip.compress(json.dumps(content()).encode())
    cases = {
        "cut.json.gz": whole[: len(whole) // 2],
        "flip.json.gz": whole[:40] + bytes([whole[40] ^ 255]) + whole[41:],
        "text.json.gz": b"hello",
        "deep.json.gz": gzip.compress(b"[" * 200_000),
        "list.json.gz": gzip.compress(b"[]"),
        "none.json.gz": gzip.compress(b"{}"),
        "empty.json.gz": b"",
        "bytes.json.gz": gzip.compress(b"\xff\xfe{"),
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=name.replace(".", r"\.")):
            read_episodes(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        read_episodes(tmp_path / "absent.json.gz")


def test_tables_must_name_the_same_categories(tmp_path):
    with pytest.raises(DataError, match="bed"):
        read_episodes(put(tmp_path / "t.json.gz", content(category_to_task_category_id={"chair": 0})))


finite = st.floats(-1e6, 1e6, allow_nan=False)
words = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def rotations(draw):
    v = np.array([draw(st.floats(-1, 1)) for _ in range(4)])
    norm = float(np.linalg.norm(v))
    return (v / norm).tolist() if norm > 1e-3 else [0.0, 0.0, 0.0, 1.0]


@st.composite
def episode_sets(draw):
    category, scene = draw(words), draw(words) + ".glb"
    count = draw(st.integers(1, 4))
    positions = np.array([[draw(finite) for _ in range(3)] for _ in range(count)])
    turned = np.array([draw(rotations()) for _ in range(count)])
    ious = np.array([draw(st.floats(0, 1)) for _ in range(count)])
    place = tuple(draw(finite) for _ in range(3))
    thing = ObjectGoal(category, draw(st.integers(0, 99) | words), place, positions, turned, ious)
    episodes = tuple(
        Episode(str(i), scene, category, tuple(draw(finite) for _ in range(3)), tuple(draw(rotations())))
        for i in range(draw(st.integers(1, 3)))
    )
    ids = {category: 0}
    return EpisodeSet(episodes, {episodes[0].goals_key: (thing,)}, ids, ids)


@given(episode_sets())
def test_round_trip_of_anything_valid(tmp_path_factory, episodes):
    path = tmp_path_factory.mktemp("round") / "x.json.gz"
    write_episodes(episodes, path)
    again = read_episodes(path)
    assert to_json(again) == {
        **to_json(episodes),
        "goals_by_category": to_json(again)["goals_by_category"],
    }
    mine, theirs = episodes.goals_of(episodes.episodes[0])[0], again.goals_of(again.episodes[0])[0]
    assert (mine.position, mine.object_id, mine.category) == (theirs.position, theirs.object_id, theirs.category)
    for name in ("view_positions", "view_rotations_xyzw", "view_ious"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name))


@given(st.data())
def test_anything_in_any_place_is_read_or_refused_with_a_typed_error(tmp_path_factory, data):
    value = content()
    spots = [(value, key) for key in value] + [(value["episodes"][0], key) for key in value["episodes"][0]]
    things = value["goals_by_category"]
    spots += [(things, key) for key in things] + [(things["abc.basis.glb_chair"][0], k) for k in goal()]
    views = things["abc.basis.glb_chair"][0]["view_points"]
    spots += [(views, 0), (views[0], "agent_state"), (views[0]["agent_state"], "rotation"), (views[0], "iou")]
    holder, key = data.draw(st.sampled_from(spots))
    holder[key] = data.draw(json_values)
    path = put(tmp_path_factory.mktemp("fuzz") / "f.json.gz", value)
    try:
        episodes = read_episodes(path)
    except DataError as error:
        episodes, message = None, str(error)
    if episodes is None:
        assert "f.json.gz" in message
    else:
        write_episodes(episodes, path.with_name("again.json.gz"))


@given(st.lists(st.floats(), min_size=4, max_size=4))
def test_only_unit_rotations_pass(values):
    length = math.hypot(*values) if all(map(math.isfinite, values)) else math.nan
    try:
        assert unit_xyzw(values, "here") == tuple(values)
    except DataError:
        assert not abs(length - 1) <= 1e-3
    else:
        assert abs(length - 1) <= 1e-3
