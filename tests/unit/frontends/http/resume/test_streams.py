"""Streams that break off anywhere and are taken up again, on any process, come out as if they never had."""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import ASGIApp

from tailrace.engine.stream import EventStream
from tailrace.errors import UnavailableError
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.resume.store import ResumeStore
from tailrace.frontends.http.resume.streams import ResumableStreams
from tailrace.frontends.rate_gate import RateGate
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.standing import Client
from tailrace.service.api import ChatPrompt, ModelCard
from tailrace.service.formats.format import ChatFormat, EncodedChat, ReasoningTags
from tailrace.service.service import TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.telemetry.lives import LifeLog
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import (
    Explanation,
    FinishReason,
    Invalidated,
    Level,
    MissReason,
    PrefixReport,
    Request,
    Target,
    TokenEvent,
    TokenLogprob,
)
from tests.support.asgi import Answer, Conversation, talk
from tests.support.broken_gate import BrokenGate
from tests.support.text import byte_level_tokenizer

MODEL = ModelCard("tiny", (), 0, max_model_tokens=4096, vocab_size=byte_level_tokenizer().vocab_size)
EMOJI = "héllo the 😀 END there 中文! "
NUM_TOKENS = len(byte_level_tokenizer().encode(EMOJI, allow_control=False))
NO_HEADERS: Mapping[str, str] = {}
KEYS = {"one-key-of-sixteen": Client("one"), "two-key-of-sixteen": Client("two")}


class ThinkingEncoder:
    """Any conversation is a greeting, and its answer begins with a thought."""

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        return EncodedChat(("Hi",), opened="<think>")


CHAT_FORMAT = ChatFormat("hermes", ThinkingEncoder(), ReasoningTags(), "hermes", thinks=True)
ARGUMENTS = '{"city": "中文 😀", "days": [1, 2]}'
CALLING = f"""Let me 😀 think.</think>I look. <tool_call>
{{"name": "weather", "arguments": {ARGUMENTS}}}
</tool_call>
<tool_call>
{{"name": "clock", "arguments": {{}}}}
</tool_call>"""


@dataclass
class Reciter:
    """An engine whose tokens follow from the seed and the place alone. A step gives each request a few, or waits."""

    tokenizer: Tokenizer
    draw: random.Random
    text: str = EMOJI
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    is_ready: bool = True
    received_s: float = 0.0
    num_computed: int = 0
    submitted: list[Request] = field(default_factory=list)
    live: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def submit(self, request: Request) -> EventStream:
        assert request.request_id not in self.live, "an id in use"
        self.submitted.append(request)
        stream = EventStream()
        self.live[request.request_id] = asyncio.create_task(self._recite(request, stream))
        return stream

    async def _recite(self, request: Request, stream: EventStream) -> None:
        text = self.text * (1 + request.sampling.seed % 3)
        ids = self.tokenizer.encode(text, allow_control=False)[: request.sampling.max_tokens]
        cached = 3 if not request.output_ids else 3 + len(request.output_ids)
        prefix = PrefixReport(((Level.ENGINE, cached),), MissReason.EVICTED)
        for place in range(len(request.output_ids), len(ids)):
            await self.gate.wait()
            for _ in range(self.draw.choice([0, 0, 1, 3])):
                await asyncio.sleep(0)
            is_last = place == len(ids) - 1
            reason = FinishReason.LENGTH if is_last else None
            self.num_computed += 1
            event = TokenEvent(request.request_id, ids[place], prefix, reason)
            if (wanted := request.sampling.num_logprobs) is not None:
                best = (TokenLogprob(place % 50 + 9, -1.0),) * wanted
                event = event._replace(logprob=-place / 7, top_logprobs=best)
            stream.push(event)
        del self.live[request.request_id]

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        if (task := self.live.pop(request_id, None)) is not None:
            task.cancel()

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        raise UnavailableError("there is no cache")

    async def invalidate(self, target: Target) -> Invalidated:
        raise UnavailableError("there is no cache")


