"""A real Prometheus reads a real server: every query of the dashboards, rules and alerts has something to show.

Only addresses and intervals of the shipped configuration are replaced.
"""

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from deploy.grafana.__main__ import DASHBOARDS, FOLDER
from tests.server.process import ServerProcess, free_port, serving
from tests.support.prometheus import PATIENCE_S, Prometheus, running_prometheus

CONFIG = Path(__file__).parents[2] / "deploy" / "prometheus"
CLASSES = ("gold", "silver", "bronze")
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$class": ".*", "$model": ".*"}
COMPARISON = re.compile(r"\s*(==|[<>]=?)\s*(\([^)]*\)|[\d.]+)")
NO_NUMBER = re.compile(r"fetch_seconds|gc_pause_seconds_bucket|op_seconds|timed_step_seconds|token_path")
"""Rates over what need not happen in a second or two: blocks fetched from a level, collections, steps whose ops are
timed, clients that take nothing. Data, but 0/0."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With levels, which the other tests' server has not."""
    folder = tmp_path_factory.mktemp("levels")
    host = ("--kv-host", "16MiB", "--kv-host-directory", str(folder))
    disk = ("--kv-disk", str(folder / "disk"), "--kv-disk-size", "16MiB")
    with serving("tiny-deepseek", "--kv-memory", "64MiB", *host, *disk) as process:
        yield process


@pytest.fixture(scope="module")
def prometheus(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """After it has seen a little load come and go."""
    folder = tmp_path_factory.mktemp("prometheus")
    for path in CONFIG.glob("*.yml"):
        text = path.read_text().replace("localhost:8000", server.url.removeprefix("http://"))
        (folder / path.name).write_text(re.sub(r"(_interval|_timeout): \w+", r"\1: 500ms", text))
    with running_prometheus(folder / "prometheus.yml", free_port()) as prometheus:
        prometheus.wait_for("sum(tailrace_build_info)", 1)  # rates need a sample from before the load
        _load(server)
        ended = "sum(tailrace_requests_finished_total)"
        prometheus.wait_for(ended, 2 * len(CLASSES))
        prometheus.wait_for("count(job_class:tailrace_missed:ratio3d >= 0)", len(CLASSES))
        yield prometheus


def _load(server: ServerProcess) -> None:
    """Each class asks the same twice: the second time there is something in the cache."""
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        for name in CLASSES * 2:
            prompt, chosen = "once upon a time " * 20, {"service_tier": name}
            pieces = client.completions.create(
                model="default", prompt=prompt, max_tokens=20, stream=True, extra_body=chosen
            )
            assert list(pieces)


def _without_comparison(query: str) -> str:
    """What it compares: with a number, that alone; with one another, their difference."""
    return COMPARISON.sub("", query).replace("> on", "- on")


def _shown(prometheus: Prometheus, expression: str) -> str | None:
    """What is wrong with what an expression gives; None: nothing."""
    samples = prometheus.query(expression)
    if not samples:
        return f"no data: {expression}"
    if all(math.isnan(value) for _, value in samples) and not NO_NUMBER.search(expression):
        return f"no number: {expression}"
    return None


def _complaints(prometheus: Prometheus, expressions: list[str]) -> list[str]:
    """What is wrong for good: on a busy machine a scrape may fail, and what it had is not there until the next one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while wrong := {
        expression: complaint for expression in expressions if (complaint := _shown(prometheus, expression))
    }:
        if time.monotonic() > deadline_s:
            break
        expressions = list(wrong)
        time.sleep(0.2)
    return list(wrong.values())


@pytest.mark.parametrize("name", [each.name for each in DASHBOARDS])
def test_every_query_of_a_dashboard_has_data(prometheus: Prometheus, name: str) -> None:
    panels = json.loads((FOLDER / f"{name}.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(expressions) > 10
    for variable, value in VARIABLES.items():
        expressions = [expression.replace(variable, value) for expression in expressions]
    assert _complaints(prometheus, expressions) == []


@pytest.mark.parametrize("name", [each.name for each in DASHBOARDS])
def test_what_can_be_chosen_on_a_dashboard_is_there(prometheus: Prometheus, name: str) -> None:
    choices = json.loads((FOLDER / f"{name}.json").read_text())["templating"]["list"]
    queries = {choice["name"]: choice["definition"] for choice in choices if choice["type"] == "query"}
    assert {"model", "instance"} <= set(queries)
    for query in queries.values():
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query.replace("$model", ".*")).groups()  # type: ignore[union-attr]  # a query of another form fails here, as it should
        for variable, value in VARIABLES.items():
            metric = metric.replace(variable, value)
        assert _complaints(prometheus, [metric]) == []
        assert all(labels[label] for labels, _ in prometheus.query(metric)), query


def test_every_recording_rule_has_data(prometheus: Prometheus) -> None:
    names = [rule["name"] for rule in prometheus.rules() if rule["type"] == "recording"]
    assert len(names) > 5
    assert _complaints(prometheus, names) == []


def test_what_every_alert_looks_at_is_there(prometheus: Prometheus) -> None:
    """Without the comparison: whether it fires, `promtool test rules` says."""
    queries = [rule["query"] for rule in prometheus.rules() if rule["type"] == "alerting"]
    assert len(queries) > 10
    assert _complaints(prometheus, [_without_comparison(query) for query in queries]) == []


def test_no_alert_fires_for_a_server_that_is_well(prometheus: Prometheus) -> None:
    assert prometheus.query('ALERTS{alertstate="firing"}') == []


def test_a_query_for_what_is_not_there_would_be_found(prometheus: Prometheus) -> None:
    assert _shown(prometheus, "sum(tailrace_no_such_metric)") == "no data: sum(tailrace_no_such_metric)"
    assert _shown(prometheus, "tailrace_build_info / 0 * 0") == "no number: tailrace_build_info / 0 * 0"
