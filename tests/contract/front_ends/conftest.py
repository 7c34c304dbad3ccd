"""Every front end over one service, in one event loop."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from tailrace.app import build_service, load_model, start_engine
from tailrace.config import EngineConfig
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics
from tailrace.weights.load import open_checkpoint
from tests.contract.front_ends.adapter import FrontEnd
from tests.contract.front_ends.over_grpc import over_grpc
from tests.contract.front_ends.over_http import over_http, over_http_whole
from tests.contract.front_ends.over_shm import over_shm
from tests.support.scripted_service import ScriptedService

Serving = Callable[[Service, Metrics, Path], AbstractAsyncContextManager[FrontEnd]]

FRONT_ENDS: dict[str, Serving] = {"http": over_http, "http, whole": over_http_whole, "grpc": over_grpc, "shm": over_shm}
STREAMING: dict[str, Serving] = {"http": over_http, "grpc": over_grpc, "shm": over_shm}

CONFIG = EngineConfig(max_model_tokens=256, kv_memory_bytes=16 << 20)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[Service]:
    """A small model, computed for real."""
    loaded = load_model(open_checkpoint("tiny-deepseek"), CONFIG)
    engine = start_engine(loaded, CONFIG, emit=lambda _record: None, on_failure=lambda: None)
    yield build_service(loaded.checkpoint, engine, loaded.plan.card(), classes=lambda: CONFIG.classes)
    engine.close()
    loaded.executable.close()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(model_name="contract", version="0")


@pytest.fixture
def script() -> ScriptedService:
    return ScriptedService()


@pytest_asyncio.fixture(params=FRONT_ENDS, loop_scope="module")
async def scripted(
    request: pytest.FixtureRequest, script: ScriptedService, metrics: Metrics, tmp_path: Path
) -> AsyncIterator[FrontEnd]:
    """Any front end over the script."""
    async with FRONT_ENDS[request.param](script, metrics, tmp_path) as front_end:
        yield front_end


@pytest_asyncio.fixture(params=STREAMING, loop_scope="module")
async def streamed(
    request: pytest.FixtureRequest, script: ScriptedService, metrics: Metrics, tmp_path: Path
) -> AsyncIterator[FrontEnd]:
    """Any front end that streams over the script."""
    async with STREAMING[request.param](script, metrics, tmp_path) as front_end:
        yield front_end


@pytest_asyncio.fixture(params=FRONT_ENDS, loop_scope="module")
async def computed(
    request: pytest.FixtureRequest, model: Service, metrics: Metrics, tmp_path: Path
) -> AsyncIterator[FrontEnd]:
    """Any front end over the model."""
    async with FRONT_ENDS[request.param](model, metrics, tmp_path) as front_end:
        yield front_end