@dataclass
class Processes:
    """Several API processes before one engine: each has its application, and its part of one store."""

    draw: random.Random
    now: float = 100.0
    text: str = EMOJI
    gate: RateGate = field(default_factory=lambda: RateGate(RateTable.alone()))

    def __post_init__(self) -> None:
        self.engine = Reciter(byte_level_tokenizer(), self.draw, self.text)
        self.engine.gate.set()
        self.memory = memoryview(bytearray(2**20))
        self.lives: list[LifeLog] = []
        self.metrics: list[Metrics] = []
        self.apps = [self.start(0), self.start(1)]

    def start(self, index: int) -> ASGIApp:
        service = TextService(self.engine, byte_level_tokenizer(), CHAT_FORMAT, MODEL)
        store = ResumeStore(self.memory, owner=index, num_owners=2, clock=lambda: self.now)
        metrics, config = Metrics(model_name="tiny", version="0"), HttpConfig(api_keys=ApiKeys(KEYS), gate=self.gate)
        self.lives.append(metrics.lives)
        streams = ResumableStreams(service, store, metrics.http, config)
        self.metrics.append(metrics)
        return create_app(service, metrics, config, streams=streams)

    def num_resumed(self) -> dict[str, float]:
        """How often clients wanted to go on with streams, by what came of it."""
        (series,) = [
            samples
            for metric, samples in self.metrics[0].with_others([self.metrics[1].snapshot()]).samples()
            if metric.name == "tailrace_http_streams_resumed"
        ]
        return {labels[0]: values[0] for labels, values in series}

    async def post(
        self,
        fields: dict[str, object],
        *,
        stop_after: int | None = None,
        app: int = 0,
        is_resumable: bool = True,
        more_headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        path, prompt = ("chat/completions", {}) if "messages" in fields else ("completions", {"prompt": "Hi"})
        body = json.dumps({**prompt, "stream": True, **fields}).encode()
        headers = {"x-stream-resumable": str(is_resumable), "content-type": "application/json", **_authorised("one")}
        headers |= more_headers
        return await _until(talk(self.apps[app], f"/v1/{path}", body, headers=headers), stop_after)

    async def get(
        self, stream_id: str, event_id: str = "", *, stop_after: int | None = None, app: int = 0, key: str = "one"
    ) -> Answer:
        headers = {"last-event-id": event_id, **_authorised(key)}
        talking = talk(self.apps[app], f"/v1/streams/{stream_id}", method="GET", headers=headers)
        return await _until(talking, stop_after)


def _authorised(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}-key-of-sixteen"}


async def _until(conversation: Conversation, stop_after: int | None) -> Answer:
    """The answer, of which the client has so many pieces when it goes."""
    for _ in range(stop_after or 0):
        reading = asyncio.ensure_future(conversation.read())
        await asyncio.wait({reading, conversation.task}, return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
    if stop_after is not None:
        conversation.leave()
    return await conversation.end()


def events_of(answer: Answer) -> list[tuple[str, str]]:
    """The ids and data of the events of an answer."""
    events = []
    for frame in answer.body.decode().split("\n\n")[:-1]:
        *ids, data = frame.split("\n")
        assert data.startswith("data: ")
        events.append((ids[0].removeprefix("id: ") if ids else "", data.removeprefix("data: ")))
    return events


def put_together(data: Sequence[str]) -> dict[int | str, Any]:
    """What all events say, however they are cut. Nothing may be said twice."""
    *chunks, done = data
    assert done == "[DONE]"
    assert "[DONE]" not in chunks
    whole: dict[int | str, Any] = {"usage": []}
    for chunk in map(json.loads, chunks):
        if not chunk["choices"]:
            whole["usage"].append(chunk["usage"])
        for part in chunk["choices"]:
            choice = whole.setdefault(part["index"], {"text": "", "ends": [], "roles": 0, "logprobs": [], "calls": {}})
            delta = part.get("delta", part)
            choice["roles"] += "role" in delta
            choice["text"] += part["text"] if "text" in part else delta.get("content") or ""
            choice["reasoning"] = choice.get("reasoning", "") + delta.get("reasoning", "")
            for call in delta.get("tool_calls", []):
                add_call(choice["calls"], call)
            if part["logprobs"] and "delta" in part:
                choice["logprobs"] += part["logprobs"].get("reasoning_content", []) + part["logprobs"]["content"]
            elif part["logprobs"]:
                choice["logprobs"] += list(zip(*part["logprobs"].values(), strict=True))
            if part["finish_reason"]:
                choice["ends"].append((part["finish_reason"], part["stop_reason"]))
    return whole


def add_call(calls: dict[int, dict[str, str]], delta: dict[str, Any]) -> None:
    """More of a call, which begins once."""
    index, function = delta["index"], delta["function"]
    if "id" in delta:
        assert index not in calls
        calls[index] = {"id": delta["id"], "name": function["name"], "arguments": ""}
    calls[index]["arguments"] += function["arguments"]


def taken_ids(whole: dict[int | str, Any]) -> list[str]:
    """The ids of all calls, which are left out from now on."""
    choices = [whole[index] for index in sorted(each for each in whole if isinstance(each, int))]
    ids = [call.pop("id") for choice in choices for _, call in sorted(choice["calls"].items())]
    assert len(set(ids)) == len(ids)
    return ids


CASES: list[dict[str, object]] = [
    {"max_tokens": 40, "seed": 3},
    {"max_tokens": 400, "seed": 2, "n": 3, "stream_options": {"include_usage": True}},
    {"max_tokens": 60, "seed": 7, "n": 2, "logprobs": 2},
    {"max_tokens": 90, "seed": 1, "stop": ["END the", "there 中"], "n": 2, "stream_options": {"include_usage": True}},
    {"max_tokens": 90, "seed": 5, "stop": ["there 中"], "include_stop_str_in_output": True, "logprobs": 1},
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(12))
async def test_a_stream_that_breaks_off_anywhere_comes_out_as_one_that_does_not(
    case: dict[str, object], seed: int
) -> None:
    draw = random.Random(seed)
    await check_taken_up(Processes(draw), case, draw)


async def test_a_stream_and_each_time_that_it_is_taken_up_are_requests_of_their_own() -> None:
    processes = Processes(random.Random(0))
    answer = await processes.post({"seed": 1, "max_tokens": 8}, stop_after=1)
    event_id = events_of(answer)[-1][0]
    resumed = await processes.get(answer.headers["x-stream-id"], event_id, app=1)
    assert resumed.is_complete

    ((first,), (second,)) = (lives.lives() for lives in processes.lives)
    assert (first.endpoint, first.error) == ("completion", "client_gone")
    assert second.request_id == f"{first.request_id}~1"
    assert (second.endpoint, second.class_name, second.error) == ("completion", "silver", None)
    assert (second.finish_reason, second.num_output_tokens) == ("length", 8)
    assert second.parsed_s is not None
    assert second.submitted_s is not None
    assert second.parsed_s <= second.submitted_s


CHAT: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}], "seed": 3, "max_tokens": 400}
TOOLS: dict[str, object] = {
    "tools": [{"type": "function", "function": {"name": name}} for name in ("weather", "clock")]
}
CHAT_CASES: list[dict[str, object]] = [
    CHAT | TOOLS,
    CHAT | TOOLS | {"n": 2, "stream_options": {"include_usage": True}},
    CHAT | TOOLS | {"logprobs": True, "top_logprobs": 1},
    CHAT | TOOLS | {"include_reasoning": False},
    CHAT,
]


