"""The contract of the front end: a stream, concatenated, says exactly what the whole answer says."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import post
from tests.support.scripted_service import ScriptedService

LOGPROBS = st.builds(
    lambda text, logprob: TextLogprob(1, text, text.encode(), logprob, (TextLogprob(2, text, b"\xff", logprob),)),
    st.text(max_size=3),
    st.floats(max_value=0),
)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[int, list[ChoiceDelta]]:
    """Deltas of one to three choices, interleaved anyhow, each choice with its end."""
    num_choices = draw(st.integers(1, 3))
    has_logprobs = draw(st.booleans())
    lanes: list[list[ChoiceDelta]] = []
    for index in range(num_choices):
        lane = [
            ChoiceDelta(
                index,
                draw(st.text(max_size=6)),
                token_ids=(1,),
                logprobs=(draw(LOGPROBS),) if has_logprobs else (),
            )
            for _ in range(draw(st.integers(0, 4)))
        ]
        reason = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
        stop_reason = draw(st.none() | st.integers(0, 9) | st.text(max_size=4))
        lane.append(ChoiceDelta(index, draw(st.text(max_size=3)), finish_reason=reason, stop_reason=stop_reason))
        lanes.append(lane)
    order = draw(st.permutations([index for index, lane in enumerate(lanes) for _ in lane]))
    return num_choices, [lanes[index].pop(0) for index in order]


async def both_answers(
    path: str, fields: dict[str, object], script: Sequence[ChoiceDelta]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    service = ScriptedService(script)
    app = create_app(service, Metrics(model_name="tiny", version="0"), HttpConfig())
    whole = await post(app, path, fields)
    streamed = await post(app, path, fields | {"stream": True, "stream_options": {"include_usage": True}})
    return whole.json(), streamed.events()


def merged(into: dict[str, list[Any]], logprobs: dict[str, list[Any] | None] | None) -> None:
    for name, values in (logprobs or {}).items():
        into.setdefault(name, []).extend(values or [])


def concatenated(events: list[dict[str, Any]], num_choices: int) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = [{"text": "", "logprobs": {}} for _ in range(num_choices)]
    for event in events:
        for part in event["choices"]:
            choice = choices[part["index"]]
            choice["text"] += part["text"] if "text" in part else part["delta"].get("content", "")
            merged(choice["logprobs"], part["logprobs"])
            if part["finish_reason"] is not None:
                assert "finish_reason" not in choice
                choice["finish_reason"], choice["stop_reason"] = part["finish_reason"], part["stop_reason"]
    return choices


def plain(answer: dict[str, Any]) -> list[dict[str, Any]]:
    choices = []
    for choice in answer["choices"]:
        logprobs: dict[str, list[Any]] = {}
        merged(logprobs, choice["logprobs"])
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        choices.append({"text": text, "logprobs": logprobs} | {k: choice[k] for k in ("finish_reason", "stop_reason")})
    return choices


@settings(max_examples=150)
@given(scripts(), st.booleans())
def test_a_stream_concatenates_to_the_whole_answer(script: tuple[int, list[ChoiceDelta]], is_chat: bool) -> None:
    num_choices, deltas = script
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    prompt: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}]} if is_chat else {"prompt": "Hi"}
    whole, events = asyncio.run(both_answers(path, prompt | {"n": num_choices}, deltas))

    assert concatenated(events, num_choices) == plain(whole)
    assert events[-1]["usage"] == whole["usage"]
    assert events[-1]["model"] == whole["model"]
