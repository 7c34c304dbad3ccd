"""Kernels know no Python, bindings know no maths, and one file asks the processor what it can do."""

import re
from pathlib import Path

from tests.architecture.tree import ROOT

CSRC = ROOT / "csrc"
PYTHON = re.compile(r"#\s*include\s*[<\"](?:nanobind/|Python\.h)")
CPUID = re.compile(r"__get_cpuid|__builtin_cpu_supports|\b_?_?cpuidex?\b|getauxval")


def _sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in {".cpp", ".h"}]


def _matching(pattern: re.Pattern[str], folder: Path) -> set[str]:
    return {str(path.relative_to(CSRC)) for path in _sources(folder) if pattern.search(path.read_text())}


def test_python_is_known_to_the_bindings_alone() -> None:
    assert {path.split("/")[0] for path in _matching(PYTHON, CSRC)} == {"bind"}


def test_one_file_asks_the_processor_what_it_can_do() -> None:
    assert len(_matching(CPUID, CSRC)) == 1