@pytest.mark.parametrize("case", CHAT_CASES)
@pytest.mark.parametrize("seed", range(6))
async def test_reasoning_and_calls_come_out_as_if_nothing_had_broken_off(case: dict[str, object], seed: int) -> None:
    draw = random.Random(seed)
    processes = Processes(draw, text=CALLING)
    whole = await check_taken_up(processes, case, draw)
    assert whole[0]["reasoning"] == ("" if "include_reasoning" in case else "Let me 😀 think.")
    if "tools" in case:
        assert whole[0]["text"].startswith("I look.")
        assert [(call["name"], call["arguments"]) for call in whole[0]["calls"].values()][:2] == [
            ("weather", ARGUMENTS),
            ("clock", "{}"),
        ]


async def check_taken_up(processes: Processes, case: dict[str, object], draw: random.Random) -> dict[int | str, Any]:
    """What the answer says, however often its connection breaks off."""
    undisturbed = put_together([data for _, data in events_of(await processes.post(case))])
    assert all(len(choice["ends"]) == 1 for index, choice in undisturbed.items() if index != "usage")

    had: list[tuple[str, str]] = []
    answer = await processes.post(case, stop_after=draw.choice([1, 2, 5]))
    stream_id = answer.headers["x-stream-id"]
    for _ in range(200):
        new = events_of(answer)
        # The connection broke at any event, or even when all was written.
        had += new if draw.random() < 0.3 else new[: draw.randrange(len(new) + 1)]
        if had and had[-1][1] == "[DONE]":
            break
        if draw.random() < 0.2:
            owner = draw.randrange(2)
            processes.apps[owner] = processes.start(owner)  # a process dies, and the next one has its place
        marked = [event_id for event_id, _ in had if event_id]
        stop_after = draw.choice([None, 1, 1, 2, 5])
        answer = await processes.get(
            stream_id, marked[-1] if marked else "", stop_after=stop_after, app=draw.randrange(2)
        )
        assert answer.status in (200, None)
        if answer.status == 200:
            assert answer.headers["x-stream-id"] == stream_id
    whole = put_together([data for _, data in had])
    told_again = put_together([data for _, data in events_of(await processes.get(stream_id))])
    assert taken_ids(told_again) == taken_ids(whole)
    taken_ids(undisturbed)  # another request's, so others
    assert whole == undisturbed
    assert not processes.engine.live
    return whole


