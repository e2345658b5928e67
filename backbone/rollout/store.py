"""A run's directory: settings, one line an episode as it ends, and the result; safe against a kill at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backbone.errors import ConfigError, DataError
from backbone.rollout.config import RolloutConfig, differing_fields
from backbone.rollout.results import EpisodeResult

CONFIG_FILE = "config.json"
EPISODES_FILE = "episodes.jsonl"
RESULT_FILE = "result.json"
VIDEO_FOLDER = "videos"


class RunStore:
    """Reads what an earlier run of the same settings left in ``folder``, and appends to it."""

    def __init__(self, folder: Path, config: RolloutConfig) -> None:
        """Open or make the directory.

        Raises:
            ConfigError: it belongs to a run with other settings; the message names those that differ.
            DataError: its files are broken in a way that an interruption does not explain.
        """
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"output {folder} is a file; give a directory, which is made if need be")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._check_settings(config)
        self.rows = self._read(config)
        self._mend()
        self._file = (folder / EPISODES_FILE).open("a", encoding="utf-8")

    def add(self, row: EpisodeResult) -> None:
        """Append a row; when this returns, it is on the disk."""
        self._file.write(_line(row))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows[row.index] = row

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json`` in one step."""
        write_atomically(self.folder / RESULT_FILE, json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def _check_settings(self, config: RolloutConfig) -> None:
        file = self.folder / CONFIG_FILE
        if not file.is_file():
            if (self.folder / EPISODES_FILE).exists():
                raise ConfigError(f"{self.folder} holds episodes but no {CONFIG_FILE}; choose another output directory")
            write_atomically(file, json.dumps(config.results, indent=1, ensure_ascii=False, allow_nan=False))
            return
        try:
            before = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise DataError(f"{file} is not JSON: {error}") from error
        changed = differing_fields(before, json.loads(json.dumps(config.results)))
        if changed:
            empty = "" if self._begun() else "; it has no episode yet: delete the directory if nothing writes to it"
            raise ConfigError(
                f"{self.folder} holds a run with other settings ({'; '.join(changed)}); "
                f"give the same settings to go on with it, or choose another output directory{empty}"
            )

    def _begun(self) -> bool:
        """Whether there is anything of an episode."""
        file = self.folder / EPISODES_FILE
        return file.is_file() and file.stat().st_size > 0

    def _read(self, config: RolloutConfig) -> dict[int, EpisodeResult]:
        """The rows by index, the last one of each; a torn last line is what a kill leaves, and is dropped."""
        file = self.folder / EPISODES_FILE
        if not file.is_file():
            return {}
        rows: dict[int, EpisodeResult] = {}
        lines = file.read_text("utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = EpisodeResult.from_dict(json.loads(line))
            except (ValueError, DataError) as error:
                if number == len(lines):  # no newline after it: it was being written
                    break
                raise DataError(f"{file}, line {number}: not an episode's row: {error}") from error
            rows[row.index] = row
        beyond = [index for index in rows if index >= config.episodes]
        if beyond:
            raise ConfigError(
                f"{self.folder} holds episodes up to {max(beyond)}, this run asks for {config.episodes}; "
                "ask for at least as many as before, or choose another output directory"
            )
        return rows

    def _mend(self) -> None:
        """Rewrite the file if its last line is torn, so that the next row starts on a line of its own."""
        file = self.folder / EPISODES_FILE
        if file.is_file() and not file.read_bytes().endswith(b"\n"):
            write_atomically(file, "".join(_line(row) for row in self.rows.values()))


def film_path(folder: Path, index: int) -> Path:
    """Where the film of episode ``index`` stands."""
    return folder / VIDEO_FOLDER / f"episode-{index:05d}.mp4"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step that survives a kill and a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _line(row: EpisodeResult) -> str:
    return json.dumps(row.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
