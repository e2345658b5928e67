"""Where `habitat` gets its episodes from: generated homes, exported when they are first needed, or ObjectNav files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError, WorldError
from navigation.episode_files import read_episodes
from navigation.episode_making import object_goals
from navigation.episodes import Episode, EpisodeSet, ObjectGoal
from navigation.homes.generate import HomeRules, Split
from navigation.worlds.habitat_export import WALK_HEIGHT, export_home
from navigation.worlds.navigation_world import rotation_xyzw
from navigation.worlds.rooms_episode import choose_start
from navigation.worlds.rooms_scene import Scene, generated_scene, needs

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """One episode: a scene's file and dataset, a start, what to find. ``home`` is there for generated homes alone."""

    scene: Path
    dataset: str
    start_position: tuple[float, float, float]
    start_rotation_xyzw: tuple[float, float, float, float]
    category: str
    goals: tuple[ObjectGoal, ...]
    about: Mapping[str, Any]  # what `describe` says of where it comes from
    home: Scene | None = None

    @property
    def view_points(self) -> Points:
        """All places (N, 3) at which a stop succeeds."""
        return np.concatenate([goal.view_positions for goal in self.goals])

    @property
    def faces(self) -> Points:
        """For each view point the middle of its object (N, 3)."""
        return np.concatenate([np.tile(goal.position, (len(goal.view_positions), 1)) for goal in self.goals])

    def object_distance(self, x: float, z: float) -> float:
        """Metres over the floor, straight, to the nearest goal: to its outline in homes, to its middle in files."""
        if self.home is not None:
            return self.home.object_distance(self.category, x, z)
        return min(math.hypot(goal.position[0] - x, goal.position[2] - z) for goal in self.goals)


class Source(Protocol):
    """Finds the episode of a seed, or the one that options name."""

    def task(self, seed: int, options: Mapping[str, Any]) -> Task:
        """`WorldError` for options it does not know, or that name nothing."""
        ...


@dataclass(frozen=True)
class HomeSource:
    """The same homes, starts and goals as in `rooms` for the same settings and seed."""

    folder: Path
    split: Split
    rules: HomeRules
    homes: int
    home: int | None
    category: str | None

    def task(self, seed: int, options: Mapping[str, Any]) -> Task:
        """The episode of ``seed``; ``options`` may name a ``home`` and a ``category``."""
        given = dict(options)
        home, category = given.pop("home", self.home), given.pop("category", self.category)
        if given:
            raise WorldError(f"habitat: unknown options {sorted(given)}; there are home and category")
        scene = generated_scene(seed % self.homes if home is None else int(home), self.split, self.rules)
        start = choose_start(scene, seed, category)
        found = needs(scene.goals(start.category), scene.home, start.category)
        try:
            files = export_home(scene.home, self.folder)
        except OSError as error:
            raise WorldError(f"habitat: the home cannot be written to {self.folder}: {error}") from error
        return Task(
            files.scene,
            str(files.dataset),
            (start.place[0], WALK_HEIGHT, start.place[1]),
            rotation_xyzw(start.heading),
            start.category,
            object_goals(scene.home, found),
            {"home": {"seed": scene.home.seed, "split": scene.home.split}},
            scene,
        )


@dataclass(frozen=True)
class FileSource:
    """The episodes of an ObjectNav file, in its order, with scenes below a folder."""

    episodes: Path
    scenes: Path
    content: tuple[str, ...]
    dataset: str  # in place of what the episodes name, if not empty
    renumber: bool

    def task(self, seed: int, options: Mapping[str, Any]) -> Task:
        """Episode number ``options["episode"]`` (or else ``seed``), counted round the file."""
        given = dict(options)
        number = given.pop("episode", seed)
        if given or not isinstance(number, int):
            raise WorldError(f"habitat: with an episode file there is the option episode, a number; got {options}")
        episodes = _read(self.episodes, self.content, self.renumber)
        if not episodes.episodes:
            raise WorldError(f"habitat: {self.episodes} has no episodes")
        return self._task(episodes, episodes.episodes[number % len(episodes.episodes)])

    def _task(self, episodes: EpisodeSet, episode: Episode) -> Task:
        scene = episode.scene_path(self.scenes)
        if not scene.is_file():
            raise WorldError(f"habitat: episode {episode.episode_id} needs the scene {scene}, which is not there")
        dataset = self.dataset or episode.scene_dataset_config
        if dataset != "default" and not Path(dataset).is_file():
            raise WorldError(
                f"habitat: episode {episode.episode_id} needs the scene dataset {dataset}, which is not there; "
                "name yours with --scene-dataset, or give: --scene-dataset default"
            )
        return Task(
            scene,
            dataset,
            episode.start_position,
            episode.start_rotation_xyzw,
            episode.category,
            episodes.goals_of(episode),
            {"episode": episode.episode_id, "scene": episode.scene_id},
        )


@lru_cache(maxsize=2)  # the largest files take a minute to read
def _read(path: Path, content: tuple[str, ...], renumber: bool) -> EpisodeSet:
    try:
        return read_episodes(path, scenes=content or None, renumber=renumber)
    except DataError as error:
        raise WorldError(f"habitat: {error}") from error
