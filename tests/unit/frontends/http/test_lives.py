"""What is known of a request from its head to its end, however it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.telemetry.life_parts import parts_of
from tailrace.telemetry.lives import RequestLife
from tests.support.asgi import Conversation, post, talk
from tests.support.local_stack import BUDGET_TOKENS, LocalStack

COMPLETIONS = "/v1/completions"


@pytest_asyncio.fixture
async def stack() -> AsyncIterator[LocalStack]:
    stack = LocalStack()
    yield stack
    stack.close()


@pytest.fixture
def app(stack: LocalStack) -> ASGIApp:
    return create_app(stack.service, stack.metrics, HttpConfig(version="1.2.3", max_merged_choices=8))


def open_stream(app: ASGIApp, **fields: object) -> Conversation:
    return talk(app, COMPLETIONS, json.dumps({"prompt": "hello", "stream": True, **fields}).encode())


def marks(life: RequestLife) -> list[float | None]:
    """In the order in which they must come."""
    beginning = life.beginning
    assert beginning is not None
    chunks = [moment for chunk in beginning.chunks for moment in chunk[:2]]
    before = [life.accepted_s, life.parsed_s, life.tokenised_s, life.submitted_s, beginning.taken_s]
    return [*before, beginning.started_s, *chunks, beginning.computed_s, life.received_s, life.text_s, life.written_s]


def is_ascending(values: list[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return len(known) == len(values) and all(a <= b for a, b in pairwise(known))


async def test_the_parts_of_all_first_tokens_add_up_under_load(app: ASGIApp, stack: LocalStack) -> None:
    prompts = [f"{number} " + "hello the " * (3 * number) for number in range(12)]
    await asyncio.gather(
        *(post(app, COMPLETIONS, {"prompt": prompt, "stream": True, "max_tokens": 5}) for prompt in prompts)
    )

    lives, summed = stack.lives, dict.fromkeys(stack.values("first_token_part_seconds"), 0.0)
    assert len(lives) == len(prompts)
    for life in lives:
        assert is_ascending(marks(life))
        assert life.written_s is not None
        parts = [part for part in parts_of(life) if part.name != "decode"]
        assert parts[0].start_s == life.accepted_s
        assert all(a.end_s == b.start_s for a, b in pairwise(parts))
        assert parts[-1].end_s == life.written_s
        for part in parts:
            summed[part.name] += part.end_s - part.start_s
        assert sum(part.num_tokens for part in parts) == life.num_prompt_tokens - sum(life.found.values())
        assert len([part for part in parts if part.name == "prefill"]) >= life.num_prompt_tokens / BUDGET_TOKENS - 1
    assert stack.values("first_token_part_seconds") == pytest.approx(summed, rel=1e-9)
    assert sum(summed.values()) == pytest.approx(
        sum(life.written_s - life.accepted_s for life in lives if life.written_s is not None), rel=1e-9
    )
    assert "tailrace_first_tokens_total 12.0" in stack.metrics.render("")[0].decode()


async def test_a_stream_that_ends_says_with_what(app: ASGIApp, stack: LocalStack) -> None:
    answer = await post(app, COMPLETIONS, {"prompt": "hello", "stream": True, "max_tokens": 3}, x_request_id="mine")
    life = stack.life
    assert life.request_id.startswith(f"{answer.headers['x-request-id']}-")
    assert (life.endpoint, life.class_name, life.finish_reason, life.error) == ("completion", "silver", "length", None)
    assert (life.num_prompt_tokens, life.num_output_tokens, life.miss_reason) == (1, 3, None)
    assert life.written_s is not None
    assert life.ended_s is not None
    assert life.written_s <= life.ended_s


async def test_an_answer_of_one_token_has_been_written(app: ASGIApp, stack: LocalStack) -> None:
    await post(app, COMPLETIONS, {"prompt": "hello", "stream": True, "max_tokens": 1})
    assert is_ascending(marks(stack.life))


async def test_a_stop_string_is_a_stop(app: ASGIApp, stack: LocalStack) -> None:
    await post(app, COMPLETIONS, {"prompt": "hello", "stream": True, "max_tokens": 50, "stop": ["ab"]})
    life = stack.life
    assert life.finish_reason == "stop"
    assert life.num_output_tokens < 50


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_of_several_choices_the_first_is_followed(app: ASGIApp, stack: LocalStack, is_streamed: bool) -> None:
    fields = {"prompt": "hello", "stream": is_streamed, "max_tokens": 4, "n": 3, "seed": 1}
    await post(app, COMPLETIONS, fields)
    assert is_ascending(marks(stack.life))
    assert stack.life.num_output_tokens == 12


async def test_of_several_prompts_the_first_is_followed(app: ASGIApp, stack: LocalStack) -> None:
    await post(app, COMPLETIONS, {"prompt": ["hello", "the hello"], "stream": True, "max_tokens": 4})
    assert is_ascending(marks(stack.life))
    assert stack.life.num_output_tokens == 8


async def test_the_first_token_of_a_whole_answer_is_on_its_way_until_it_is_text(
    app: ASGIApp, stack: LocalStack
) -> None:
    answer = await post(app, COMPLETIONS, {"prompt": "hello", "max_tokens": 30})
    life, values = stack.life, stack.values("first_token_part_seconds")
    assert is_ascending(marks(life))
    assert life.written_s == life.text_s
    assert life.text_s is not None
    assert values["write"] == 0.0
    assert sum(values.values()) == pytest.approx(life.text_s - life.accepted_s, rel=1e-9)
    timing = dict(entry.split(";dur=") for entry in answer.headers["server-timing"].split(", "))
    assert list(timing) == ["queue", "prefill", "decode", "total"]
    *parts, total = map(float, timing.values())
    assert sum(parts) == pytest.approx(total, abs=0.2)  # each is rounded to a tenth


async def test_what_was_found_in_the_cache_is_known(app: ASGIApp, stack: LocalStack) -> None:
    for _ in range(2):
        await post(app, COMPLETIONS, {"prompt": list(range(10, 22)), "stream": True, "max_tokens": 2})
    first, second = stack.lives
    assert (first.found, first.miss_reason) == ({}, "never_seen")
    assert (second.found, second.miss_reason) == (
        {"engine": 11},
        None,
    )  # all but the last token, whose logits are wanted


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "invalid_json"),
        (b'{"prompt": "hello", "max_tokens": 0}', "invalid_value"),
        (b'{"prompt": "hello", "service_class": "iron"}', "unknown_parameter"),
        (b'{"prompt": "%s"}' % (b"x " * 300), "context_length_exceeded"),
    ],
)
async def test_who_is_refused_has_a_life_that_says_why(
    app: ASGIApp, stack: LocalStack, body: bytes, error: str
) -> None:
    await talk(app, COMPLETIONS, body).end()
    life = stack.life
    assert (life.error, life.finish_reason, life.beginning) == (error, "error", None)
    assert life.ended_s is not None
    assert stack.values("first_token_part_seconds") == dict.fromkeys(stack.values("first_token_part_seconds"), 0.0)


async def test_who_comes_when_the_queue_is_full_was_not_submitted() -> None:
    stack = LocalStack(max_queued=1)
    app = create_app(stack.service, stack.metrics, HttpConfig(version="1.2.3"))
    stack.device.gate.clear()
    conversations = []
    for _ in range(3):  # one runs, one waits
        conversations.append(open_stream(app, max_tokens=2))
        for _ in range(50):
            await asyncio.sleep(0.001)
    stack.device.gate.set()
    for conversation in conversations:
        await conversation.end()
    refused = [life for life in stack.lives if life.error is not None]
    assert [(life.error, life.submitted_s) for life in refused] == [("queue_full", None)]
    assert refused[0].tokenised_s is not None
    stack.close()


async def until_submitted(stack: LocalStack) -> None:
    while not any(life.submitted_s for life in stack.metrics.lives.lives()):
        await asyncio.sleep(0)


@pytest.mark.parametrize("phase", ["body", "waiting", "answering", "writing"])
async def test_whose_client_goes_was_aborted_in_whatever_phase(app: ASGIApp, stack: LocalStack, phase: str) -> None:
    if phase == "body":
        conversation = talk(app, COMPLETIONS, b'{"pro', is_body_whole=False)
        await asyncio.sleep(0)
    else:
        stack.device.gate.clear()
        conversation = open_stream(app, max_tokens=200)
        await until_submitted(stack)
    if phase == "writing":
        conversation.can_write.clear()
    if phase in ("answering", "writing"):
        stack.device.gate.set()
        while stack.metrics.lives.lives()[0].text_s is None:
            await asyncio.sleep(0)
    if phase == "answering":
        await conversation.read()
    conversation.leave()
    await conversation.end()
    stack.device.gate.set()

    life = stack.life
    assert (life.finish_reason, life.error) == ("abort", "client_gone")
    assert (life.parsed_s is None) == (phase == "body")
    assert (life.text_s is None) == (phase in ("body", "waiting"))
    assert (life.written_s is None) == (phase != "answering")
