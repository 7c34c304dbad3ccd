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
from tests.support.scripted_service import ScriptedService

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
                message["content"][event["index"]]["text"] += event["delta"]["text"]
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    return message


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
