"""Reading and writing ObjectNav json.gz files: one file, or a split file with a content file for every scene."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from navigation.episodes import Episode, EpisodeSet, ObjectGoal, rest

CONTENT_FIELD = "content_scenes_path"
CONTENT_TEMPLATE = "{data_path}/content/{scene}.json.gz"
TASK_IDS = "category_to_task_category_id"
SCENE_IDS = ("category_to_scene_annotation_category_id", "category_to_mp3d_category_id")  # HM3D's and OVON's; MP3D's
MAX_JSON_BYTES = 4 << 30  # unpacked; the largest published content file is far smaller


def read_episodes(path: Path, *, scenes: Sequence[str] | None = None, renumber: bool = False) -> EpisodeSet:
    """The episodes of an ObjectNav file, unpacked or gzipped, or of a split file with its content folder.

    Args:
        path: ``.../val/val.json.gz``, a content file, or the folder ``.../val`` itself.
        scenes: names of content files (without endings) to read; all of them by default. A missing one is an error.
        renumber: number the episodes of every file by their place in it, as habitat-lab always does.

    Raises:
        DataError: file and episode, and what is wrong with it: broken gzip or JSON, ids that occur twice, no goals,
            a rotation that is none, NaN.
    """
    path = path / f"{path.name}.json.gz" if path.is_dir() else path
    top = _load(path)
    files = _content_files(path, top, scenes)
    if files is None:
        if scenes is not None:
            raise DataError(f"{path}: has no content folder, so scenes {list(scenes)} cannot be chosen")
        return _parse(top, path, renumber)
    inherited = {key: top[key] for key in (TASK_IDS, *SCENE_IDS) if key in top}
    parts = [_parse({**inherited, **_load(file)}, file, renumber) for file in files]
    return _merge(parts, path)


def write_episodes(episodes: EpisodeSet, path: Path, *, by_scene: bool = False) -> None:
    """Write ``path`` (``.json.gz``); ``by_scene`` puts the episodes into ``content/SCENE.json.gz`` beside it.

    Equal sets give equal bytes. Each file is replaced as a whole, never left half written.
    """
    if by_scene:
        scenes = sorted({episode.scene_id for episode in episodes.episodes})
        names = [_scene_name(scene) for scene in scenes]
        if len(set(names)) != len(names):
            raise DataError(f"{path}: two scenes have the same file name, so their content files would collide")
        for scene, name in zip(scenes, names, strict=True):
            own = tuple(e for e in episodes.episodes if e.scene_id == scene)
            keys = {e.goals_key for e in own}
            goals = {key: value for key, value in episodes.goals.items() if key in keys}
            part = replace(episodes, episodes=own, goals=goals, fields={})
            _write(part, path.parent / "content" / f"{name}.json.gz")
        episodes = replace(episodes, episodes=(), goals={})
    _write(episodes, path)


def to_json(episodes: EpisodeSet) -> dict[str, Any]:
    """The file's content as JSON values."""
    return {
        **episodes.fields,
        TASK_IDS: dict(episodes.task_ids),
        episodes.scene_ids_field: dict(episodes.scene_ids),
        "goals_by_category": {key: [g.to_json() for g in value] for key, value in episodes.goals.items()},
        "episodes": [episode.to_json() for episode in episodes.episodes],
    }


