"""Rules in a real server: a cold level is bypassed and comes back, the least class is shed and let in again."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import START_TIMEOUT_S, ServerProcess, serving
from tests.support.redis_server import running_redis

COLD = {
    "name": "cold-redis",
    "signal": "hit_rate",
    "of": "redis",
    "below": 0.5,
    "for_s": 1.5,
    "window_s": 3,
    "min_samples": 2,
    "action": "bypass",
}
SHED = {
    "name": "gold-first",
    "signal": "ttft_p99",
    "of": "gold",
    "above": 1e-6,
    "for_s": 1,
    "window_s": 2,
    "min_samples": 1,
    "action": "shed",
    "on": "bronze",
}
_numbers = count()


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    rules: Path = tmp_path_factory.mktemp("rules") / "rules.jsonl"
    rules.write_text("".join(json.dumps(line) + "\n" for line in (COLD, SHED)))
    options = ("--kv-memory", "16MiB", "--max-model-tokens", "512", "--api-workers", "2", "--rules", str(rules))
    with running_redis() as redis, serving("tiny-deepseek", *options, "--kv-redis", redis.url) as server:
        yield server


def complete(server: ServerProcess, prompt: str, tier: str = "default") -> int:
    """Prompt tokens that redis gave. Raises HTTPError."""
    body = {"prompt": prompt, "max_tokens": 2, "ignore_eos": True, "service_tier": tier}
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        details: dict[str, Any] = json.load(reply)["usage"]["prompt_tokens_details"]
    return int(details["cached_tokens_details"].get("redis", 0))


def unseen() -> str:
    return f"Chapter {next(_numbers)}: " + "once upon a time there was a prompt that nobody had seen. " * 3


def rule_of(server: ServerProcess, name: str) -> dict[str, Any]:
    _, text = server.get("/debug/rules")
    return next(rule for rule in json.loads(text)["rules"] if rule["name"] == name)


def keep_asking(server: ServerProcess, rule: str, tier: str = "default") -> None:
    """Until the rule has fired."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not server.metric(f'tailrace_rule_active{{rule="{rule}"}}'):
        assert time.monotonic() < deadline_s, rule_of(server, rule)
        complete(server, unseen(), tier)


def test_a_level_that_has_nothing_is_bypassed_and_comes_back(ruled: ServerProcess) -> None:
    assert rule_of(ruled, "cold-redis")["state"] == "quiet"
    keep_asking(ruled, "cold-redis")
    rule = rule_of(ruled, "cold-redis")
    assert (rule["state"], rule["action"], rule["signal"]) == ("firing", "bypass redis", 0.0)
    assert ruled.metric('tailrace_level_mode{level="redis",mode="bypassed"}') == 1
    complete(ruled, unseen())
    assert ruled.metric('tailrace_prefix_misses_total{reason="level_bypassed"}') >= 1

    ruled.wait_for_less('tailrace_rule_active{rule="cold-redis"}', 1)
    assert ruled.metric('tailrace_rules_fired_total{rule="cold-redis"}') == 1
    assert ruled.metric('tailrace_level_mode{level="redis",mode="normal"}') == 1
    assert ruled.metric('tailrace_events_total{kind="rule_fired"}') >= 1
    saved = ruled.metric('tailrace_level_saved_blocks_total{level="redis"}')
    complete(ruled, unseen())
    ruled.wait_for_metric('tailrace_level_saved_blocks_total{level="redis"}', saved + 1)


def test_the_least_class_is_shed_told_when_to_come_back_and_let_in_again(ruled: ServerProcess) -> None:
    keep_asking(ruled, "gold-first", "priority")
    with pytest.raises(urllib.error.HTTPError) as refused:
        complete(ruled, unseen(), "flex")
    with refused.value as reply:
        error = json.load(reply)["error"]
    assert (reply.code, error["code"]) == (429, "shed")
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert ruled.metric('tailrace_requests_refused_total{class="bronze",reason="shed"}') == 1
    complete(ruled, unseen(), "default")

    ruled.wait_for_less('tailrace_rule_active{rule="gold-first"}', 1)
    complete(ruled, unseen(), "flex")


def test_each_firing_and_clearing_is_a_line_of_the_log(ruled: ServerProcess) -> None:
    """The last one: it stops the server."""
    ruled.stop()
    said = ruled.output()
    for rule, deed in (("cold-redis", "bypass redis"), ("gold-first", "shed bronze")):
        assert f"rule {rule} fired" in said
        assert f"rule {rule} cleared" in said
        assert deed in said
