"""The frames of a chat with their ids, from any of which the rest can be had."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.openai.chunks import ChatShape, ChunkWriter
from tailrace.frontends.http.resume.marks import Marks, RestOfStream
from tailrace.frontends.http.resume.writer import MarkedWriter
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob, Usage
from tailrace.types import FinishReason
from tests.support.scripted_service import ScriptedStream

USAGE = Usage(3, 4, 0)
DELTAS = [
    ChoiceDelta(0, "Hel", (1,)),
    ChoiceDelta(1, "x", (5,)),
    ChoiceDelta(0, "", (2,)),
    ChoiceDelta(0, "lo", (3, 4)),
    ChoiceDelta(1, "y", (6,), finish_reason=FinishReason.LENGTH),
    ChoiceDelta(0, "!", (7,)),
    ChoiceDelta(0, "", finish_reason=FinishReason.STOP, stop_reason="z"),
]


async def frames_behind(event_id: str, deltas: list[ChoiceDelta]) -> list[str]:
    marks = Marks.parse(event_id, 2)
    rest = RestOfStream(ScriptedStream(deltas), marks)
    frames = ChunkWriter(ChatShape(), AnswerHead("a", 0, "m", "f"), 2, has_usage=True)
    writer, buffer = MarkedWriter(frames, marks), bytearray()
    async for delta in rest:
        writer.write(buffer, delta, None)
    writer.close(buffer, USAGE)
    return buffer.decode().split("\n\n")[:-1]


def id_of(frame: str) -> str:
    return frame.partition("\n")[0].removeprefix("id: ")


async def test_each_event_says_what_of_the_answer_has_come_with_it() -> None:
    frames = await frames_behind("-,-", DELTAS)
    assert [id_of(frame) for frame in frames[:-1]] == [
        "0.0,-",
        "3.1,-",
        "3.1,0.0",
        "3.1,1.1",
        "5.4,1.1",
        "5.4,2.2",
        "5.4,2.2!",
        "6.5,2.2!",
        "6.5!,2.2!",
        "6.5!,2.2!u",
    ]
    assert frames[-1] == "data: [DONE]"


async def test_behind_each_event_comes_what_came_behind_it() -> None:
    frames = await frames_behind("-,-", DELTAS)
    for place, frame in enumerate(frames[:-1]):
        assert await frames_behind(id_of(frame), DELTAS) == frames[place + 1 :]


@pytest.mark.parametrize("event_id", ["-,-", "3.1,-", "4.1,1.1", "5.4,2.2!", "6.5!,2.2!", "6.5!,2.2!u"])
async def test_it_does_not_matter_how_the_answer_is_cut(event_id: str) -> None:
    whole = [
        ChoiceDelta(1, "xy", (5, 6), finish_reason=FinishReason.LENGTH),
        ChoiceDelta(0, "Hello!", (1, 2, 3, 4, 7), finish_reason=FinishReason.STOP, stop_reason="z"),
    ]
    texts = [
        [
            "".join(part["delta"].get("content", "") for part in _parts(frames) if part["index"] == index)
            for index in (0, 1)
        ]
        for frames in (await frames_behind(event_id, DELTAS), await frames_behind(event_id, whole))
    ]
    assert texts[0] == texts[1]


def _parts(frames: list[str]) -> list[dict[str, Any]]:
    chunks = [json.loads(frame.partition("data: ")[2]) for frame in frames[:-1]]
    return [part for chunk in chunks for part in chunk["choices"]]


async def test_log_probabilities_go_with_their_tokens() -> None:
    logprobs = tuple(TextLogprob(token_id, "t", b"t", -1.0) for token_id in (1, 2, 3, 4))
    whole = [ChoiceDelta(0, "abcd", (1, 2, 3, 4), logprobs), ChoiceDelta(0, "", finish_reason=FinishReason.STOP)]
    rest = RestOfStream(ScriptedStream(whole), Marks.parse("2.3", 1))
    (delta, _) = await rest.take()
    assert (delta.text, delta.token_ids, delta.logprobs) == ("cd", (4,), logprobs[3:])
    known = [ChoiceDelta(0, "abcd", (1, 2, 3, 4), logprobs[2:])]  # the first were said before, and have none
    (delta,) = await RestOfStream(ScriptedStream(known), Marks.parse("2.2", 1)).take()
    assert (delta.token_ids, delta.logprobs) == ((3, 4), logprobs[2:])


CALLING = [
    ChoiceDelta(1, "", (8,)),
    ChoiceDelta(0, "", (1,), reasoning="Hm"),
    ChoiceDelta(0, "I ", (2, 3), reasoning="m."),
    ChoiceDelta(1, "x", (9,), finish_reason=FinishReason.STOP),
    ChoiceDelta(0, "look", (4,), calls=(CallDelta(0, "", "c0", "f"), CallDelta(0, '{"a":'))),
    ChoiceDelta(0, "", (5, 6, 7), calls=(CallDelta(0, "1}"), CallDelta(1, "{}", "c1", "g"))),
    ChoiceDelta(0, "", finish_reason=FinishReason.TOOL_CALLS),
]
WHOLE_CALLING = [
    ChoiceDelta(
        0,
        "I look",
        (1, 2, 3, 4, 5, 6, 7),
        finish_reason=FinishReason.TOOL_CALLS,
        reasoning="Hmm.",
        calls=(CallDelta(0, '{"a":1}', "c0", "f"), CallDelta(1, "{}", "c1", "g")),
    ),
    ChoiceDelta(1, "x", (8, 9), finish_reason=FinishReason.STOP),
]


async def test_reasoning_and_calls_have_their_ids_in_the_order_in_which_they_come() -> None:
    frames = await frames_behind("-,-", CALLING)
    assert [
        id_of(frame).partition(",")[0] for frame in frames if '"index":0' in frame.partition('"tool_calls"')[0]
    ] == [
        "0.0",
        "2.1",
        "4.3",
        "6.3",
        "10.4",
        "11.4",
        "16.4",
        "18.7",
        "19.7",
        "21.7",
        "21.7!",
    ]


def put_together(frames: list[str]) -> dict[tuple[int, str], str]:
    said: dict[tuple[int, str], str] = {}
    for part in _parts(frames):
        delta, index = part["delta"], part["index"]
        for call in delta.get("tool_calls", []):
            for name in ("name", "arguments"):
                key = index, f"{name} of {call['index']}"
                said[key] = said.get(key, "") + call["function"].get(name, "")
        for name in ("reasoning", "content"):
            said[index, name] = said.get((index, name), "") + (delta.get(name) or "")
    return said


@pytest.mark.parametrize("has_logprobs", [False, True])
async def test_reasoning_and_calls_go_on_behind_each_event_however_they_are_cut(has_logprobs: bool) -> None:
    def deltas(script: list[ChoiceDelta]) -> list[ChoiceDelta]:
        return [_with_logprobs(each) for each in script] if has_logprobs else script

    frames = await frames_behind("-,-", deltas(CALLING))
    for place, frame in enumerate(frames[:-1]):
        rest = await frames_behind(id_of(frame), deltas(CALLING))
        assert rest == frames[place + 1 :]
        other = await frames_behind(id_of(frame), deltas(WHOLE_CALLING))
        assert {key: text for key, text in put_together(other).items() if text} == {
            key: text for key, text in put_together(rest).items() if text
        }


def _with_logprobs(delta: ChoiceDelta) -> ChoiceDelta:
    entries = tuple(TextLogprob(each, str(each), b"", -1.0, is_reasoning=each < 3) for each in delta.token_ids)
    return replace(delta, logprobs=entries)


async def test_a_frame_has_one_id_whatever_is_in_it() -> None:
    for frame in await frames_behind("-,-", WHOLE_CALLING):
        assert frame.count("data: ") == 1
        assert frame.count("id: ") == (frame != "data: [DONE]")
