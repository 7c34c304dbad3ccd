import pytest
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.telemetry.prometheus import Metrics
from tests.support.scripted_service import MODEL, ScriptedService


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(model_name=MODEL.name, version="1.2.3")


@pytest.fixture
def config() -> HttpConfig:
    return HttpConfig(version="1.2.3", max_body_bytes=100_000, max_merged_choices=8)


@pytest.fixture
def app(service: ScriptedService, metrics: Metrics, config: HttpConfig) -> ASGIApp:
    return create_app(service, metrics, config)
