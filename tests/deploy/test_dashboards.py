"""Dashboards for Grafana: the files are what the code makes, and are laid out as Grafana wants them."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from deploy.grafana.__main__ import DASHBOARDS, FOLDER
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panels import Query, lines, number

NAMES = [each.name for each in DASHBOARDS]
WIDTH = 24


def _stored(name: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return stored


def _panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in _stored(name)["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_a_file_is_what_the_code_makes(dashboard: Dashboard) -> None:
    stored = (FOLDER / f"{dashboard.name}.json").read_text(encoding="utf-8")
    assert stored == dashboard.as_text(), "make dashboards writes it again"


def test_no_file_is_left_of_a_dashboard_that_is_no_more() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


def test_each_dashboard_has_an_address_of_its_own() -> None:
    assert sorted(_stored(name)["uid"] for name in NAMES) == sorted(f"tailrace-{name}" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_panel_lies_on_another(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _stored(name)["panels"]:
        x, y, w, h = (panel["gridPos"][key] for key in "xywh")
        assert x + w <= WIDTH
        cells = {(column, line) for column in range(x, x + w) for line in range(y, y + h)}
        assert not taken & cells, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_numbered_and_say_what_they_show(name: str) -> None:
    ids = [panel["id"] for panel in _stored(name)["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    assert [panel["title"] for panel in _panels(name) if not panel["description"] or not panel["targets"]] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_query_goes_to_the_chosen_prometheus_and_is_about_the_chosen_servers(name: str) -> None:
    for panel in _panels(name):
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            chosen = re.findall(
                r"tailrace_\w+\{([^}]*)\}", re.sub(r"job_class:\w+:\w+(\{[^}]*\})?", "", target["expr"])
            )
            assert all('instance=~"$instance"' in labels for labels in chosen), target["expr"]
            assert "HERE" not in target["expr"]


@pytest.mark.parametrize("name", NAMES)
def test_rates_look_as_far_back_as_grafana_says_they_must_or_at_so_many_minutes(name: str) -> None:
    """A window shorter than some scrapes shows gaps; `$__rate_interval` is long enough for any scrape interval."""
    windows = {
        (panel["type"], window)
        for panel in _panels(name)
        for target in panel["targets"]
        for window in re.findall(r"\[([^\]]+)\]", target["expr"])
    }
    longer = {("status-history", "5m"), ("timeseries", "5m"), ("timeseries", "30m")}
    assert windows <= longer | {(kind, "$__rate_interval") for kind, _ in windows}


def test_the_map_of_hit_rates_has_cells_of_five_minutes_from_red_to_green() -> None:
    (panel,) = (panel for panel in _panels("levels") if panel["type"] == "status-history")
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["interval"] == "5m"
    assert defaults["color"] == {"mode": "continuous-RdYlGr"}
    assert (defaults["min"], defaults["max"], defaults["unit"]) == (0, 1, "percentunit")
    by_level = panel["targets"][0]
    assert "by (instance, level)" in by_level["expr"]
    assert by_level["expr"].count("[5m]") == 2
    assert by_level["legendFormat"] == "{{instance}} {{level}}"


def test_thresholds_rise() -> None:
    for panel in (panel for name in NAMES for panel in _panels(name) if panel["type"] == "stat"):
        steps = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert steps[0] is None
        assert all(low < high for low, high in pairwise(steps[1:]))


def test_a_row_that_is_full_goes_on_below() -> None:
    wide = lines("w", "wide", "s", Query("up{HERE}"), width=20)
    small = number("n", "small", "s", Query("up"))
    laid = json.loads(Dashboard("x", "X", "x", (Row("r", (small, wide, small, small)), Row("s", (wide,)))).as_text())
    places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in laid["panels"]]
    assert places == [
        (0, 0, 24, 1),
        (0, 1, 3, 4),
        (3, 1, 20, 8),
        (0, 9, 3, 4),
        (3, 9, 3, 4),
        (0, 13, 24, 1),
        (0, 14, 20, 8),
    ]
    assert laid["panels"][2]["targets"][0]["expr"] == 'up{instance=~"$instance"}'
