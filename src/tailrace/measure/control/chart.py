"""Responses as pictures: rows of block characters for a terminal, and an SVG file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from tailrace.measure.control.plant import Sample
from tailrace.measure.control.response import Response

__all__ = ["TRACES", "Trace", "blocks", "to_svg"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 560, 220  # of a panel
_LEFT, _TOP, _BOTTOM = 36, 34, 24


@dataclass(frozen=True, slots=True)
class Trace:
    """What is drawn of a sample, from 0 to `top`."""

    name: str
    field: str
    top: float
    colour: str

    def values(self, samples: Iterable[Sample]) -> list[float]:
        return [float(getattr(sample, self.field)) for sample in samples]


TRACES = (
    Trace("P99 / target", "p99_ratio", 2.0, "#c0392b"),
    Trace("may run", "max_running", 64.0, "#2c3e50"),
    Trace("run", "num_running", 64.0, "#2980b9"),
    Trace("pace", "pace", 1.0, "#27ae60"),
    Trace("free memory", "free_share", 1.0, "#8e44ad"),
)


def blocks(values: Iterable[float], top: float) -> str:
    """A character for each value, as high as its share of `top`."""
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(min(max(value / top, 0.0), 1.0) * last)] for value in values)


def to_svg(responses: Sequence[Response]) -> str:
    """A panel for each response, one below the other; every trace from 0 at the bottom to its own top."""
    height = _HEIGHT * len(responses)
    panels = "".join(_panel(response, index * _HEIGHT) for index, response in enumerate(responses))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n{panels}</svg>\n'
    )


def _panel(response: Response, top: int) -> str:
    lines = [f'<g transform="translate({_LEFT},{top})">', f'<text y="14" font-size="13">{escape(response.name)}</text>']
    for index, trace in enumerate(TRACES):
        label = f"{escape(trace.name)} (to {trace.top:g})"
        lines.append(f'<text x="{index * 105}" y="28" fill="{trace.colour}">{label}</text>')
        points = _points(response.samples, trace)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{trace.colour}" stroke-width="1.5"/>')
    lines += _axis(response.samples)
    return "\n".join([*lines, "</g>\n"])


def _points(samples: Sequence[Sample], trace: Trace) -> str:
    shares = [min(max(value / trace.top, 0.0), 1.0) for value in trace.values(samples)]
    return " ".join(
        f"{_x(samples, sample.at_s):.1f},{_y(share):.1f}" for sample, share in zip(samples, shares, strict=True)
    )


def _axis(samples: Sequence[Sample]) -> list[str]:
    """The seconds, the moment of the change, and the target: P99 of 1, half-way up."""
    left, right = _x(samples, samples[0].at_s), _x(samples, samples[-1].at_s)
    change = f"{_x(samples, 0.0):.1f}"
    seconds = range(0, int(samples[-1].at_s) + 1, 5)
    return [
        f'<path d="M{left},{_y(0.0)}H{right}M{change},{_y(0.0)}V{_y(1.0)}" stroke="#999" fill="none"/>',
        f'<path d="M{left},{_y(0.5)}H{right}" stroke="#c0392b" stroke-dasharray="2 4" fill="none"/>',
        *(f'<text x="{_x(samples, at_s):.1f}" y="{_HEIGHT - 8}">{at_s} s</text>' for at_s in seconds),
    ]


def _x(samples: Sequence[Sample], at_s: float) -> float:
    first_s, last_s = samples[0].at_s, samples[-1].at_s
    return (at_s - first_s) / (last_s - first_s) * (_WIDTH - 2 * _LEFT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)
