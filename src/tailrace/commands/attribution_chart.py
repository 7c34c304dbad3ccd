"""An attribution as a picture: bars of where the time went, and the ops under the ceilings of the machine."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.commands.roofline_chart import Point, draw_ceilings
from tailrace.telemetry.attribution import Attribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_attribution"]

_NAMED = 0.03  # of a bar: what is less has no room for its name
_MAX_POINTS = 6


def draw_attribution(figure: "Figure", found: Attribution) -> None:
    """Without ceilings, the bars alone."""
    has_roof = found.served.ceilings is not None and any(_points(found))
    bars, *rest = figure.subplots(2 if has_roof else 1, 1, squeeze=False, height_ratios=[2, 3] if has_roof else None)
    _draw_bars(bars[0], found)
    if has_roof and found.served.ceilings is not None:
        draw_ceilings(rest[0][0], found.served.ceilings, _points(found))


def _draw_bars(axes: "Axes", found: Attribution) -> None:
    rows: dict[str, Mapping[str, float]] = {
        f"first token\n{found.first_token_s * 1e3:.1f} ms": found.first_token,
        "computed\nby op": {line.name: line.seconds for line in found.ops},
        f"engine\n{found.seconds:.0f} s": found.engine,
    }
    shown = {name: parts for name, parts in rows.items() if sum(parts.values()) > 0.0}
    for row, parts in enumerate(shown.values()):
        _draw_bar(axes, row, parts)
    axes.set_yticks(range(len(shown)), list(shown))
    axes.set_xlim(0.0, 1.0)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    served = found.served
    axes.set_title(f"{served.model}, {found.output_tokens_per_s:,.0f} tokens/s", loc="left")


def _draw_bar(axes: "Axes", row: int, parts: Mapping[str, float]) -> None:
    total, left = sum(parts.values()), 0.0
    for index, (name, amount) in enumerate(parts.items()):
        share = amount / total
        axes.barh(row, share, left=left, color=f"C{index % 10}", alpha=0.6, edgecolor="white")
        if share >= _NAMED:
            axes.annotate(f"{name}\n{share:.0%}", (left + share / 2, row), ha="center", va="center", fontsize=7)
        left += share


def _points(found: Attribution) -> list[Point]:
    """The dearest ops that both move and multiply."""
    with_both = [line for line in found.ops if line.roof.bytes_per_s > 0.0 and line.roof.ops_per_s > 0.0]
    return [
        Point(line.name, line.roof.ops_per_s / line.roof.bytes_per_s, line.roof.ops_per_s)
        for line in with_both[:_MAX_POINTS]
    ]
