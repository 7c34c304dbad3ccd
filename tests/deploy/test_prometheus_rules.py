"""The shipped configuration of Prometheus is one, and each alert fires when it should and not otherwise."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.prometheus import promtool

FOLDER = Path(__file__).parent
SHIPPED = FOLDER.parents[1] / "deploy" / "prometheus"
TESTS = sorted(FOLDER.glob("*.test.yml"))


def _cases() -> Iterator[tuple[str, bool]]:
    """The name of the alert of each case, and whether it is to fire."""
    text = "".join(path.read_text() for path in TESTS)
    for case in re.split(r"- eval_time:", text)[1:]:
        (name,) = re.findall(r"alertname: (\w+)", case)
        yield name, "exp_alerts:" in case


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    said = promtool("check", "config", SHIPPED / "prometheus.yml")
    assert "2 rule files found" in said


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_not_otherwise(path: Path) -> None:
    promtool("test", "rules", path)


def test_each_alert_is_seen_firing_and_not_firing() -> None:
    alerts = re.findall(r"- alert: (\w+)", (SHIPPED / "alerts.yml").read_text())
    assert len(alerts) > 10
    cases = set(_cases())
    assert cases == {(name, fires) for name in alerts for fires in (True, False)}


def test_an_alert_that_fires_unexpectedly_would_be_found(tmp_path: Path) -> None:
    text = (FOLDER / "alerts.test.yml").read_text().replace("../../deploy/prometheus", str(SHIPPED))
    start, end = text.index("  - name: all of gold"), text.index("  - name: one server is gone")
    (tmp_path / "wrong.yml").write_text(text[:start] + text[end:].replace("0x40", "1x40"))
    with pytest.raises(AssertionError, match="TailraceDown"):
        promtool("test", "rules", tmp_path / "wrong.yml")