async def test_what_was_computed_is_not_computed_again() -> None:
    processes = Processes(random.Random(2))
    answer = await processes.post({"max_tokens": 26, "seed": 3}, stop_after=4)
    last, before = events_of(answer)[-1][0], processes.engine.num_computed
    rest = await processes.get(answer.headers["x-stream-id"], last, app=1)
    kept = processes.engine.submitted[-1].output_ids
    assert len(kept) >= int(last.partition(".")[2])
    assert processes.engine.num_computed == before + NUM_TOKENS - len(kept)
    assert put_together([data for _, data in events_of(answer) + events_of(rest)])[0]["text"] == EMOJI


async def test_what_the_engine_is_asked_again_has_another_name_each_time() -> None:
    """It may not have heard yet that who asked before is gone."""
    processes = Processes(random.Random(2))
    answer = await processes.post({"max_tokens": 26, "seed": 3}, stop_after=4)
    for _ in range(2):
        await processes.get(answer.headers["x-stream-id"], events_of(answer)[0][0], stop_after=1, app=1)
    first, second, third = (each.request_id.removesuffix("-0") for each in processes.engine.submitted)
    assert (second, third) == (f"{first}~1", f"{first}~2")


async def test_a_stream_that_is_taken_up_stays_in_its_trace() -> None:
    processes = Processes(random.Random(1))
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    begun = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    broken = await processes.post({"max_tokens": NUM_TOKENS}, stop_after=2, more_headers=begun)
    rest = await processes.get(broken.headers["x-stream-id"], events_of(broken)[-1][0], app=1)
    told = [answer.headers["traceparent"] for answer in (broken, rest)]
    assert [request.trace for request in processes.engine.submitted] == told
    assert [trace.split("-")[1] for trace in told] == [trace_id] * 2
    assert told[0] != told[1]


