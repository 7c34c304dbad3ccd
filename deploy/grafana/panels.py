"""What a dashboard is made of: panels and their queries, as Grafana's classic JSON has them. Knows no metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = ["HERE", "Json", "Panel", "Query", "cells", "histogram", "lines", "number", "stack", "states"]

Json = dict[str, Any]

HERE = "HERE"
"""In the braces of a query, stands for the servers that are chosen at the top of the dashboard."""

_DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN = 'instance=~"$instance"'
_WIDTH = 24  # of a dashboard, in Grafana's columns


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` names its lines, by labels in double braces."""

    expression: str
    legend: str = ""

    def as_json(self, ref_id: str, more: Mapping[str, Any]) -> Json:
        expression = self.expression.replace(HERE, _CHOSEN)
        shown = {"expr": expression, "legendFormat": self.legend or "__auto", "refId": ref_id}
        return {"datasource": _DATASOURCE, "editorMode": "code", **shown, **more}


@dataclass(frozen=True, slots=True)
class Panel:
    """`kind` is Grafana's name of a visualisation; `target` is what it wants of every query besides."""

    kind: str
    title: str
    meaning: str
    queries: tuple[Query, ...]
    defaults: Json  # of its fields
    options: Json
    width: int = 8
    height: int = 8
    interval: str | None = None  # the least time between two points
    target: Json = field(default_factory=dict)

    def as_json(self, panel_id: int, left: int, top: int) -> Json:
        targets = [query.as_json(chr(ord("A") + place), self.target) for place, query in enumerate(self.queries)]
        body = {
            "id": panel_id,
            "type": self.kind,
            "title": self.title,
            "description": self.meaning,
            "datasource": _DATASOURCE,
            "gridPos": {"x": left, "y": top, "w": self.width, "h": self.height},
            "targets": targets,
            "fieldConfig": {"defaults": self.defaults, "overrides": []},
            "options": self.options,
        }
        return body if self.interval is None else {**body, "interval": self.interval}


def lines(title: str, meaning: str, unit: str, *queries: Query, width: int = 8, most: float | None = None) -> Panel:
    """How numbers went. `most` is where the axis ends, for shares."""
    return _time_series(title, meaning, unit, queries, width=width, most=most)


def stack(title: str, meaning: str, unit: str, *queries: Query, width: int = 8) -> Panel:
    """How parts of a whole went, on top of one another."""
    stacked = {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}
    return _time_series(title, meaning, unit, queries, width=width, custom=stacked)


def _time_series(
    title: str,
    meaning: str,
    unit: str,
    queries: tuple[Query, ...],
    *,
    width: int,
    most: float | None = None,
    custom: Mapping[str, Any] = MappingProxyType({}),
) -> Panel:
    drawn = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": False}
    defaults: Json = {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}, "custom": {**drawn, **custom}}
    if most is not None:
        defaults["max"] = most
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel("timeseries", title, meaning, queries, defaults, options, width)


def number(title: str, meaning: str, unit: str, query: Query, steps: Sequence[tuple[float, str]] = ()) -> Panel:
    """What a number is now. `steps` colour it from a value upwards; below them it is green."""
    colours = [{"color": "green", "value": None}, *({"color": colour, "value": least} for least, colour in steps)]
    defaults = {
        "unit": unit,
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": colours},
    }
    options = {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return Panel("stat", title, meaning, (query,), defaults, options, width=3, height=4)


def cells(title: str, meaning: str, *queries: Query, cell: str) -> Panel:
    """Shares as a map of cells, a row for each line of the queries: red is 0%, green is 100%."""
    defaults = {
        "unit": "percentunit",
        "min": 0,
        "max": 1,
        "color": {"mode": "continuous-RdYlGr"},
        "custom": {"fillOpacity": 90, "lineWidth": 0},
    }
    options = {
        "showValue": "auto",
        "rowHeight": 0.9,
        "colWidth": 1,
        "legend": {"showLegend": False},
        "tooltip": {"mode": "single"},
    }
    return Panel("status-history", title, meaning, queries, defaults, options, _WIDTH, 10, interval=cell)


def states(title: str, meaning: str, query: Query, words: Mapping[int, tuple[str, str]], width: int = 8) -> Panel:
    """What holds when: `words` has a name and a colour for each value."""
    mapped = {str(value): {"text": text, "color": colour} for value, (text, colour) in words.items()}
    defaults = {
        "mappings": [{"type": "value", "options": mapped}],
        "color": {"mode": "thresholds"},
        "custom": {"fillOpacity": 80, "lineWidth": 0},
    }
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "legend": {"showLegend": False},
        "tooltip": {"mode": "single"},
    }
    return Panel("state-timeline", title, meaning, (query,), defaults, options, width)


def histogram(title: str, meaning: str, unit: str, query: Query, width: int = 8) -> Panel:
    """How often each bucket of a histogram was met, over time."""
    options = {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "exponent": 0.5, "fill": "dark-blue"},
        "cellGap": 1,
        "yAxis": {"unit": unit, "axisPlacement": "left"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": True},
    }
    return Panel("heatmap", title, meaning, (query,), {}, options, width, target={"format": "heatmap"})
