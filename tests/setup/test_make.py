"""When `make` sets up and when it goes straight to the server: the real Makefile over a setup that only takes notes."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = """#!/bin/sh
echo "setup $1"
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "tailrace $*"\\n' >.venv/bin/tailrace
printf '#!/bin/sh\\necho "python $*"\\n' >.venv/bin/python
chmod +x .venv/bin/*
pwd -P >.venv/.$1-installed
"""


@dataclass(frozen=True)
class Checkout:
    folder: Path

    def make(self, *arguments: str, status: int = 0) -> list[str]:
        """The lines that `make` says before it ends with the status."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
        done = subprocess.run(
            ["make", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout.splitlines()

    def fail(self, what: str) -> None:
        """From now on this Python fails at commands that have these words in them."""
        python = self.folder / ".venv" / "bin" / "python"
        python.write_text(f'#!/bin/sh\necho "python $*"\ncase "$*" in *{what}*) exit 1 ;; esac\n')

    def change(self, file: str) -> None:
        """Make a file newer than all that was built."""
        newest = max(path.stat().st_mtime for path in self.folder.rglob("*"))
        os.utime(self.folder / file, (newest + 1, newest + 1))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "checkout"
    for directory in ("scripts", "csrc/kernels", "src/tailrace"):
        (folder / directory).mkdir(parents=True)
    for file in ("pyproject.toml", "CMakeLists.txt", "csrc/kernels/rows.cpp", "src/tailrace/cli.py"):
        (folder / file).touch()
    shutil.copy(ROOT / "Makefile", folder)
    script = folder / "scripts" / "setup.sh"
    script.write_text(SETUP)
    script.chmod(0o755)
    return Checkout(folder)


def test_the_first_serve_sets_up_and_passes_arguments_on(checkout: Checkout) -> None:
    assert checkout.make("serve", "ARGS=--port 8123") == ["setup core", "tailrace serve --port 8123"]


def test_the_second_serve_goes_straight_to_the_server(checkout: Checkout) -> None:
    checkout.make("serve")
    assert checkout.make("serve") == ["tailrace serve"]


@pytest.mark.parametrize("file", ["csrc/kernels/rows.cpp", "CMakeLists.txt", "pyproject.toml"])
def test_a_change_to_what_is_built_sets_up_again(checkout: Checkout, file: str) -> None:
    checkout.make("serve")
    checkout.change(file)
    assert checkout.make("serve") == ["setup core", "tailrace serve"]


def test_a_change_to_python_needs_no_setup(checkout: Checkout) -> None:
    checkout.make("serve")
    checkout.change("src/tailrace/cli.py")
    assert checkout.make("serve") == ["tailrace serve"]


def test_a_checkout_that_was_moved_sets_up_again(checkout: Checkout, tmp_path: Path) -> None:
    checkout.make("serve")
    moved = Checkout(checkout.folder.rename(tmp_path / "elsewhere"))
    assert moved.make("serve") == ["setup core", "tailrace serve"]


def test_a_venv_whose_python_is_gone_is_set_up_again(checkout: Checkout) -> None:
    checkout.make("serve")
    (checkout.folder / ".venv" / "bin" / "python").unlink()
    assert checkout.make("serve") == ["setup core", "tailrace serve"]


def test_the_tests_fetch_the_model_before_they_run(checkout: Checkout) -> None:
    assert checkout.make("test", "ARGS=-k queue") == [
        "setup core",
        "setup dev",
        "python -m tailrace.weights.default_model",
        "python -m pytest -k queue",
    ]


ALL_TESTS = [
    "python -m tailrace.weights.default_model",
    "python -m pytest -n 2 --dist loadfile --ignore=tests/engine --ignore=tests/server",
    "python -m pytest -n 2 --dist loadfile tests/engine tests/server",
]


def test_all_tests_are_run_in_two_parts_that_leave_nothing_out(checkout: Checkout) -> None:
    checkout.make("serve")
    assert checkout.make("test")[1:] == ALL_TESTS
    assert all((ROOT / folder).is_dir() for folder in ALL_TESTS[-1].split()[7:])


@pytest.mark.parametrize("part", ["--ignore", "loadfile?tests"])
def test_both_parts_are_run_and_either_may_fail(checkout: Checkout, part: str) -> None:
    checkout.make("test")
    checkout.fail(part)
    assert checkout.make("test", status=2) == ALL_TESTS


def test_the_comparison_fetches_the_model_before_it_builds(checkout: Checkout) -> None:
    checkout.make("test")
    assert checkout.make("compare", "ARGS=--rounds 0") == [
        "python -m tailrace.weights.default_model",
        "python -m benchmarks.peers --rounds 0",
    ]


def test_the_plain_command_names_the_two_that_a_newcomer_needs(checkout: Checkout) -> None:
    serve, test, *_ = checkout.make()
    assert serve.startswith("make serve")
    assert test.startswith("make test")
