"""`tailrace attribute`: where the time of a running server goes, and how far it is from what its machine can do."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from tailrace.bench.exchange import Address, HttpError, WireError
from tailrace.bench.server import Server
from tailrace.commands.attribution_chart import draw_attribution
from tailrace.commands.attribution_table import CountedLine, render_attribution
from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.keys import read_admin_key
from tailrace.commands.plotting import PlotFile, draw
from tailrace.commands.quantity import format_rate
from tailrace.commands.roofline import kept_roofline, measured_here
from tailrace.errors import SetupError
from tailrace.telemetry.attribution import Attribution
from tailrace.telemetry.attribution import attribute as attributed
from tailrace.telemetry.attribution_reading import AttributionReading, host_name
from tailrace.telemetry.conclusion import conclude
from tailrace.telemetry.memory_controllers import MemoryControllers
from tailrace.telemetry.perf_events import LINE_BYTES, ProcessCounters
from tailrace.telemetry.roofline import Ceilings

__all__ = ["attribute"]

_PATH = "/debug/attribution"
_TIMEOUT_S = 30.0
_LONGEST_S = 86400.0
_AT_REST = 0.99  # of the window: the machine may be measured, nobody is disturbed

attribute = App(
    name="attribute",
    help_epilogue="Examples:\n"
    "  tailrace attribute\n"
    "  tailrace attribute --url http://10.0.0.7:8000 --seconds 30 --plot where.svg\n"
    "  tailrace attribute --admin-key-file admin.key --json attribution.json",
)


@attribute.default
def run(
    *,
    url: str = "http://127.0.0.1:8000",
    seconds: Annotated[float, Parameter(validator=Number(gt=0, lte=_LONGEST_S))] = 10.0,
    admin_key_file: Annotated[Path | None, Parameter(name=["--admin-key-file", "--key-file"])] = None,
    counters: Annotated[bool, Parameter(negative="--no-counters")] = True,
    plot: PlotFile | None = None,
    json: JsonTarget = None,
) -> None:
    """Watch a running server for a while, and show where its time goes and which limit of the machine binds.

    It costs the server nothing but two requests. The ceilings are those that 'tailrace roofline' has measured on the
    server's machine; when there are none, and the server is on this machine and at rest, they are measured now.

    Parameters
    ----------
    url
        The server.
    seconds
        How long to watch.
    admin_key_file
        The admin key, where the server has one [TAILRACE_ADMIN_KEY].
    counters
        Also count instructions and cache misses of the engine, where it runs on this machine and that may be.
    plot
        Write bars and a roofline to this PNG or SVG file.
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    server = Server(Address.parse(url, read_admin_key(admin_key_file)), _TIMEOUT_S)
    watched = _watch(server, seconds, has_counters=counters)
    found = watched.attribution
    conclusion = conclude(found)
    if plot is not None:
        draw(plot, (9.0, 7.0), lambda figure: draw_attribution(figure, found))
    notes = [*watched.notes, *_notes(found)]
    figures: dict[str, Any] = {"conclusion": conclusion, "notes": notes, "counters": watched.counts}
    table = render_attribution(found, conclusion, _counted(watched.counts, found), notes)
    show_figures(table, figures | msgspec.to_builtins(found), json)


@dataclass(slots=True)
class _Watched:
    """What was seen of a server, and counted beside it."""

    attribution: Attribution
    counts: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _watch(server: Server, seconds: float, *, has_counters: bool) -> _Watched:
    first = _read(server)
    is_here = first.served.host != "" and first.served.host == host_name()
    counts: dict[str, float] = {}
    notes: list[str] = []
    with ExitStack() as stack:
        if has_counters:
            stack.enter_context(_counting(first.engine_pid if is_here else None, counts, notes))
        time.sleep(seconds)
    last = _read(server)
    if last.engine_pid != first.engine_pid or last.at_s <= first.at_s:
        raise SetupError("the server's engine was started anew meanwhile: ask again")
    if last.served.ceilings is None and is_here and _is_at_rest(first, last):
        last.served = msgspec.structs.replace(last.served, ceilings=_measured(last.served.num_threads))
    return _Watched(attributed(first, last), counts, notes)