async def test_a_stream_that_came_to_its_end_is_told_again_without_any_computing() -> None:
    processes = Processes(random.Random(3))
    answer = await processes.post({"max_tokens": 26, "seed": 3, "stream_options": {"include_usage": True}})
    events, computed = events_of(answer), processes.engine.num_computed
    stream_id = answer.headers["x-stream-id"]
    assert put_together([data for _, data in events_of(await processes.get(stream_id))]) == put_together(
        [data for _, data in events]
    )
    assert events_of(await processes.get(stream_id, events[-3][0]))[-2:] == events[-2:]
    assert [data for _, data in events_of(await processes.get(stream_id, events[-2][0]))] == ["[DONE]"]
    assert processes.num_resumed() == {"resumed": 3, "expired": 0, "unknown": 0}
    assert processes.engine.num_computed == computed


async def test_events_without_the_wish_have_no_ids_and_are_not_kept() -> None:
    processes = Processes(random.Random(4))
    answer = await processes.post({"max_tokens": 5}, is_resumable=False)
    assert "x-stream-id" not in answer.headers
    assert b"id: " not in answer.body


async def test_a_stream_is_there_for_its_key_alone_and_for_a_minute() -> None:
    processes = Processes(random.Random(5))
    answer = await processes.post({"max_tokens": 5})
    stream_id, last = answer.headers["x-stream-id"], events_of(answer)[0][0]
    assert (await processes.get(stream_id, last, key="two")).status == 404
    assert (await processes.get(stream_id, last, key="no")).status == 401
    assert (await processes.get("f" * 32, last)).status == 404
    assert (await processes.get("../x", last)).status == 404
    processes.now += 60.5
    gone = await processes.get(stream_id, last)
    assert (gone.status, gone.json()["error"]["code"]) == (410, "stream_expired")
    assert processes.num_resumed() == {"resumed": 0, "expired": 1, "unknown": 2}


@pytest.mark.parametrize("event_id", ["x", "1", "1.2,3.4", "-1.0", "1.2?", "9" * 20 + ".1", "\u0663.1", "u", "1.1!!"])
async def test_an_id_of_no_event_of_the_stream_is_refused(event_id: str) -> None:
    processes = Processes(random.Random(6))
    stream_id = (await processes.post({"max_tokens": 5})).headers["x-stream-id"]
    answer = await processes.get(stream_id, event_id)
    assert answer.status == 400
    assert answer.json()["error"]["param"] == "last-event-id"


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"max_tokens": 5}, "8.5!"),
        ({"max_tokens": 5, "logprobs": 1}, "8.5!"),
        ({"max_tokens": 5, "n": 2, "stream_options": {"include_usage": True}}, "8.5!,8.5!u"),
    ],
)
async def test_an_id_behind_all_that_was_sent_is_refused_and_the_last_one_named(
    fields: dict[str, object], last: str
) -> None:
    processes = Processes(random.Random(6))
    whole = await processes.post(fields)
    stream_id, ids = whole.headers["x-stream-id"], [event_id for event_id, _ in events_of(whole)]
    num_chars = len(put_together([data for _, data in events_of(whole)])[0]["text"])
    last = last.replace("8", str(num_chars))
    assert last in ids, ids
    computed = processes.engine.num_computed
    for event_id in (last.replace("5", "6"), last.replace("5!", "99"), last.replace(f"{num_chars}.", "999999999.")):
        if "logprobs" in fields and event_id.startswith("9999"):
            continue  # of text that is not out as a whole, more may have been sent than is kept
        answer = await processes.get(stream_id, event_id, app=1)
        assert answer.status == 400, event_id
        error = answer.json()["error"]
        assert error["param"] == "last-event-id"
        assert "last-event-id" in error["message"]
        assert f"the last id is {last}" in error["message"]
    assert processes.engine.num_computed == computed
    assert (await processes.get(stream_id, last, app=1)).status == 200


