from collections.abc import AsyncIterator

import pytest

from tests.support.grpc_server import Front, front_end
from tests.support.scripted_service import ScriptedService


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
async def front(service: ScriptedService) -> AsyncIterator[Front]:
    async with front_end(service) as front:
        yield front