@contextmanager
def _counting(pid: int | None, counts: dict[str, float], notes: list[str]) -> Iterator[None]:
    """Fills `counts` with what the processor, and its memory controllers, count meanwhile; `notes` says why not."""
    with ExitStack() as stack:
        try:
            if pid is None:
                raise SetupError("the processor's counters are read on the server's own machine alone: run this there")
            process = stack.enter_context(closing(ProcessCounters(pid)))
            stack.callback(lambda: counts.update(process.counts()))
            memory = stack.enter_context(closing(MemoryControllers()))
            stack.callback(lambda: counts.update(memory_bytes=memory.num_bytes()))
        except SetupError as error:
            notes.append(str(error))
        yield


def _read(server: Server) -> AttributionReading:
    """What the server says now. Raises SetupError, in one line."""
    url = server.address.url
    try:
        body = asyncio.run(server.get(_PATH))
        return _decode(body)
    except HttpError as error:
        raise SetupError(_refusal(url, error)) from error
    except WireError as error:
        raise SetupError(f"{url} does not answer: {error}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SetupError(f"{url} answers {_PATH} in words of another version: {error}") from error


_decode = msgspec.json.Decoder(AttributionReading).decode


def _refusal(url: str, error: HttpError) -> str:
    if error.status in {401, 403}:
        return f"{url} wants its admin key: give it with --admin-key-file, or as TAILRACE_ADMIN_KEY ({error})"
    if error.status in {404, 405}:
        return f"{url} has no {_PATH}: it is another kind of server, or an older one ({error})"
    return f"{url} answers with an error: {error}"


def _is_at_rest(first: AttributionReading, last: AttributionReading) -> bool:
    idle_s = last.engine_seconds.get("idle", 0.0) - first.engine_seconds.get("idle", 0.0)
    return idle_s >= _AT_REST * (last.at_s - first.at_s)


def _measured(num_threads: int) -> Ceilings:
    kept = kept_roofline()
    known = kept.find()
    found = known if known is not None and known.covers([num_threads]) else measured_here(kept, [num_threads])
    return found.of(num_threads)


def _notes(found: Attribution) -> list[str]:
    """What keeps some of the figures from being there, or from being of this window."""
    notes = []
    if found.served.ceilings is None:
        notes.append(
            "no ceilings are known there: run 'tailrace roofline' on the server's machine, while it is at rest"
        )
    if found.num_timed_steps == 0:
        notes.append("no step was timed yet: one in 64 is")
    elif found.is_since_start:
        notes.append("no step was timed in this window: the ops are those since the server's start")
    return notes


def _counted(counts: dict[str, float], found: Attribution) -> list[CountedLine]:
    """What was counted beside what the engine says that it moved."""
    if not counts:
        return []
    moved = found.whole.bytes_per_s * found.engine.get("compute", 0.0) if found.whole is not None else 0.0
    lines = [
        CountedLine("instructions per cycle", f"{counts['instructions'] / max(counts['cycles'], 1.0):.2f}"),
        CountedLine("instructions", f"{counts['instructions'] / found.seconds:.3g} per second"),
        CountedLine("bytes the steps had to move", _rate(moved, found)),
        CountedLine("lines that the last cache lacked", _rate(counts["cache_misses"] * LINE_BYTES, found)),
    ]
    if "memory_bytes" in counts:
        lines.append(CountedLine("moved by the memory controllers, for all", _rate(counts["memory_bytes"], found)))
    return lines


def _rate(num_bytes: float, found: Attribution) -> str:
    return format_rate(num_bytes / found.seconds, "B/s")
