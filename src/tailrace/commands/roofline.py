"""`tailrace roofline`: what this machine does at best."""

import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from cyclopts.types import PositiveInt
from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table

from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.plotting import PlotFile, draw
from tailrace.commands.quantity import format_bytes, format_rate
from tailrace.commands.roofline_chart import draw_roofline
from tailrace.errors import SetupError
from tailrace.limits import available_bytes
from tailrace.measure.caches import data_caches
from tailrace.measure.roofline import NOISY_SPREAD, MeasuringPlan, measure_roofline, thread_counts
from tailrace.ops.load import instruction_set, load_gauge
from tailrace.telemetry.kept_roofline import KeptRoofline, this_machine
from tailrace.telemetry.roofline import Ceilings, Roofline
from tailrace.weights.default_model import cache_dir

__all__ = ["kept_roofline", "measured_here", "roofline"]

roofline = App(
    name="roofline",
    help_epilogue="Examples:\n"
    "  tailrace roofline\n"
    "  tailrace roofline --threads 1 8 --fresh\n"
    "  tailrace roofline --plot roofline.svg --json roofline.json",
)


@roofline.default
def run(
    *,
    threads: Annotated[list[PositiveInt] | None, Parameter(consume_multiple=True)] = None,
    fresh: bool = False,
    plot: PlotFile | None = None,
    json: JsonTarget = None,
) -> None:
    """Measure, once, how fast this machine reads memory and multiplies: the limits that a server is held against.

    It takes all cores for some ten seconds; what was found is kept in the cache directory, for 'tailrace attribute' and
    for servers that start from now on. TAILRACE_CPU_ISA measures another instruction set than the best.

    Parameters
    ----------
    threads
        Numbers of threads to measure [1, 2, 4 and so on, and as many as there are cores].
    fresh
        Measure again, whatever is known.
    plot
        Write a chart to this PNG or SVG file.
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    kept = kept_roofline()
    counts = sorted(set(threads or thread_counts(kept.machine.num_cpus)))
    if counts[-1] > kept.machine.num_cpus:
        raise SetupError(f"--threads {counts[-1]}: this process may use {kept.machine.num_cpus} cores")
    found = None if fresh else kept.find()
    if found is None or not found.covers(counts):
        found = measured_here(kept, counts)
    if plot is not None:
        draw(plot, (7.0, 4.5), lambda figure: draw_roofline(figure, found))
    show_figures(_render(found), msgspec.to_builtins(found), json)


def kept_roofline() -> KeptRoofline:
    """What is known of this machine."""
    return KeptRoofline(cache_dir() / "roofline", this_machine(instruction_set()))


def measured_here(kept: KeptRoofline, counts: list[int]) -> Roofline:
    """Measure, keep what was found, and say so when the machine was not quiet."""
    plan = MeasuringPlan(kept.machine, counts, data_caches(), available_bytes())
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Measuring", total=None)
        found = measure_roofline(plan, load_gauge, lambda done, total: bar.update(task, completed=done, total=total))
    if found.spread > NOISY_SPREAD:
        sys.stderr.write(
            f"tailrace: the machine was busy: {found.noisiest} differed by {found.spread:.0%} between two rounds. "
            "Measure again with --fresh when it is quiet.\n"
        )
    try:
        kept.keep(found)
    except SetupError as error:  # what was measured is true all the same
        sys.stderr.write(f"tailrace: {error}\n")
    return found


def _render(found: Roofline) -> Group:
    machine = found.machine
    heading = Table.grid(padding=(0, 2))
    heading.add_row("processor", f"{machine.cpu}, {machine.num_cpus} cores")
    heading.add_row("instruction set", machine.instruction_set)
    heading.add_row("spread", f"{found.spread:.0%}: {found.noisiest}")
    return Group(heading, "", _reads(found), "", _rates(found))


def _reads(found: Roofline) -> Table:
    """A row for each size, a column for each number of threads."""
    table = _columns("reading", found)
    for index, read in enumerate(found.threads[-1].reads):
        cells = [_read(each, index) for each in found.threads]
        table.add_row(f"{read.where}, {format_bytes(read.num_bytes)}", *cells)
    return table


def _read(ceilings: Ceilings, index: int) -> str:
    return format_rate(ceilings.reads[index].bytes_per_s, "B/s") if index < len(ceilings.reads) else ""


def _rates(found: Roofline) -> Table:
    table = _columns("multiplying and adding", found)
    for numbers in found.threads[-1].ops_per_s:
        table.add_row(numbers, *(format_rate(each.ops_per_s[numbers], "op/s") for each in found.threads))
    return table


def _columns(title: str, found: Roofline) -> Table:
    table = Table(title, box=None, padding=(0, 2, 0, 0))
    for each in found.threads:
        table.add_column(f"{each.num_threads} thread{'s' if each.num_threads > 1 else ''}", justify="right")
    return table