async def test_an_id_behind_what_was_said_so_far_is_refused_though_the_answer_goes_so_far() -> None:
    processes = Processes(random.Random(2))
    answer = await processes.post({"max_tokens": 26, "seed": 3}, stop_after=4)
    stream_id, (last, _) = answer.headers["x-stream-id"], events_of(answer)[-1]
    num_chars, num_tokens = map(int, last.split("."))
    for event_id in (f"{num_chars}.25", f"{len(EMOJI)}.{num_tokens}", f"{last}!", f"{last}u"):
        refused = await processes.get(stream_id, event_id, app=1)
        assert refused.status == 400, event_id
        assert "the last id is " in refused.json()["error"]["message"]
    rest = await processes.get(stream_id, last, app=1)
    assert put_together([data for _, data in events_of(answer) + events_of(rest)])[0]["text"] == EMOJI


async def test_who_takes_a_stream_up_ends_it_for_who_still_reads_it() -> None:
    processes = Processes(random.Random(7))
    processes.engine.gate.clear()
    body = b'{"prompt":"Hi","stream":true,"max_tokens":26,"seed":3}'
    headers = {"x-stream-resumable": "true", **_authorised("one")}
    first = talk(processes.apps[0], "/v1/completions", body, headers=headers)
    processes.engine.gate.set()
    await first.read()
    processes.engine.gate.clear()
    second = asyncio.create_task(processes.get(first.answer.headers["x-stream-id"], app=1))
    while len(processes.engine.submitted) < 2:
        await asyncio.sleep(0)
    processes.engine.gate.set()
    ended, whole = await first.end(), await second
    assert json.loads(events_of(ended)[-1][1])["error"]["code"] == "unavailable"
    assert put_together([data for _, data in events_of(whole)])[0]["text"] == EMOJI
    assert not processes.engine.live


async def test_what_cannot_be_charged_is_not_computed_on() -> None:
    processes = Processes(random.Random(9))
    stream_id = (await processes.post({"max_tokens": 26, "seed": 3}, stop_after=2)).headers["x-stream-id"]
    processes.gate = BrokenGate()
    processes.apps = [processes.start(0), processes.start(1)]
    processes.engine.gate.clear()
    assert (await processes.post({"max_tokens": 26, "seed": 3})).status == 500
    assert not processes.engine.live
    processes.engine.gate.set()
    await processes.get(stream_id, stop_after=1)  # its prompt was charged before, and its end cannot be
    assert len(processes.engine.submitted) == 3
    assert not processes.engine.live


async def test_a_stream_for_which_there_is_no_room_goes_on_and_is_not_found() -> None:
    processes = Processes(random.Random(8))
    processes.memory = memoryview(bytearray(32 * 1024))
    processes.apps = [processes.start(0)]
    answer = await processes.post({"prompt": [7] * 3000, "max_tokens": 3})
    assert put_together([data for _, data in events_of(answer)])[0]["ends"] == [("length", None)]
    assert (await processes.get(answer.headers["x-stream-id"])).status == 404


async def test_what_cannot_be_taken_up_again_is_refused_by_name() -> None:
    processes = Processes(random.Random(10))
    for fields in ({"prompt": ["a", "b"]}, {"n": 17}):
        answer = await processes.post({"max_tokens": 5, **fields})
        assert answer.status == 400
        assert answer.json()["error"]["param"] == "x-stream-resumable"
    headers = {"x-stream-resumable": "perhaps", **_authorised("one")}
    answer = await talk(processes.apps[0], "/v1/completions", b'{"prompt":"Hi","stream":true}', headers=headers).end()
    assert answer.status == 400
