"""The modules of the package as the architecture tests see them: parsed, never imported."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
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

    def imports(self) -> Iterator[str]:
        """Every dotted name that is imported anywhere in the module, inside functions too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def strings(self) -> Iterator[str]:
        """Every text in the module that is a value."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _parse(path: Path) -> Module:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    source = path.read_text()
    return Module(name, path, source, ast.parse(source))


def parse_package() -> list[Module]:
    return [_parse(path) for path in sorted(PACKAGE.rglob("*.py"))]
