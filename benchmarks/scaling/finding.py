"""A claim about how a cost grows, the figures behind it, and whether they bear it out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

__all__ = ["Finding", "show"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`rows` are the figures by `columns`; `verdict` says what decided."""

    claim: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    verdict: str
    holds: bool


def show(finding: Finding, console: Console) -> None:
    table = Table()
    for column in finding.columns:
        table.add_column(column, justify="right")
    for row in finding.rows:
        table.add_row(*row)
    console.print(f"\n{finding.claim}")
    console.print(table)
    console.print(f"{'holds' if finding.holds else 'DOES NOT HOLD'}: {finding.verdict}")
