"""Folders made by recipes: once, and again where that is not what stands there."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.peers.engine import EngineUnavailable
from benchmarks.peers.workshop import Venv, Workshop, output_of, run


class Recipe:
    """Leaves a file, and counts how often it was followed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> None:
        self.times += 1
        (folder / "made").touch()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "peers")


def test_what_is_made_stays(workshop: Workshop) -> None:
    recipe = Recipe()
    first = workshop.folder("engine", "version 1", recipe)
    assert (first / "made").exists()
    assert workshop.folder("engine", "version 1", recipe) == first
    assert recipe.times == 1


def test_another_recipe_makes_it_anew(workshop: Workshop) -> None:
    recipe = Recipe()
    (workshop.folder("engine", "version 1", recipe) / "old").touch()
    folder = workshop.folder("engine", "version 2", recipe)
    assert recipe.times == 2
    assert not (folder / "old").exists()


def test_a_checkout_that_was_moved_makes_it_anew(workshop: Workshop, tmp_path: Path) -> None:
    recipe = Recipe()
    workshop.folder("engine", "version 1", recipe)
    moved = Workshop(workshop.root.rename(tmp_path / "elsewhere"))
    moved.folder("engine", "version 1", recipe)
    assert recipe.times == 2


def test_what_was_half_made_is_made_anew(workshop: Workshop) -> None:
    def breaks(folder: Path) -> None:
        (folder / "half").touch()
        raise EngineUnavailable("no network")

    recipe = Recipe()
    with pytest.raises(EngineUnavailable):
        workshop.folder("engine", "version 1", breaks)
    folder = workshop.folder("engine", "version 1", recipe)
    assert recipe.times == 1
    assert not (folder / "half").exists()


def test_a_step_that_fails_names_its_log_and_how_that_ends(tmp_path: Path) -> None:
    said = f"compiling failed (3); {tmp_path / 'build.log'} ends with:\nno such header"
    with pytest.raises(EngineUnavailable, match=re.escape(said)):
        run("compiling", [sys.executable, "-c", "print('no such header'); raise SystemExit(3)"], tmp_path)


def test_a_step_whose_program_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="no-such-program does not start: No such file"):
        run("compiling", [str(tmp_path / "no-such-program")], tmp_path)


def test_a_version_is_what_the_program_says_in_one_line() -> None:
    assert output_of([sys.executable, "-c", "print('engine'); print('2.1')"]) == "engine 2.1"


def test_a_program_without_a_version_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="cannot be asked for its version"):
        output_of([sys.executable, "-c", "raise SystemExit(1)"])


def test_a_venv_names_the_versions_it_holds() -> None:
    assert Venv(Path(sys.prefix)).versions("numpy", "rich") == f"numpy {version('numpy')}, rich {version('rich')}"


def test_a_venv_without_a_package_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="cannot be asked"):
        Venv(Path(sys.prefix)).versions("no-such-package")
