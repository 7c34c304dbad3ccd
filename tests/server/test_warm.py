"""A server that computes prompts ahead: its users find them cached, and its figures of requests know nothing of it."""

import json
from pathlib import Path

import openai
from openai.types.chat import ChatCompletionMessageParam

from tests.server.process import serving

SYSTEM = "You are the keeper of a water mill and answer every question with patience and in full sentences. " * 4


def test_a_listed_prompt_is_cached_before_anybody_asks_and_kept_prompts_are_the_next_time(tmp_path: Path) -> None:
    listed, state = tmp_path / "warm.jsonl", tmp_path / "state.jsonl"
    listed.write_text(json.dumps({"messages": [{"role": "system", "content": SYSTEM}]}) + "\n")
    options = ("--kv-memory", "64MiB", "--max-model-tokens", "1024", "--warm-state", str(state))
    with serving(*options, "--warm", str(listed)) as server:
        server.wait_for_metric("tailrace_warmup_tokens_total", 64)
        assert server.metric("tailrace_requests_finished_total") == 0
        assert server.metric("tailrace_prompt_tokens_total") == 0
        for question in ("Who are you?", "What is flour?"):
            assert cached_tokens(server.url, question) >= 64
        server.wait_for_metric("tailrace_requests_finished_total", 2)  # an answer may be there before its record
        assert server.metric("tailrace_requests_finished_total") == 2
    with serving(*options) as server:
        server.wait_for_metric("tailrace_warmup_tokens_total", 64)
        assert cached_tokens(server.url, "And what is bread?") >= 64


def cached_tokens(url: str, question: str) -> int:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": question},
    ]
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model="default", messages=messages, max_tokens=2)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    return answer.usage.prompt_tokens_details.cached_tokens or 0
