"""An attribution as tables for a person."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from tailrace.commands.quantity import format_bytes, format_rate
from tailrace.telemetry.attribution import Attribution, Roof

__all__ = ["CountedLine", "render_attribution"]


class CountedLine(NamedTuple):
    """One figure of the processor's own."""

    name: str
    figure: str


def render_attribution(
    found: Attribution, conclusion: Sequence[str], counted: Sequence[CountedLine], notes: Sequence[str]
) -> RenderableType:
    """The conclusion first, then what it stands on."""
    tables = [_overview(found), _engine(found), _ops(found), _first_token(found), _path(found), _counters(counted)]
    shown = [Padding(table, (1, 0, 0, 0)) for table in tables if table.row_count]
    remarks = [Padding("\n".join(f"Note: {note}" for note in notes), (1, 0, 0, 0))] if notes else []
    return Group(*conclusion, *shown, *remarks)


def _overview(found: Attribution) -> Table:
    table = Table.grid(padding=(0, 2))
    served = found.served
    table.add_row("model", f"{served.model} on {served.num_threads} threads, tailrace {served.version}")
    rates = f"{found.output_tokens_per_s:,.1f} tokens/s out, {found.prompt_tokens_per_s:,.1f} tokens/s of prompts"
    table.add_row("rates", f"{rates}, {found.requests_per_s:.2f} requests/s, {found.steps_per_s:,.1f} steps/s")
    table.add_row("cores in use", ", ".join(f"{name} {cores:.2f}" for name, cores in sorted(found.processes.items())))
    if served.ceilings is not None:
        reads = format_rate(served.ceilings.memory_bytes_per_s, "B/s")
        peaks = ", ".join(
            f"{numbers} {format_rate(rate, 'op/s')}" for numbers, rate in served.ceilings.ops_per_s.items()
        )
        table.add_row("ceilings", f"memory {reads}, {peaks}")
    return table


def _engine(found: Attribution) -> Table:
    table = _columns(f"engine, of {found.seconds:.1f} s", "seconds", "share")
    for part, seconds in found.engine.items():
        table.add_row(part, f"{seconds:.3f}", f"{seconds / found.seconds:.1%}")
    total = sum(found.engine.values())
    table.add_row("all", f"{total:.3f}", f"{total / found.seconds:.1%}")
    return table


def _ops(found: Attribution) -> Table:
    title = f"ops, of {found.num_timed_steps:.0f} timed steps"
    table = _columns(title, "share", "bytes/step", "read", "of memory", "done", "of peak", "binds")
    for line in found.ops:
        moved = format_bytes(int(line.num_bytes)) if line.num_bytes else ""
        table.add_row(line.name, f"{line.share:.1%}", moved, *_roof_cells(line.roof))
    if found.whole is not None:
        table.add_row("all", "100%", "", *_roof_cells(found.whole))
    return table


def _roof_cells(roof: Roof) -> Iterator[str]:
    yield format_rate(roof.bytes_per_s, "B/s") if roof.bytes_per_s else ""
    yield "" if roof.memory_share is None or not roof.bytes_per_s else f"{roof.memory_share:.0%}"
    yield format_rate(roof.ops_per_s, "op/s") if roof.ops_per_s else ""
    yield "" if roof.arithmetic_share is None or not roof.ops_per_s else f"{roof.arithmetic_share:.0%}"
    yield (roof.binds or "") if roof.bytes_per_s or roof.ops_per_s else ""


def _first_token(found: Attribution) -> Table:
    table = _columns(f"first token, mean of {found.num_first_tokens:.0f}", "ms", "share")
    if found.first_token:
        _split(table, found.first_token, 1e3)
    return table


def _split(table: Table, parts: Mapping[str, float], scale: float) -> None:
    total = sum(parts.values())
    for name, amount in parts.items():
        table.add_row(name, f"{amount * scale:.3f}", f"{amount / total:.1%}" if total else "")
    table.add_row("all", f"{total * scale:.3f}", "100%" if total else "")


def _path(found: Attribution) -> Table:
    table = _columns("from the engine to clients", "us per token", "tokens timed")
    for line in found.path:
        if line.num_tokens:
            table.add_row(line.name, f"{line.seconds_per_token * 1e6:.1f}", f"{line.num_tokens:,.0f}")
    return table


def _counters(counted: Sequence[CountedLine]) -> Table:
    table = _columns("counted by the processor", "")
    for line in counted:
        table.add_row(*line)
    return table


def _columns(title: str, *names: str) -> Table:
    table = Table(title, box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right")
    return table
