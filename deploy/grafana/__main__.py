"""Writes the dashboards: `python -m deploy.grafana` makes `dashboards/*.json` again from what is beside this file."""

from pathlib import Path

from deploy.grafana.dashboard import Dashboard
from deploy.grafana.latency import LATENCY
from deploy.grafana.levels import LEVELS
from deploy.grafana.overview import OVERVIEW
from deploy.grafana.scheduler import SCHEDULER

__all__ = ["DASHBOARDS", "FOLDER"]

FOLDER = Path(__file__).parent / "dashboards"
DASHBOARDS: tuple[Dashboard, ...] = (OVERVIEW, LATENCY, LEVELS, SCHEDULER)


def main() -> None:
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.name}.json").write_text(dashboard.as_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
