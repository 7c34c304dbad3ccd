"""The public clients of both APIs, unmodified, against a real server process with the real model."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic.resources.messages import Messages
from anthropic.types import MessageParam
from openai.resources.responses import Responses

from tests.server.process import ServerProcess

MODEL = "default"
QUESTION = "Name the capital city of France."
ANSWER = "The capital city of France is Paris."
CAPITAL: list[MessageParam] = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def messages(server: ServerProcess) -> Iterator[Messages]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client.messages


@pytest.fixture
def responses(client: openai.OpenAI) -> Responses:
    return client.responses


GREEDY = {"temperature": 0}  # the client has no argument for it any more; the server obeys it


def test_a_message_is_what_the_model_says_and_its_stream_too(messages: Messages) -> None:
    whole = messages.create(model=MODEL, max_tokens=24, messages=CAPITAL, extra_body=GREEDY)
    with messages.stream(model=MODEL, max_tokens=24, messages=CAPITAL, extra_body=GREEDY) as stream:
        text = stream.get_final_text()
        gathered = stream.get_final_message()

    assert whole.content[0].type == "text"
    assert whole.content[0].text == text == ANSWER
    assert (whole.stop_reason, gathered.stop_reason) == ("end_turn", "end_turn")
    assert gathered.usage.output_tokens == whole.usage.output_tokens


def test_usage_of_messages_tells_cached_tokens_apart(messages: Messages) -> None:
    long: list[MessageParam] = [{"role": "user", "content": "The history of the weir, told at length. " * 10}]
    counted = messages.count_tokens(model=MODEL, messages=long)
    usages = [messages.create(model=MODEL, max_tokens=1, messages=long).usage for _ in range(2)]

    for usage in usages:
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted.input_tokens
    assert (usages[1].cache_read_input_tokens or 0) > counted.input_tokens - 32


def test_messages_stop_where_they_are_told_to(messages: Messages) -> None:
    stopped = messages.create(
        model=MODEL, max_tokens=24, messages=CAPITAL, stop_sequences=[" France"], extra_body=GREEDY
    )
    cut = messages.create(model=MODEL, max_tokens=3, messages=CAPITAL, extra_body=GREEDY)

    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " France")
    assert stopped.content[0].type == "text"
    assert stopped.content[0].text == "The capital city of"
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)


def test_a_message_that_is_begun_is_continued(messages: Messages) -> None:
    begun: list[MessageParam] = [*CAPITAL, {"role": "assistant", "content": "The capital city of"}]
    answer = messages.create(model=MODEL, max_tokens=24, messages=begun, extra_body=GREEDY)

    assert answer.content[0].type == "text"
    assert answer.content[0].text == " France is Paris."


def test_a_message_may_ask_for_more_than_the_context_holds(messages: Messages) -> None:
    """As clients do that must send a number, and send the largest that any model has."""
    answer = messages.create(model=MODEL, max_tokens=16_000, messages=CAPITAL, extra_body=GREEDY)

    assert answer.stop_reason == "end_turn"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK: Any = {"name": "look", "description": "Look at the weather of a city.", "input_schema": SCHEMA}
USE: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Paris"}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "c1", "content": "It rains."}


def test_tools_and_calls_of_messages_are_part_of_the_prompt(messages: Messages) -> None:
    looked: Any = [*CAPITAL, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]
    counts = [
        messages.count_tokens(model=MODEL, messages=CAPITAL).input_tokens,
        messages.count_tokens(model=MODEL, messages=CAPITAL, tools=[LOOK]).input_tokens,
        messages.count_tokens(model=MODEL, messages=looked, tools=[LOOK]).input_tokens,
    ]
    usage = messages.create(model=MODEL, max_tokens=2, messages=looked, tools=[LOOK]).usage

    assert counts == sorted(set(counts))
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counts[-1]


def test_an_unknown_model_is_named_in_the_shape_of_the_api(messages: Messages) -> None:
    with pytest.raises(anthropic.NotFoundError, match="claude-x") as caught:
        messages.create(model="claude-x", max_tokens=1, messages=CAPITAL)
    assert caught.value.type == "not_found_error"


def test_a_response_is_what_the_model_says_and_its_stream_too(responses: Responses) -> None:
    whole = responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=24, store=False)
    with responses.stream(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=24, store=False) as stream:
        gathered = stream.get_final_response()

    assert whole.output_text == gathered.output_text == ANSWER
    assert whole.status == gathered.status == "completed"
    assert whole.usage is not None
    assert gathered.usage is not None
    assert gathered.usage.output_tokens == whole.usage.output_tokens


def test_a_conversation_goes_on_with_the_answers_of_the_server(
    responses: Responses,
) -> None:
    first = responses.create(model=MODEL, input=QUESTION, instructions="Be brief.", temperature=0)
    conversation: list[Any] = [
        {"role": "user", "content": QUESTION},
        *(item.to_dict() for item in first.output),
        {"role": "user", "content": [{"type": "input_text", "text": "And of Spain?"}]},
    ]
    again = responses.create(
        model=MODEL, input=conversation, instructions="Be brief.", temperature=0, max_output_tokens=16
    )

    assert again.usage is not None
    assert first.usage is not None
    assert again.usage.input_tokens > first.usage.total_tokens


def test_tools_and_calls_of_responses_are_part_of_the_prompt(responses: Responses) -> None:
    tool: Any = {"type": "function", "name": "look", "description": LOOK["description"], "parameters": SCHEMA}
    question: list[Any] = [{"role": "user", "content": QUESTION}]
    called = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city": "Paris"}'}
    looked = [*question, called, {"type": "function_call_output", "call_id": "c1", "output": "It rains."}]
    usages = [
        responses.create(model=MODEL, input=question, max_output_tokens=2).usage,
        responses.create(model=MODEL, input=question, tools=[tool], max_output_tokens=2).usage,
        responses.create(model=MODEL, input=looked, tools=[tool], max_output_tokens=2).usage,
    ]
    counts = [usage.input_tokens for usage in usages if usage is not None]

    assert len(counts) == 3
    assert counts == sorted(set(counts))


def test_a_response_that_is_cut_says_so(responses: Responses) -> None:
    events = list(responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=3, stream=True))

    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details is not None
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"
