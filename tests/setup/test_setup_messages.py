"""What scripts/setup.sh does on machines that lack something: each is a folder of made-up programs, the only PATH."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup.sh"
SYSTEM_TOOLS = ("sh", "dirname", "cat", "id", "tail", "rm", "mkdir", "cp", "chmod")

GOOD_PYTHON = """
case "$*" in
*exit*version_info* | *ensurepip* | *Python.h*) exit 0 ;;
*version_info*) echo 3.12.4 ;;
"-m venv --clear"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*"-m pip --version") exit 0 ;;
*"-m pip"*) {pip} ;;
esac
"""
OLD_PYTHON = """
case "$*" in
*exit*version_info*) exit 1 ;;
*version_info*) echo 3.9.18 ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """A checkout with nothing but the setup script, and the programs that PATH leads to."""

    checkout: Path
    programs: Path

    def has(self, program: str, script: str) -> None:
        path = self.programs / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def setup(self, what: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "scripts" / "setup.sh", what],
            env={"PATH": str(self.programs), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def failure_of(self, what: str, **environment: str) -> str:
        """The one line, and the last, that a failing setup ends with."""
        done = self.setup(what, **environment)
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()[-1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with everything: a compiler, and a Python whose pip installs whatever it is told to."""
    made = Machine(tmp_path / "checkout", tmp_path / "bin")
    (made.checkout / "scripts").mkdir(parents=True)
    made.programs.mkdir()
    shutil.copy(SETUP, made.checkout / "scripts")
    for tool in SYSTEM_TOOLS:
        where = shutil.which(tool)
        assert where is not None
        (made.programs / tool).symlink_to(where)
    made.has("python3", GOOD_PYTHON.format(pip="exit 0"))
    made.has("c++", "exit 0")
    return made


def test_a_complete_machine_is_set_up_and_stamped_with_its_folder(machine: Machine) -> None:
    assert machine.setup("core").returncode == 0
    assert machine.setup("dev").returncode == 0
    stamps = [machine.checkout / ".venv" / name for name in (".core-installed", ".dev-installed")]
    assert [stamp.read_text().strip() for stamp in stamps] == [str(machine.checkout.resolve())] * 2


def test_a_venv_that_works_is_kept(machine: Machine) -> None:
    machine.setup("core")
    (machine.checkout / ".venv" / "kept").touch()
    assert "making .venv" not in machine.setup("core").stderr
    assert (machine.checkout / ".venv" / "kept").exists()


def test_a_venv_that_was_moved_is_made_anew(machine: Machine, tmp_path: Path) -> None:
    machine.setup("core")
    machine.checkout.rename(tmp_path / "elsewhere")
    moved = Machine(tmp_path / "elsewhere", machine.programs)
    assert "making .venv" in moved.setup("core").stderr


def test_a_python_that_is_too_old_is_named_with_its_version(machine: Machine) -> None:
    machine.has("python3", OLD_PYTHON)
    line = machine.failure_of("core")
    assert "Python 3.11 or newer is needed, python3 is 3.9.18" in line
    assert "make PYTHON=" in line


def test_a_newer_python_is_found_behind_an_old_python3(machine: Machine) -> None:
    machine.has("python3", OLD_PYTHON)
    machine.has("python3.12", GOOD_PYTHON.format(pip="exit 0"))
    assert "making .venv with Python 3.12.4" in machine.setup("core").stderr


def test_the_python_that_the_user_names_is_the_only_one_tried(machine: Machine) -> None:
    machine.has("python3.9", OLD_PYTHON)
    assert "python3.9 is 3.9.18" in machine.failure_of("core", PYTHON="python3.9")


def test_a_machine_without_python_is_told_so(machine: Machine) -> None:
    (machine.programs / "python3").unlink()
    assert "Python 3.11 or newer is needed, none was found" in machine.failure_of("core")


def test_a_python_without_venv_is_told_what_to_install(machine: Machine) -> None:
    machine.has("python3", 'case "$*" in *ensurepip*) exit 1 ;; esac' + GOOD_PYTHON.format(pip="exit 0"))
    line = machine.failure_of("core")
    assert "without venv or ensurepip" in line
    assert "python3-venv" in line


def test_a_python_without_headers_is_told_what_to_install(machine: Machine) -> None:
    machine.has("python3", 'case "$*" in *Python.h*) exit 1 ;; esac' + GOOD_PYTHON.format(pip="exit 0"))
    line = machine.failure_of("core")
    assert "without its C headers" in line
    assert "python3-dev" in line


def test_a_machine_without_compiler_is_told_before_anything_is_made(machine: Machine) -> None:
    (machine.programs / "c++").unlink()
    line = machine.failure_of("core")
    assert "no C++ compiler was found (looked for c++, g++, clang++)" in line
    assert "apt-get install g++" in line
    assert not (machine.checkout / ".venv").exists()


def test_a_compiler_that_is_too_old_is_named(machine: Machine) -> None:
    machine.has("c++", "exit 1")
    assert "c++ does not compile C++20" in machine.failure_of("core")


def test_the_compiler_that_the_user_names_may_have_arguments(machine: Machine) -> None:
    machine.has("c++", "exit 1")
    machine.has("ccache", 'test "$1" = g++-13')
    assert machine.setup("core", CXX="ccache g++-13").returncode == 0


def test_the_build_uses_the_compiler_that_was_found(machine: Machine) -> None:
    (machine.programs / "c++").rename(machine.programs / "clang++")
    machine.has("python3", GOOD_PYTHON.format(pip='echo "built with $CXX" >&2; exit 1'))
    assert f"built with {machine.programs / 'clang++'}" in machine.setup("core").stderr


@pytest.mark.parametrize(
    ("pip_says", "line_says"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: Could not find a version that satisfies the requirement cmake>=4.0", "check the network"),
        ("ReadTimeoutError: read timed out", "check the network"),
        ("PermissionError: [Errno 13] Permission denied: .venv/lib", "writing was not allowed"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "ran out of memory"),
    ],
)
def test_what_pip_could_not_do_is_said_in_one_line(machine: Machine, pip_says: str, line_says: str) -> None:
    machine.has("python3", GOOD_PYTHON.format(pip=f'echo "{pip_says}" >&2; exit 1'))
    line = machine.failure_of("core")
    assert line_says in line
    assert "run the same command again" in line
    assert not (machine.checkout / ".venv" / ".core-installed").exists()


def test_a_failure_nobody_foresaw_shows_the_messages(machine: Machine) -> None:
    machine.has("python3", GOOD_PYTHON.format(pip='echo "kernel.cpp:7: error: unknown type" >&2; exit 1'))
    done = machine.setup("core")
    assert "kernel.cpp:7: error: unknown type" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("the messages above say why")


def test_the_words_of_the_real_pip_without_a_network_are_understood(machine: Machine) -> None:
    pip = f'exec "{sys.executable}" -I -m pip download --no-index --no-deps --isolated no-such-package'
    machine.has("python3", GOOD_PYTHON.format(pip=pip))
    assert "check the network" in machine.failure_of("core")
