"""One server process with the default model for all tests that only talk to it."""

from collections.abc import Iterator

import openai
import pytest

from tests.server.process import ServerProcess, serving


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with serving("--kv-memory", "256MiB", "--max-model-tokens", "2048") as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client
