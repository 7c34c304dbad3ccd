"""Which rules act, for operators."""

import math
import time
from dataclasses import replace

import pytest
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.records import RuleReport
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask
from tests.support.scripted_service import MODEL, ScriptedService


def report(**fields: float) -> RuleReport:
    says, since_s = "hit_rate of redis below 0.6 for 180 s", time.monotonic() - 20
    made = RuleReport("slow-redis", says, "bypass", "redis", "firing", since_s, 0.25, True, 0.66, 180.0)
    return replace(made, **fields)  # type: ignore[arg-type]  # mypy: fields of several types


async def test_each_rule_is_shown_with_its_state_since_when_and_its_signal(app: ASGIApp, metrics: Metrics) -> None:
    assert (await ask(app, "/debug/rules")).json() == {"rules": []}
    metrics.rules.watch(lambda: [report()])
    (rule,) = (await ask(app, "/debug/rules")).json()["rules"]
    assert 20 <= rule.pop("since_s") < 60
    assert rule == {
        "name": "slow-redis",
        "when": "hit_rate of redis below 0.6 for 180 s",
        "action": "bypass redis",
        "state": "firing",
        "signal": 0.25,
        "is_enough_to_judge": True,
        "clear_at": 0.66,
        "clear_for_s": 180.0,
    }


async def test_a_signal_without_bounds_is_shown_as_none(app: ASGIApp, metrics: Metrics) -> None:
    metrics.rules.watch(lambda: [report(signal=math.inf)])
    (rule,) = (await ask(app, "/debug/rules")).json()["rules"]
    assert rule["signal"] is None


async def test_they_are_seen_from_other_processes(metrics: Metrics) -> None:
    metrics.rules.watch(lambda: [report(since_s=5.0)])
    other = Metrics(model_name=MODEL.name, version="1").with_others([metrics.snapshot()])
    assert other.rules.latest() == [report(since_s=5.0)]


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"authorization": "Bearer of-the-operator"}, 200)])
async def test_where_there_is_an_admin_key_it_is_asked_for(
    service: ScriptedService, metrics: Metrics, headers: dict[str, str], status: int
) -> None:
    app = create_app(service, metrics, HttpConfig(version="1", admin_key="of-the-operator"))
    assert (await ask(app, "/debug/rules", headers=headers)).status == status
