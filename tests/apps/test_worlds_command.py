"""``fovea worlds``: an environment counts as installed only after a trial, and what is half built is built anew."""

from __future__ import annotations

import fcntl
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from apps import cli, environments, worlds
from apps.doctor import world as examine_world
from apps.environments import RECIPES, Recipe, building, find_recipe
from apps.environments.install import environment_state, install
from apps.world_states import PACKAGES, world_state
from apps.worlds import WORLDS, WorldEntry, world_config_class
from backbone.errors import ConfigError, UnsupportedError, WorldError
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import environment_path, environment_python

WORKER = Path(__file__).parents[1] / "backbone/drill_worker.py"


@dataclass(frozen=True)
class DrillConfig:
    python: str = ""

    @property
    def world(self) -> str:
        return "drill"

    def options(self, index: int) -> dict[str, Any]:
        return {}

    def make(self) -> BridgedWorld:
        return BridgedWorld(WORKER, environment_python("drill", self.python), {})


class Builder:
    """A recipe whose environment is a script that starts our own Python."""

    def __init__(self) -> None:
        self.builds = 0
        self.fault = ""

    def install(self, path: Path, python: Path, log: Any) -> None:
        self.builds += 1
        assert not list(path.iterdir())
        (path / "bin").mkdir()
        log("building")
        if self.fault == "step":
            building.run(["sh", "-c", "echo no network; exit 4"], log, "the step")
        script = path / "bin" / "python"
        script.write_text(
            "#!/bin/sh\nexit 9\n" if self.fault == "trial" else f'#!/bin/sh\nexec {sys.executable} "$@"\n'
        )
        script.chmod(0o755)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    builder = Builder()
    module, configs = ModuleType("drill_recipe"), ModuleType("drill_world")
    module.install = builder.install  # type: ignore[attr-defined]
    configs.DrillConfig = DrillConfig  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "drill_recipe", module)
    monkeypatch.setitem(sys.modules, "drill_world", configs)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setitem(RECIPES, "drill", Recipe("drill_recipe", (here,), ("metadrive.txt",), "nothing"))
    entry = WorldEntry("drill_world", "DrillConfig", "a drill", "none", "fovea worlds install drill")
    monkeypatch.setitem(WORLDS, "drill", entry)
    monkeypatch.setenv("FOVEA_WORLDS", str(tmp_path / "worlds"))
    return builder


