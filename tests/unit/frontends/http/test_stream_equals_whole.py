"""The contract of the front end: a stream, concatenated, says exactly what the whole answer says."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import post
from tests.support.scripted_service import ScriptedService


def logprobs(*, is_reasoning: bool) -> st.SearchStrategy[TextLogprob]:
    return st.builds(
        lambda text, logprob: TextLogprob(
            1,
            text,
            text.encode(),
            logprob,
            (TextLogprob(2, text, b"\xff", logprob),),
            is_reasoning=is_reasoning,
        ),
        st.text(max_size=3),
        st.floats(max_value=0),
    )


@st.composite
def parts(draw: st.DrawFn, index: int, before: Sequence[ChoiceDelta]) -> ChoiceDelta:
    """More of the call that is being written; or something of reasoning and text, or nothing. Perhaps a new call."""
    num_calls = len({call.index for delta in before for call in delta.calls})
    if before and before[-1].calls and draw(st.booleans()):
        delta = ChoiceDelta(index, "", (1,), calls=(CallDelta(num_calls - 1, draw(st.text(max_size=4))),))
    else:
        delta = ChoiceDelta(index, draw(st.text(max_size=6)), (1,), reasoning=draw(st.text(max_size=4)))
    if draw(st.booleans()):
        name, arguments = draw(st.text(min_size=1, max_size=4)), draw(st.text(max_size=4))
        delta.calls += (CallDelta(num_calls, arguments, f"call_{index}_{num_calls}", name),)
    return delta


@st.composite
def lanes(draw: st.DrawFn, index: int, *, is_chat: bool, has_logprobs: bool) -> list[ChoiceDelta]:
    """One choice with its end."""
    lane: list[ChoiceDelta] = []
    for _ in range(draw(st.integers(0, 4))):
        is_plain = not is_chat or draw(st.booleans())
        delta = ChoiceDelta(index, draw(st.text(max_size=6)), (1,)) if is_plain else draw(parts(index, lane))
        if has_logprobs:
            delta.logprobs = (draw(logprobs(is_reasoning=bool(delta.reasoning))),)
        lane.append(delta)
    has_calls = any(delta.calls for delta in lane)
    reason = draw(st.sampled_from([FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP, FinishReason.LENGTH]))
    stop_reason = draw(st.none() | st.integers(0, 9) | st.text(max_size=4))
    lane.append(ChoiceDelta(index, draw(st.text(max_size=3)), finish_reason=reason, stop_reason=stop_reason))
    return lane


@st.composite
def scripts(draw: st.DrawFn, *, is_chat: bool) -> tuple[int, list[ChoiceDelta]]:
    """Deltas of one to three choices, interleaved anyhow, each choice with its end."""
    num_choices = draw(st.integers(1, 3))
    has_logprobs = draw(st.booleans())
    choices = [draw(lanes(index, is_chat=is_chat, has_logprobs=has_logprobs)) for index in range(num_choices)]
    order = draw(st.permutations([index for index, lane in enumerate(choices) for _ in lane]))
    return num_choices, [choices[index].pop(0) for index in order]


async def both_answers(
    path: str, fields: dict[str, object], script: Sequence[ChoiceDelta]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    service = ScriptedService(script)
    app = create_app(service, Metrics(model_name="tiny", version="0"), HttpConfig())
    whole = await post(app, path, fields)
    streamed = await post(app, path, fields | {"stream": True, "stream_options": {"include_usage": True}})
    return whole.json(), streamed.events()


def merged(into: dict[str, list[Any]], entries: dict[str, list[Any] | None] | None) -> None:
    for name, values in (entries or {}).items():
        into.setdefault(name, []).extend(values or [])


def merged_calls(into: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    """As a client does: what begins a call has its place, its name, its id and no arguments."""
    for delta in deltas:
        if "id" in delta:
            assert delta["index"] == len(into)
            assert delta["function"]["arguments"] == ""
            into.append({"id": delta["id"], "type": delta["type"], "function": dict(delta["function"])})
        else:
            assert delta.keys() == {"index", "function"}
            into[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]


def concatenated(events: list[dict[str, Any]], num_choices: int) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = [
        {"text": "", "reasoning": "", "calls": [], "logprobs": {}} for _ in range(num_choices)
    ]
    for event in events:
        for part in event["choices"]:
            choice, delta = choices[part["index"]], part.get("delta", {})
            choice["text"] += part["text"] if "text" in part else delta.get("content") or ""
            choice["reasoning"] += delta.get("reasoning", "")
            assert delta.get("reasoning") == delta.get("reasoning_content")
            merged_calls(choice["calls"], delta.get("tool_calls", []))
            merged(choice["logprobs"], part["logprobs"])
            if part["finish_reason"] is not None:
                assert "finish_reason" not in choice
                choice["finish_reason"], choice["stop_reason"] = part["finish_reason"], part["stop_reason"]
    return choices


def plain(answer: dict[str, Any]) -> list[dict[str, Any]]:
    choices = []
    for choice in answer["choices"]:
        entries: dict[str, list[Any]] = {}
        merged(entries, choice["logprobs"])
        message = choice.get("message", {})
        said = {
            "text": choice["text"] if "text" in choice else message["content"] or "",
            "reasoning": message.get("reasoning", ""),
            "calls": message.get("tool_calls", []),
            "logprobs": entries,
        }
        assert message.get("reasoning") == message.get("reasoning_content")
        choices.append(said | {name: choice[name] for name in ("finish_reason", "stop_reason")})
    return choices


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_a_stream_concatenates_to_the_whole_answer(data: st.DataObject, is_chat: bool) -> None:
    num_choices, deltas = data.draw(scripts(is_chat=is_chat))
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    prompt: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}]} if is_chat else {"prompt": "Hi"}
    whole, events = asyncio.run(both_answers(path, prompt | {"n": num_choices}, deltas))

    assert concatenated(events, num_choices) == plain(whole)
    assert events[-1]["usage"] == whole["usage"]
    assert events[-1]["model"] == whole["model"]
