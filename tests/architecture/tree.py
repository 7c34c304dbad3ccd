"""The modules of the package as the architecture tests see them: parsed, never imported."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tailrace"


@dataclass(frozen=True)
class Module:
    """`name` is dotted and without the package: `scheduler.plan`; a package's own module is `scheduler`."""

    name: str
    path: Path
    source: str
    tree: ast.Module

    def is_inside(self, package: str) -> bool:
        return f"{self.name}.".startswith(f"{package}.")

    @property
    def num_lines(self) -> int:
        return self.source.count("\n")

    @cached_property
    def imports(self) -> frozenset[str]:
        """Every dotted name that is imported anywhere in the module, inside functions too."""
        return frozenset(self._imports())

    @cached_property
    def strings(self) -> frozenset[str]:
        """Every text in the module that is a value."""
        nodes = ast.walk(self.tree)
        return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))

    def _imports(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _parse(path: Path) -> Module:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    source = path.read_text()
    return Module(name, path, source, ast.parse(source))


def parse_package() -> list[Module]:
    return [_parse(path) for path in sorted(PACKAGE.rglob("*.py"))]
