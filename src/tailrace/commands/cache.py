"""`tailrace cache`: the KV blocks that servers have left in shared memory."""

import sys
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App
from rich.console import Console
from rich.table import Table

from tailrace.commands.quantity import format_bytes
from tailrace.errors import SetupError
from tailrace.levels.api import LevelFailure
from tailrace.levels.config import HOST_DIRECTORY
from tailrace.levels.segments import SegmentReport, list_segments, remove_segment

__all__ = ["cache"]

cache = App(name="cache", help_epilogue="Examples:\n  tailrace cache list\n  tailrace cache clear")


@cache.command(name="list")
def show(*, directory: Path = HOST_DIRECTORY, json: bool = False) -> None:
    """Show the segments of shared memory in which servers of this user keep KV blocks.

    Parameters
    ----------
    directory
        What servers were given as --kv-host-directory.
    json
        Write JSON.
    """
    reports = list_segments(directory)
    if json:
        sys.stdout.write(msgspec.json.encode([_plain(report) for report in reports]).decode() + "\n")
    elif reports:
        Console().print(_table(reports))
    else:
        sys.stdout.write("No KV blocks are kept in shared memory.\n")


@cache.command
def clear(*, directory: Path = HOST_DIRECTORY) -> None:
    """Remove all segments that no server uses at present.

    Parameters
    ----------
    directory
        What servers were given as --kv-host-directory.
    """
    in_use: list[str] = []
    for report in list_segments(directory):
        try:
            remove_segment(report.path)
        except LevelFailure as failure:
            in_use.append(str(failure))
        else:
            sys.stdout.write(f"Removed {report.path}: {format_bytes(report.memory_bytes)}\n")
    if in_use:
        raise SetupError("; ".join(in_use))


def _plain(report: SegmentReport) -> dict[str, Any]:
    return {
        "path": str(report.path),
        "block_bytes": report.layout and report.layout.block_bytes,
        "max_bytes": report.layout and report.layout.file_bytes,
        "memory_bytes": report.memory_bytes,
        "blocks": report.num_blocks,
        "users": report.num_users,
        "idle_s": round(report.idle_s, 1),
    }


def _table(reports: list[SegmentReport]) -> Table:
    table = Table(box=None)
    table.add_column("segment")
    for title in ("a block", "blocks", "memory", "at most", "users"):
        table.add_column(title, justify="right")
    for report in reports:
        layout = report.layout
        table.add_row(
            str(report.path),
            format_bytes(layout.block_bytes) if layout else "?",
            f"{report.num_blocks:,}" if layout else "?",
            format_bytes(report.memory_bytes),
            format_bytes(layout.file_bytes) if layout else "?",
            str(report.num_users),
        )
    return table
