"""One server process with the default model for all tests that only talk to it."""

from collections.abc import Iterator

import openai
import pytest

from tests.server.process import ServerProcess, serving

ADMIN_KEY = "of-the-tests-and-nobody-else"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    key_file = tmp_path_factory.mktemp("server") / "admin-key"
    key_file.write_text(ADMIN_KEY + "\n")
    options = ("--kv-memory", "256MiB", "--max-model-tokens", "2048", "--admin-key-file", str(key_file))
    with serving(*options) as process:
        yield process


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[openai.OpenAI]:
    """For paths of the server's own: `get` and `post`."""
    with openai.OpenAI(base_url=server.url, api_key=ADMIN_KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client
