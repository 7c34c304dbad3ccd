"""What the documents and the chores say about the tree is true of the tree."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from scripts.metrics_page import page

from tests.architecture.tree import PACKAGE, ROOT

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> str:
    return (ROOT / str(request.param)).read_text()


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _exists(name: str) -> bool:
    places = (ROOT, PACKAGE, ROOT / "csrc")
    return any((place / name).exists() for place in places)


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) < 150


def test_every_file_that_a_document_names_is_there(document: str) -> None:
    named = re.findall(r"`([\w./-]+\.(?:py|cpp|h|sh|md|toml|json)|[\w-]+(?:/[\w-]+)*/)`", document)
    assert [name for name in named if not _exists(name)] == []


def test_every_link_inside_the_repository_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", document)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_chore_that_a_document_names_is_there(document: str) -> None:
    examples = "".join(re.findall(r"^```sh$.*?^```$", document, re.MULTILINE | re.DOTALL))
    named = re.findall(r"(?:`|^ {4})make ([a-z-]+)", document, re.MULTILINE) + re.findall(
        r"^make ([a-z-]+)", examples, re.M
    )
    assert set(named) <= TARGETS


def test_help_names_every_chore() -> None:
    helped = set(re.findall(r"^\t@echo 'make ([a-z-]+)", MAKEFILE, re.MULTILINE))
    assert helped == TARGETS - {"help"}


def test_ci_runs_the_two_commands_of_a_developer_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["make check", "make test"]


def test_setup_asks_for_the_python_that_the_package_needs(pyproject: dict[str, Any]) -> None:
    oldest = pyproject["project"]["requires-python"].removeprefix(">=")
    script = (ROOT / "scripts" / "setup.sh").read_text()
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in script
    assert set(re.findall(r"Python (\d\.\d+) or newer", script)) == {oldest}


def test_a_build_from_the_checkout_uses_what_a_build_of_the_package_uses(pyproject: dict[str, Any]) -> None:
    assert set(pyproject["build-system"]["requires"]) <= set(pyproject["dependency-groups"]["build"])


def test_the_model_that_is_fetched_has_its_notice() -> None:
    notice = (ROOT / "NOTICE").read_text()
    assert all(words in notice for words in ("SmolLM2-135M-Instruct", "Hugging Face", "Apache License"))


def test_the_page_of_metrics_says_what_the_catalog_says() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == page(), "docs/metrics.md is old: run `make metrics-page`"


def _python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def test_no_test_is_skipped_but_for_the_lack_of_a_gpu() -> None:
    skip = re.compile(r"pytest\.(?:skip|xfail|importorskip)\(|mark\.(?:skip|skipif|xfail)\b")
    assert [
        str(path) for path in _python_files(ROOT / "tests") if path != Path(__file__) and skip.search(path.read_text())
    ] == []
