"""Where the time went, for operators."""

import msgspec
import pytest
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.attribution import AttributionEndpoint
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.status import OneProcess
from tailrace.telemetry.attribution_reading import AttributionReading
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask
from tests.support.attributed import SERVED
from tests.support.scripted_service import ScriptedService

PATH = "/debug/attribution"


def attributing(service: ScriptedService, metrics: Metrics, admin_key: str | None = None) -> ASGIApp:
    endpoint = AttributionEndpoint(OneProcess(metrics), admin_key, lambda: SERVED)
    return create_app(service, metrics, HttpConfig(version="1"), attribution=endpoint)


async def test_it_is_what_the_server_counts_and_what_it_runs_on(service: ScriptedService, metrics: Metrics) -> None:
    metrics.engine_time.watch(lambda: {"compute": 2.5})
    answer = await ask(attributing(service, metrics), PATH)
    reading = msgspec.json.decode(answer.body, type=AttributionReading)
    assert reading.served == SERVED
    assert reading.engine_seconds["compute"] == 2.5


async def test_a_server_that_does_not_say_has_no_such_path(app: ASGIApp) -> None:
    assert (await ask(app, PATH)).status == 404


@pytest.mark.parametrize(("headers", "status"), [({}, 401), ({"authorization": "Bearer of-the-operator"}, 200)])
async def test_where_there_is_an_admin_key_it_is_asked_for(
    service: ScriptedService, metrics: Metrics, headers: dict[str, str], status: int
) -> None:
    app = attributing(service, metrics, "of-the-operator")
    assert (await ask(app, PATH, headers=headers)).status == status