def _load(path: Path) -> dict[str, Any]:
    """A file's JSON object. NaN and infinity are read as such, so that the check can name their episode."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            data = stream.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise DataError(f"{path}: unpacks to more than {MAX_JSON_BYTES >> 30} GiB; this is no episode file")
        content = json.loads(data)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; expected an ObjectNav .json.gz or a folder holding one") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read or unpacked ({error}); copy or download it again") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no valid JSON ({error})") from error
    if not isinstance(content, dict) or not isinstance(content.get("episodes"), list):
        raise DataError(f"{path}: expected an object with a list of episodes; is this an ObjectNav file?")
    return content


def _content_files(path: Path, top: Mapping[str, Any], scenes: Sequence[str] | None) -> list[Path] | None:
    """The content files that go with a split file, None where there are none."""
    template = top.get(CONTENT_FIELD, CONTENT_TEMPLATE)
    start, marker, end = str(template).partition("{scene}")
    folder_name = start.removeprefix("{data_path}/").rstrip("/")
    if not marker or not start.startswith("{data_path}/") or ".." in Path(template).parts or "/" in end:
        raise DataError(f"{path}: {CONTENT_FIELD} must look like {CONTENT_TEMPLATE!r}, got {template!r}")
    folder = path.parent / folder_name
    if not folder.is_dir():
        if not top["episodes"] and CONTENT_FIELD in top:
            raise DataError(f"{path}: has no episodes of its own, and its content folder {folder} is missing")
        return None
    found = {file.name.removesuffix(end): file for file in sorted(folder.glob(f"*{end}"))}
    if not found:
        raise DataError(f"{path}: its content folder {folder} holds no *{end}")
    missing = [name for name in scenes or () if name not in found]
    if missing:
        raise DataError(f"{path}: no content file for scenes {missing}; there are {sorted(found)[:8]} ...")
    return [found[name] for name in scenes] if scenes is not None else list(found.values())


def _parse(content: Mapping[str, Any], path: Path, renumber: bool) -> EpisodeSet:
    records = content["episodes"]
    by_category = content.get("goals_by_category")
    if by_category is None:
        records, by_category = _file_goals(records, path)
    if not isinstance(by_category, dict):
        raise DataError(f"{path}: goals_by_category must be an object")
    goals = {
        key: tuple(ObjectGoal.from_json(g, f"{path}, goals {key!r}, goal {i}") for i, g in enumerate(_list(value)))
        for key, value in by_category.items()
    }
    episodes = []
    for i, record in enumerate(records):
        named = record.get("episode_id", i) if isinstance(record, dict) else i
        episode = Episode.from_json(record, f"{path}, episode {named} (number {i})")
        episodes.append(replace(episode, episode_id=str(i)) if renumber else episode)
    scene_field = next((f for f in reversed(SCENE_IDS) if f in content), SCENE_IDS[0])
    tables = [_table(content.get(name), f"{path}: {name}") for name in (TASK_IDS, scene_field)]
    fields = rest(content, ("episodes", "goals_by_category", TASK_IDS, scene_field), str(path))
    return EpisodeSet(tuple(episodes), goals, tables[0], tables[1], scene_field, str(path), fields)


def _file_goals(records: Sequence[Any], path: Path) -> tuple[list[Any], dict[str, Any]]:
    """The oldest layout: goals stand in the episodes, and the category in the first goal."""
    moved: list[Any] = []
    filed: dict[str, Any] = {}
    for i, record in enumerate(records):
        goals = record.get("goals") if isinstance(record, dict) else None
        if not goals or not isinstance(goals, list) or not isinstance(goals[0], dict):
            raise DataError(f"{path}, episode number {i}: neither goals_by_category in the file nor goals here")
        category = goals[0].get("object_category")
        entry = {**record, "object_category": category, "goals": []}
        filed.setdefault(f"{str(record.get('scene_id')).rpartition('/')[2]}_{category}", goals)
        moved.append(entry)
    return moved, filed


def _merge(parts: Sequence[EpisodeSet], path: Path) -> EpisodeSet:
    task_ids: dict[str, int] = {}
    scene_ids: dict[str, int] = {}
    goals: dict[str, tuple[ObjectGoal, ...]] = {}
    for part in parts:
        for mine, theirs in ((task_ids, part.task_ids), (scene_ids, part.scene_ids)):
            clash = [name for name in theirs if mine.get(name, theirs[name]) != theirs[name]]
            if clash:
                raise DataError(f"{part.source}: category {clash[0]!r} has another number than in the other scenes")
            mine.update(theirs)
        goals.update(part.goals)
    episodes = tuple(episode for part in parts for episode in part.episodes)
    return EpisodeSet(episodes, goals, task_ids, scene_ids, parts[0].scene_ids_field, str(path))


def _table(value: Any, where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(v, int) for v in value.values()):
        raise DataError(f"{where}: expected an object from category to number")
    return dict(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _scene_name(scene_id: str) -> str:
    """``TEEsavR23oF`` for ``hm3d/val/00800-TEEsavR23oF/TEEsavR23oF.basis.glb``: how content files are named."""
    return scene_id.rpartition("/")[2].partition(".")[0]


def _write(episodes: EpisodeSet, path: Path) -> None:
    text = json.dumps(to_json(episodes), allow_nan=False, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    with unfinished.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        stream.write(text)
    unfinished.replace(path)
