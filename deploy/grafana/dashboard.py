"""A dashboard as Grafana's classic JSON: rows of panels from left to right, and what can be chosen at the top."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from deploy.grafana.panels import Json, Panel

__all__ = ["Dashboard", "Row"]

_SCHEMA_VERSION = 39  # Grafana 11; newer ones bring it up to date when they load it
_WIDTH = 24
_DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`name` is its address and its file's name, and stays when the title changes."""

    name: str
    title: str
    meaning: str
    rows: tuple[Row, ...]
    has_classes: bool = False  # whether one can choose among service classes

    @property
    def uid(self) -> str:
        return f"tailrace-{self.name}"

    def as_text(self) -> str:
        return json.dumps(self._as_json(), indent=2, ensure_ascii=False) + "\n"

    def _as_json(self) -> Json:
        return {
            "uid": self.uid,
            "title": f"Tailrace / {self.title}",
            "description": self.meaning,
            "tags": ["tailrace"],
            "schemaVersion": _SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,  # one crosshair for all panels
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "annotations": {"list": [_alerts()]},
            "links": [_others()],
            "templating": {"list": list(self._variables())},
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterator[Json]:
        panel_id, top = 1, 0
        for row in self.rows:
            yield _heading(row.title, panel_id, top)
            panel_id, top, left, height = panel_id + 1, top + 1, 0, 0
            for panel in row.panels:
                if left + panel.width > _WIDTH:
                    top, left, height = top + height, 0, 0
                yield panel.as_json(panel_id, left, top)
                panel_id, left, height = panel_id + 1, left + panel.width, max(height, panel.height)
            top += height

    def _variables(self) -> Iterator[Json]:
        yield {
            "name": "datasource",
            "label": "Prometheus",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
            "current": {},
        }
        yield _choice("model", "Model", "label_values(tailrace_build_info, model_name)")
        yield _choice("instance", "Server", 'label_values(tailrace_build_info{model_name=~"$model"}, instance)')
        if self.has_classes:
            known = 'label_values(tailrace_requests_on_target_total{instance=~"$instance"}, class)'
            yield _choice("class", "Class", known)


def _heading(title: str, panel_id: int, top: int) -> Json:
    place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
    return {"id": panel_id, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _choice(name: str, label: str, query: str) -> Json:
    """Some or all of what the server has as values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"qryType": 1, "query": query, "refId": name},
        "definition": query,
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _alerts() -> Json:
    """A mark wherever an alert of ours fires."""
    return {
        "name": "Alerts",
        "datasource": _DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Tailrace.*", alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}} {{class}} {{level}}",
        "step": "60s",
    }


def _others() -> Json:
    link = {"title": "Tailrace", "type": "dashboards", "tags": ["tailrace"], "asDropdown": True}
    return {**link, "includeVars": True, "keepTime": True}
