"""What a measuring verb leaves: a table for a person, JSON for a program."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console, RenderableType

from tailrace.errors import SetupError

__all__ = ["JsonTarget", "show_figures"]

JsonTarget = Annotated[list[Path] | None, Parameter(consume_multiple=(0, 1))]
"""`--json FILE`, or `--json` alone for standard output."""


def show_figures(table: RenderableType, figures: Mapping[str, Any], json: list[Path] | None) -> None:
    """Show the table, and write the figures where `json` says. Raises SetupError when that cannot be done."""
    text = msgspec.json.format(msgspec.json.encode(figures)).decode() + "\n"
    if json == []:
        sys.stdout.write(text)
        return
    Console(highlight=False, markup=False).print(table)
    for path in json or ():
        try:
            path.write_text(text)
        except OSError as error:
            raise SetupError(f"cannot write {path}: {error.strerror}") from error