def test_an_installation_is_tried_marked_and_found(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    assert environment_state("drill")[0] == "missing"
    lines: list[str] = []
    done = install("drill", lines.append)
    assert (done.built, builder.builds) == (True, 1)
    assert "cameras: front 128x128" in done.trial
    assert "building" in lines
    assert environment_state("drill") == ("ready", str(environment_path("drill") / "bin/python"))
    assert not install("drill", lines.append).built
    assert builder.builds == 1
    assert install("drill", lines.append, force=True).built
    assert cli.main(["worlds", "install", "drill", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["world"], told["built"]) == ("drill", False)
    assert examine_world("drill", deep=False).state == "ok"


@pytest.mark.parametrize(
    ("fault", "words"), [("step", r"the step failed \(exit code 4\)[\s\S]*no network"), ("trial", "exit code 9")]
)
def test_what_fails_is_not_installed_and_is_built_anew(builder: Builder, fault: str, words: str) -> None:
    builder.fault = fault
    with pytest.raises(WorldError, match=words):
        install("drill", lambda line: None)
    assert environment_state("drill") == ("missing", "left half built")
    found = examine_world("drill", deep=False)
    assert (found.state, found.remedy) == ("missing", "fovea worlds install drill")
    builder.fault = ""
    assert install("drill", lambda line: None).built


def test_a_changed_recipe_makes_it_outdated(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    install("drill", lambda line: None)
    monkeypatch.setitem(RECIPES, "drill", Recipe("drill_recipe", RECIPES["drill"].pythons, ("libero.txt",), ""))
    assert environment_state("drill")[0] == "outdated"
    assert world_state("drill").remedy == "fovea worlds install drill --force"
    assert install("drill", lambda line: None).built


def test_a_world_without_an_expert_is_tried_all_the_same(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[float]] = []

    def step(self: BridgedWorld, action: Any) -> Any:
        taken.append(action.tolist())
        return real_step(self, action)

    def no_expert(self: BridgedWorld) -> Any:
        raise UnsupportedError("this world has no expert")

    real_step = BridgedWorld.step
    monkeypatch.setattr(BridgedWorld, "expert_action", no_expert)
    monkeypatch.setattr(BridgedWorld, "step", step)
    assert "cameras: front 128x128" in install("drill", print).trial
    assert [set(action) for action in taken] == [{0.0}]


def test_an_interpreter_that_would_be_removed_is_refused(builder: Builder) -> None:
    install("drill", print)
    mine = environment_path("drill") / "bin" / "python"
    with pytest.raises(ConfigError, match="that is replaced"):
        install("drill", print, python=mine, force=True)
    assert mine.exists()


def test_the_users_own_interpreter_is_recorded(builder: Builder, tmp_path: Path) -> None:
    done = install("drill", lambda line: None, python=Path(sys.executable))
    assert (done.built, builder.builds, done.python) == (False, 0, Path(sys.executable))
    assert environment_python("drill") == Path(sys.executable)
    assert environment_state("drill")[0] == "ready"
    with pytest.raises(ConfigError, match="--force replaces it"):
        install("drill", lambda line: None, python=Path(sys.executable))
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\necho no simulator >&2; exit 3\n")
    wrong.chmod(0o755)
    with pytest.raises(WorldError, match="no simulator"):
        install("drill", lambda line: None, python=wrong, force=True)
    assert environment_python("drill") == Path(sys.executable)  # what worked is still recorded


def test_two_installations_at_once(builder: Builder) -> None:
    lock = environment_path("drill").with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(WorldError, match="being installed by another process"):
            install("drill", lambda line: None)
    assert builder.builds == 0


def test_worlds_that_need_no_installation_or_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="runs in Fovea's own interpreter"):
        find_recipe("rooms")
    assert cli.main(["worlds", "install", "metadrve"]) == 2
    assert "did you mean 'metadrive'" in capsys.readouterr().err


def test_the_list_names_every_world_and_its_remedy(
    builder: Builder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, "rooms", ("no_such_package",))
    assert cli.main(["worlds", "list", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["worlds"]}
    assert set(found) == set(WORLDS)
    assert all((entry["state"] == "ready") == (entry["remedy"] == "") for entry in found.values())
    assert (found["rooms"]["state"], found["rooms"]["detail"]) == ("missing", "not installed: no_such_package")
    assert found["drill"]["remedy"] == "fovea worlds install drill"
    assert cli.main(["worlds", "list"]) == 0
    assert "-> fovea worlds install drill" in capsys.readouterr().out


def test_a_deep_look_opens_the_world_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "rooms", ("json",))
    monkeypatch.setattr("apps.world_states.TRIAL", "import sys; print(sys.argv[1])")
    assert world_state("rooms", deep=True).state == "ready"
    monkeypatch.setattr("apps.world_states.TRIAL", "raise ValueError('no EGL')")
    broken = world_state("rooms", deep=True)
    assert (broken.state, broken.detail) == ("broken", "ValueError: no EGL")


def test_a_python_is_looked_for_and_a_given_one_is_checked(tmp_path: Path) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert building.find_python((here,)) == Path(sys.executable)
    with pytest.raises(WorldError, match=r"no Python 2\.0 with venv was found"):
        building.find_python(("2.0",))
    with pytest.raises(WorldError, match=r"is not a Python 2\.0"):
        building.find_python(("2.0",), Path(sys.executable))


@pytest.mark.parametrize("name", ["metadrive.txt", "libero.txt"])
def test_requirements_are_pinned_by_hash(name: str) -> None:
    text = (Path(environments.__file__).parent / name).read_text("utf-8")
    entries = re.split(r"\n(?=\S)", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[A-Za-z0-9_.-]+==[0-9][^ ]* \\\n( +--hash=sha256:[0-9a-f]{64}( \\\n)?)+$", entry), entry


def test_every_recipe_belongs_to_a_world_that_takes_an_interpreter() -> None:
    for name, recipe in RECIPES.items():
        assert WORLDS[name].remedy == f"fovea worlds install {name}"
        assert len(recipe.version()) == 16
        assert "python" in world_config_class(name).__dataclass_fields__  # type: ignore[attr-defined]
    assert set(worlds.WORLDS) == set(RECIPES) | set(PACKAGES)
