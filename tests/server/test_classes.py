"""Classes and API keys of files, in a real server, met by the `openai` client."""

import json
from collections.abc import Iterator

import openai
import pytest

from tests.server.process import ServerProcess, serving

SHOP, NIGHTLY = "sk-shop-0123456789", "sk-nightly-0123456"
KEYS = [
    {"name": "shop", "key": SHOP, "class": "interactive"},
    {"name": "nightly", "key": NIGHTLY, "class": "batch"},
]
CLASSES = [
    {"name": "interactive", "priority": 4, "ttft_ms": 60_000, "itl_ms": 10_000, "queue_ttl_s": 600, "default": True},
    {"name": "batch", "priority": 1, "ttft_ms": 600_000, "itl_ms": 60_000, "queue_ttl_s": 6000, "min_share": 0.1},
]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("classes")
    keys, classes = folder / "keys.jsonl", folder / "classes.jsonl"
    keys.write_text("".join(json.dumps(line) + "\n" for line in KEYS))
    classes.write_text("".join(json.dumps(line) + "\n" for line in CLASSES))
    files = ("--api-keys", str(keys), "--classes", str(classes))
    with serving("tiny-deepseek", "--kv-memory", "16MiB", "--max-model-tokens", "256", *files) as process:
        yield process


def client_of(server: ServerProcess, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def test_a_key_decides_the_class_and_bounds_what_a_tier_can_ask_for(keyed: ServerProcess) -> None:
    with client_of(keyed, SHOP) as shop, client_of(keyed, NIGHTLY) as nightly:
        for client, served, word in ((shop, "interactive", "default"), (nightly, "batch", "flex")):
            raw = client.chat.completions.with_raw_response.create(
                model="default",
                messages=[{"role": "user", "content": "Hello"}],
                max_tokens=2,
                service_tier="priority",
            )
            assert raw.headers["x-service-class"] == served
            assert raw.parse().service_tier == word

    finished = 'tailrace_requests_finished_total{class="%s",finished_reason="length"}'
    assert keyed.metric(finished % "interactive") == keyed.metric(finished % "batch") == 1
    assert keyed.metric('tailrace_requests_on_target_total{class="batch"}') == 1


def test_chunks_say_the_tier_too(keyed: ServerProcess) -> None:
    with client_of(keyed, NIGHTLY) as client:
        chunks = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Hello"}],
            max_tokens=2,
            service_tier="auto",
            stream=True,
        )
        assert {chunk.service_tier for chunk in chunks} == {"flex"}


def test_without_a_known_key_the_client_raises_what_it_does_for_openai(keyed: ServerProcess) -> None:
    with client_of(keyed, "sk-of-somebody-else") as client, pytest.raises(openai.AuthenticationError) as refused:
        client.models.list()
    assert refused.value.code == "invalid_api_key"
    assert keyed.get("/v1/models")[0] == 401
    assert keyed.get("/health")[0] == 200
