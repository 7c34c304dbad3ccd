"""Small by gate, not by plea."""

import ast
from collections.abc import Iterator
from statistics import median

from tests.architecture.tree import PACKAGE, ROOT, Module

MAX_MODULE_LINES = 450
EMPTY_WORDS = {"base", "common", "helpers", "manager", "misc", "util", "utils"}


def _function_lengths(modules: list[Module]) -> Iterator[int]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_module_says_what_it_is_for(modules: list[Module]) -> None:
    silent = [module.name for module in modules if module.source and ast.get_docstring(module.tree) is None]
    assert silent == []


def test_no_module_outgrows_one_sitting(modules: list[Module]) -> None:
    long = {module.name: module.num_lines for module in modules if module.num_lines > MAX_MODULE_LINES}
    assert long == {}


def test_nine_functions_in_ten_fit_on_half_a_screen(modules: list[Module]) -> None:
    lengths = sorted(_function_lengths(modules))
    assert median(lengths) <= 9
    assert lengths[len(lengths) * 9 // 10] <= 30


def test_every_name_says_something(modules: list[Module]) -> None:
    assert [module.name for module in modules if EMPTY_WORDS & set(module.path.stem.split("_"))] == []


def test_unit_tests_mirror_the_tree() -> None:
    tested = {path.parent.relative_to(ROOT / "tests" / "unit") for path in (ROOT / "tests" / "unit").rglob("test_*.py")}
    assert {str(folder) for folder in tested if not (PACKAGE / folder).is_dir()} == set()
