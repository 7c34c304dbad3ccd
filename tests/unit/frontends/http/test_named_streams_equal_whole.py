"""The contract of the front end for streams of named events: however a text is cut, a stream says all of it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import named_events, post
from tests.support.scripted_service import ScriptedService, call, finish, thought, token

MESSAGE: dict[str, object] = {"max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]}
IDENTITY = ("id", "created_at")


def logprob(text: str) -> TextLogprob:
    return TextLogprob(1, text, text.encode(), -0.5, (TextLogprob(2, text, b"\xff", -0.7),))


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[ChoiceDelta]]:
    """A text in any pieces, empty ones too; its end comes with the last piece, or after it."""
    pieces = draw(st.lists(st.text(max_size=6), max_size=6))
    has_logprobs = draw(st.booleans())
    deltas = [
        ChoiceDelta(0, piece, token_ids=(1,), logprobs=(logprob(piece),) if has_logprobs else ()) for piece in pieces
    ]
    last = draw(st.text(max_size=3))
    reason = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
    stop_reason = draw(st.none() | st.integers(0, 9) | st.text(max_size=4))
    deltas.append(ChoiceDelta(0, last, token_ids=(1,), finish_reason=reason, stop_reason=stop_reason))
    return "".join([*pieces, last]), deltas


ARGUMENTS = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=2)


@st.composite
def mixed_answers(draw: st.DrawFn) -> list[ChoiceDelta]:
    """Reasoning, texts and calls in any order, each in any two pieces."""
    deltas: list[ChoiceDelta] = []
    kinds = draw(st.lists(st.sampled_from(["reasoning", "text", "call"]), max_size=5))
    for number, kind in enumerate(kinds):
        text = draw(ARGUMENTS.map(json.dumps) if kind == "call" else st.text(max_size=6))
        cut = draw(st.integers(0, len(text)))
        if kind == "call":
            deltas += [call(number, text[:cut], name="f"), call(number, text[cut:])]
        else:
            make = thought if kind == "reasoning" else token
            deltas += [make(text[:cut]), make(text[cut:])]
    reason = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS]))
    return [*deltas, finish(reason=reason)]


async def both_answers(
    path: str, fields: dict[str, object], script: Sequence[ChoiceDelta]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    app = create_app(ScriptedService(script), Metrics(model_name="tiny", version="0"), HttpConfig())
    whole = await post(app, path, fields)
    streamed = await post(app, path, fields | {"stream": True})
    return whole.json(), [event for _, event in named_events(streamed.body)]


def without_identity(answer: Any) -> Any:
    """The same for ids and times, at any depth."""
    if isinstance(answer, dict):
        return {name: without_identity(value) for name, value in answer.items() if name not in IDENTITY}
    return [without_identity(each) for each in answer] if isinstance(answer, list) else answer


def gathered_message(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """As the API's documentation tells clients to do."""
    message: dict[str, Any] = json.loads(json.dumps(events[0]["message"]))
    for event in events[1:]:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                add_to_block(message["content"][event["index"]], event["delta"])
            case "content_block_stop":
                block = message["content"][event["index"]]
                if block["type"] == "tool_use":
                    block["input"] = json.loads(block["input"] or "{}")
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    return message


def add_to_block(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["input"] = (block["input"] or "") + delta["partial_json"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case kind:
            name = kind.removesuffix("_delta")
            block[name] += delta[name]


def gathered_output(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a response from their beginnings and deltas alone, without log probabilities."""
    items: list[dict[str, Any]] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items)
            items.append(json.loads(json.dumps(event["item"])))
        elif kind == "content_part.added":
            items[event["output_index"]]["content"].append(dict(event["part"]))
        elif kind == "function_call_arguments.delta":
            items[event["output_index"]]["arguments"] += event["delta"]
        elif kind.endswith(".delta"):
            items[event["output_index"]]["content"][event["content_index"]]["text"] += event["delta"]
        elif kind == "output_item.done":
            items[event["output_index"]]["status"] = event["item"]["status"]
            assert items[event["output_index"]] == event["item"]
    return items


@settings(max_examples=50)
@given(mixed_answers())
def test_the_blocks_of_a_message_add_up_to_it(deltas: list[ChoiceDelta]) -> None:
    whole, events = asyncio.run(both_answers("/v1/messages", MESSAGE, deltas))
    assert without_identity(gathered_message(events)) == without_identity(whole)


@settings(max_examples=50)
@given(mixed_answers())
def test_the_items_of_a_response_add_up_to_it(deltas: list[ChoiceDelta]) -> None:
    whole, events = asyncio.run(both_answers("/v1/responses", {"input": "Hi"}, deltas))
    assert without_identity(gathered_output(events)) == without_identity(whole["output"])
    assert without_identity(events[-1]["response"]) == without_identity(whole)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@settings(max_examples=150)
@given(cut_texts())
def test_the_events_of_a_message_add_up_to_it(script: tuple[str, list[ChoiceDelta]]) -> None:
    text, deltas = script
    whole, events = asyncio.run(both_answers("/v1/messages", MESSAGE, deltas))
    assert without_identity(gathered_message(events)) == without_identity(whole)
    assert whole["content"] == ([{"type": "text", "text": text}] if text else [])
    assert events[-1] == {"type": "message_stop"}


@settings(max_examples=150)
@given(cut_texts())
def test_the_events_of_a_response_add_up_to_it(script: tuple[str, list[ChoiceDelta]]) -> None:
    text, deltas = script
    whole, events = asyncio.run(both_answers("/v1/responses", {"input": "Hi"}, deltas))
    of_type: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        of_type.setdefault(event["type"], []).append(event)
    pieces = of_type.get("response.output_text.delta", [])
    (content,) = whole["output"][0]["content"]
    assert without_identity(events[-1]["response"]) == without_identity(whole)
    assert "".join(piece["delta"] for piece in pieces) == content["text"] == text
    assert [each for piece in pieces for each in piece["logprobs"]] == content["logprobs"]
    (text_done,), (part_done,) = of_type["response.output_text.done"], of_type["response.content_part.done"]
    (item_done,) = of_type["response.output_item.done"]
    assert (text_done["text"], text_done["logprobs"]) == (text, content["logprobs"])
    assert part_done["part"] == content
    assert without_identity(item_done["item"]) == without_identity(whole["output"][0])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
