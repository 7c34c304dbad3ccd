"""The public `openai` client, unmodified, against a real server process with the real model."""

import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.server.process import ServerProcess

MODEL = "default"
# Every token of the float32 model's greedy answer leads by 0.7 or more: no rounding of a back end turns it.
CAPITAL: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Name the capital city of France."}]


def wait_for_idle(server: ServerProcess) -> None:
    deadline_s = time.monotonic() + 10
    while server.metric("tailrace_requests_running") > 0:
        assert time.monotonic() < deadline_s, "a request is still running"
        time.sleep(0.01)


def test_the_model_answers_a_question_it_knows(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=CAPITAL, temperature=0, max_tokens=24)

    assert answer.choices[0].message.content == "The capital city of France is Paris."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_chat_stream_concatenates_to_the_plain_answer(client: openai.OpenAI) -> None:
    plain = client.chat.completions.create(model=MODEL, messages=CAPITAL, temperature=0.8, seed=7, max_tokens=48)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=CAPITAL,
            temperature=0.8,
            seed=7,
            max_tokens=48,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = chunks[-1].usage
    assert text == plain.choices[0].message.content
    assert usage is not None
    assert plain.usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (plain.usage.prompt_tokens, plain.usage.completion_tokens)


def test_a_repeated_prompt_comes_from_the_cache(client: openai.OpenAI) -> None:
    prompt = "The history of the water mill, told from the very beginning. " * 8
    for _ in range(2):
        answer = client.completions.create(model=MODEL, prompt=prompt, temperature=0, max_tokens=2)

    assert answer.usage is not None
    details = answer.usage.prompt_tokens_details
    assert details is not None
    assert details.cached_tokens is not None
    assert details.cached_tokens >= answer.usage.prompt_tokens - 16


def test_what_is_invalidated_is_computed_again(client: openai.OpenAI, admin: openai.OpenAI) -> None:
    prompt = "What the operator wants forgotten, and forgotten at once. " * 8

    def num_cached() -> int | None:
        answer = client.completions.create(model=MODEL, prompt=prompt, temperature=0, max_tokens=2)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens_details.cached_tokens

    num_cached()
    num_found = num_cached()
    explanation = admin.get("/cache/explain", cast_to=object, options={"params": {"prompt": prompt}})
    done = admin.post("/cache/invalidate", cast_to=object, body={"prefix": {"prompt": prompt}})

    assert isinstance(explanation, dict)
    assert explanation["cached_tokens"] == num_found
    assert num_found
    assert isinstance(done, dict)
    assert done["dropped_blocks"]["engine"] >= num_found // 16
    assert num_cached() == 0
    assert num_cached() == num_found


def test_memory_that_nobody_needs_goes_back_to_the_system(
    server: ServerProcess, client: openai.OpenAI, admin: openai.OpenAI
) -> None:
    prompt = "A long prompt of a tenant who then leaves for good, never to be seen again. " * 60
    salted = {"cache_salt": "gone"}
    client.completions.create(model=MODEL, prompt=prompt, max_tokens=1, extra_body=salted)
    resident, chunks = server.metric("tailrace_kv_resident_bytes"), server.metric("tailrace_kv_chunks_committed")
    admin.post("/cache/invalidate", cast_to=object, body={"tenant": salted})

    server.wait_for_less("tailrace_kv_chunks_committed", chunks)
    server.wait_for_less("tailrace_kv_resident_bytes", resident)


def test_choices_differ_and_each_is_what_its_stream_says(client: openai.OpenAI) -> None:
    options = {"model": MODEL, "prompt": "Once upon a time", "n": 3, "temperature": 1.0, "seed": 5, "max_tokens": 16}
    plain = client.completions.create(**options)  # type: ignore[call-overload]
    streamed = ["", "", ""]
    for chunk in client.completions.create(**options, stream=True):  # type: ignore[call-overload]
        for choice in chunk.choices:
            streamed[choice.index] += choice.text

    texts = [choice.text for choice in plain.choices]
    assert streamed == texts
    assert len(set(texts)) == 3


def test_log_probabilities_fit_the_tokens(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=CAPITAL, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )

    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(token.token for token in logprobs.content) == answer.choices[0].message.content
    for token in logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.logprob == token.top_logprobs[0].logprob  # greedy takes the best
        assert token.logprob <= 0


def test_a_stop_string_ends_the_answer_before_itself(client: openai.OpenAI, server: ServerProcess) -> None:
    aborted_before = server.metric("tailrace_requests_aborted_total")
    whole = client.completions.create(model=MODEL, prompt="1, 2, 3, 4,", temperature=0, max_tokens=24)
    cut = client.completions.create(model=MODEL, prompt="1, 2, 3, 4,", temperature=0, max_tokens=24, stop=[", 8"])

    assert ", 8" in whole.choices[0].text
    assert cut.choices[0].text == whole.choices[0].text.split(", 8")[0]
    assert cut.choices[0].finish_reason == "stop"
    wait_for_idle(server)
    assert server.metric("tailrace_requests_aborted_total") == aborted_before


def test_many_clients_at_once_get_what_each_would_get_alone(client: openai.OpenAI) -> None:
    prompts = [f"Write a sentence about the number {number}." for number in range(12)]

    def answer(prompt: str) -> str | None:
        reply = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}], temperature=0, max_tokens=20
        )
        return reply.choices[0].message.content

    alone = [answer(prompt) for prompt in prompts[:3]]
    with ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(answer, prompts))
    assert together[:3] == alone


def test_an_unknown_model_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-4") as error:
        client.chat.completions.create(model="gpt-4", messages=CAPITAL)
    assert error.value.code == "model_not_found"


def test_an_unsupported_field_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="frobnicate") as error:
        client.chat.completions.create(model=MODEL, messages=CAPITAL, extra_body={"frobnicate": 1})
    assert error.value.param == "frobnicate"


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="2048") as error:
        client.completions.create(model=MODEL, prompt="word " * 3000, max_tokens=4)
    assert error.value.code == "context_length_exceeded"


def test_a_client_that_goes_away_stops_the_work(client: openai.OpenAI, server: ServerProcess) -> None:
    aborted_before = server.metric("tailrace_requests_aborted_total")
    stream = client.completions.create(
        model=MODEL, prompt="Go on for ever:", max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()

    wait_for_idle(server)
    assert server.metric("tailrace_requests_aborted_total") == aborted_before + 1
    assert server.metric("tailrace_kv_blocks_used") == 0


def test_user_text_cannot_write_control_tokens(client: openai.OpenAI) -> None:
    def prompt_tokens(content: str) -> int:
        answer = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": content}], max_tokens=1
        )
        assert answer.usage is not None
        return answer.usage.prompt_tokens

    # As a control token it would be one token; as text it is several.
    assert prompt_tokens("a<|im_end|>") >= prompt_tokens("a") + 4
