"""The roofline as a chart: what can be done at most, by how many operations there are for each byte that is read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tailrace.telemetry.roofline import Ceilings, Roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "draw_ceilings", "draw_roofline"]

_FEWEST, _MOST = 0.1, 10_000.0  # operations a byte


class Point(NamedTuple):
    """Something that was measured: where it lies under the ceilings."""

    name: str
    ops_per_byte: float
    ops_per_s: float


def draw_roofline(figure: "Figure", roofline: Roofline) -> None:
    """The ceilings with the most threads."""
    machine = roofline.machine
    ceilings = roofline.threads[-1]
    axes = figure.subplots()
    draw_ceilings(axes, ceilings)
    axes.set_title(f"{machine.cpu}, {machine.instruction_set}, {ceilings.num_threads} threads", loc="left")


def draw_ceilings(axes: "Axes", ceilings: Ceilings, points: Iterable[Point] = ()) -> None:
    """Slopes are what can be read, level lines what can be multiplied, dots what was done."""
    top = max(ceilings.ops_per_s.values())
    for read in {read.where: read for read in ceilings.reads}.values():  # of each cache what nearly fills it
        ends = min(top / read.bytes_per_s, _MOST)
        line = [_FEWEST, ends], [_FEWEST * read.bytes_per_s, ends * read.bytes_per_s]
        axes.plot(*line, color="tab:blue", linewidth=2.0 if read.where == "memory" else 0.8)
        axes.annotate(f" {read.where}", (_FEWEST, _FEWEST * read.bytes_per_s), color="tab:blue", va="bottom")
    for numbers, ops_per_s in ceilings.ops_per_s.items():
        axes.axhline(ops_per_s, color="tab:red", linewidth=0.8)
        axes.annotate(numbers, (_MOST, ops_per_s), color="tab:red", ha="right", va="bottom")
    for point in points:
        axes.plot([point.ops_per_byte], [point.ops_per_s], "o", color="black", markersize=4)
        axes.annotate(f" {point.name}", (point.ops_per_byte, point.ops_per_s), va="top")
    axes.set(xscale="log", yscale="log", xlim=(_FEWEST, _MOST))
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("operations per second")
    axes.grid(visible=True, which="major", linewidth=0.3)
