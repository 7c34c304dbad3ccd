"""Writes series as Prometheus reads them: in its text format, or in OpenMetrics, which has room for exemplars.

Written here and not by a library, since a scrape of a thousand series must not hold up streams: what comes before the
values of a label set is made once.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from tailrace.telemetry.metric import Kind
from tailrace.telemetry.series import (
    Exemplar,
    Histogram,
    LabelledHistogram,
    LabelledNumber,
    Labels,
    Number,
    Series,
    histograms_of,
    numbers_of,
)

__all__ = ["Shown", "exposition"]

_OPEN_METRICS = "application/openmetrics-text"
_OPEN_METRICS_TYPE = f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8"
_TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_MAX_HEADS, _MAX_PREFIXES = 1 << 10, 1 << 14

Pairs = tuple[tuple[str, str], ...]  # names of labels with their values


class Shown(NamedTuple):
    """A series under a name, with labels that all of its values have besides."""

    name: str  # without the `_total` of a counter
    series: Series
    constant: Pairs = ()

    @property
    def sample_name(self) -> str:
        return f"{self.name}_total" if self.series.metric.kind is Kind.COUNTER else self.name

    def pairs(self, labels: Labels) -> Pairs:
        """The labels of one of its values, by name."""
        return (*self.constant, *zip(self.series.metric.labels, labels, strict=True))


def exposition(shown: Iterable[Shown], accept: str) -> tuple[bytes, str]:
    """All series and the content type, in the format that an Accept header asks for."""
    is_open = _OPEN_METRICS in accept
    lines: list[str] = []
    for each in shown:
        metric = each.series.metric
        lines.append(_head(each.name if is_open else each.sample_name, metric.kind, metric.help, is_open=is_open))
        lines += (
            _numbers(each)
            if isinstance(each.series, Number | LabelledNumber)
            else _histograms(each, has_exemplars=is_open)
        )
    lines.append("# EOF\n" if is_open else "")
    return "\n".join(lines).encode(), _OPEN_METRICS_TYPE if is_open else _TEXT_TYPE


@lru_cache(_MAX_HEADS)
def _head(name: str, kind: Kind, words: str, *, is_open: bool) -> str:
    escaped = words.translate(_ESCAPES if is_open else _HELP_ESCAPES)
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind.value}"


def _numbers(shown: Shown) -> list[str]:
    assert isinstance(shown.series, Number | LabelledNumber), "others are histograms"
    name, values = shown.sample_name, numbers_of(shown.series)
    return [f"{_prefix(name, shown.pairs(labels))}{float(value)}" for labels, value in values.items()]


def _histograms(shown: Shown, *, has_exemplars: bool) -> list[str]:
    assert isinstance(shown.series, Histogram | LabelledHistogram), "others are numbers"
    lines: list[str] = []
    for labels, histogram in histograms_of(shown.series).items():
        pairs = shown.pairs(labels)
        if not any(histogram.counts):
            lines.append(_nothing_observed(shown.name, pairs, histogram.metric.buckets))
            continue
        counts = list(accumulate(histogram.counts))
        prefixes = _bucket_prefixes(shown.name, pairs, histogram.metric.buckets)
        if has_exemplars and histogram.exemplars:
            lines += _buckets_with_exemplars(prefixes, counts, histogram.exemplars)
        else:
            lines += [f"{prefix}{count}.0" for prefix, count in zip(prefixes, counts, strict=True)]
        lines.append(f"{_prefix(f'{shown.name}_count', pairs)}{counts[-1]}.0")
        lines.append(f"{_prefix(f'{shown.name}_sum', pairs)}{float(histogram.sum)}")
    return lines


def _buckets_with_exemplars(
    prefixes: tuple[str, ...], counts: list[int], exemplars: Mapping[int, Exemplar]
) -> Iterator[str]:
    for place, (prefix, count) in enumerate(zip(prefixes, counts, strict=True)):
        exemplar = exemplars.get(place)
        yield f"{prefix}{count}.0" if exemplar is None else f"{prefix}{count}.0{_exemplar(exemplar)}"


def _exemplar(exemplar: Exemplar) -> str:
    return f' # {{trace_id="{exemplar.trace_id}"}} {float(exemplar.value)} {exemplar.at_s:.3f}'


@lru_cache(_MAX_PREFIXES)
def _bucket_prefixes(name: str, pairs: Pairs, buckets: tuple[float, ...]) -> tuple[str, ...]:
    bounds = (*map(str, map(float, buckets)), "+Inf")
    return tuple(_line_start(f"{name}_bucket", (*pairs, ("le", bound))) for bound in bounds)


@lru_cache(_MAX_PREFIXES)
def _nothing_observed(name: str, pairs: Pairs, buckets: tuple[float, ...]) -> str:
    """All lines of a histogram as it begins."""
    others = (_line_start(f"{name}_count", pairs), _line_start(f"{name}_sum", pairs))
    return "\n".join(f"{start}0.0" for start in (*_bucket_prefixes(name, pairs, buckets), *others))


@lru_cache(_MAX_PREFIXES)
def _prefix(name: str, pairs: Pairs) -> str:
    return _line_start(name, pairs)


def _line_start(name: str, pairs: Pairs) -> str:
    """All of a line that comes before its value."""
    if not pairs:
        return f"{name} "
    labels = ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in sorted(pairs))
    return f"{name}{{{labels}}} "
