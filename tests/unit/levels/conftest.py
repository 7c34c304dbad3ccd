"""A real server for the tests of the Redis level, empty for each of them."""

from collections.abc import Iterator

import pytest

from tailrace.levels.redis import RedisLevel, open_redis
from tests.support.blocks import FINGERPRINT
from tests.support.redis_server import PATIENCE_S, RedisServer, running_redis


@pytest.fixture(scope="module")
def module_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def server(module_server: RedisServer) -> RedisServer:
    with module_server.client() as client:
        client.flushall()
    return module_server


@pytest.fixture
def level(server: RedisServer) -> Iterator[RedisLevel]:
    opened = open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
    yield opened
    opened.close()
