"""Streams that can be taken up again: begun by a POST that asks for it in a header, taken up by a GET of their id.

    x-stream-resumable: true      of the POST: events get an `id`, and the answer has the header x-stream-id
    GET /v1/streams/ID            with the header last-event-id: the events behind that one

What was computed is kept for a while behind the end of a connection, for whoever has the same API key. The rest is then
computed as if the first request had gone on, on whichever process it is asked for.
"""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from tailrace.errors import InvalidRequest, RequestError
from tailrace.frontends.charged import charged
from tailrace.frontends.gaps import GapClock
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.followed import followed
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.openai.form import CHAT, COMPLETION, CompletionsForm
from tailrace.frontends.http.pulse import Pulse
from tailrace.frontends.http.resume.journal import StoreJournal
from tailrace.frontends.http.resume.marks import MAX_MARKED_CHOICES, Mark, Marks, RestOfStream
from tailrace.frontends.http.resume.reach import check_reached
from tailrace.frontends.http.resume.record import ShownStream, StreamRecord
from tailrace.frontends.http.resume.store import Kept, ResumeStore
from tailrace.frontends.http.resume.words import read_words
from tailrace.frontends.http.resume.writer import MarkedWriter
from tailrace.frontends.http.sse import send_stream
from tailrace.service.api import GenerationStream, JournaledService, Output, SettledGeneration, Usage
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.lives import RequestLife

__all__ = ["ResumableStreams", "is_resumable"]

_WISH = b"x-stream-resumable"
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_KINDS = {"chat": CHAT, "completion": COMPLETION}


class StreamNotFound(RequestError):
    status = 404
    code = "stream_not_found"


class StreamExpired(RequestError):
    status = 410
    code = "stream_expired"


def is_resumable(exchange: Exchange, job: Job) -> bool:
    """Whether a stream is wanted that can be taken up again. Raises InvalidRequest for a wish that is none."""
    wish = exchange.headers.get(_WISH, b"false").strip().lower()
    if wish not in (b"true", b"false"):
        raise InvalidRequest("the header x-stream-resumable is true or false", param="x-stream-resumable")
    return wish == b"true" and job.is_streamed


class ResumableStreams:
    """Answers requests with such streams, and those that go on with one."""

    def __init__(self, service: JournaledService, store: ResumeStore, metrics: HttpMetrics, config: HttpConfig) -> None:
        self._service = service
        self._store = store
        self._metrics = metrics
        self._config = config

    async def answer(self, exchange: Exchange, job: Job, head: AnswerHead, life: RequestLife) -> None:
        """Begins a stream. Raises InvalidRequest for an answer that cannot be taken up again."""
        _check(job)
        shown = _shown(job, head)
        with self._keeping(exchange, bytes.fromhex(exchange.unique_id), shown, epoch=0) as journal:
            stream = await self._service.start_journaled(job.generations[0], journal)
            async with charged(stream, exchange.visit, life):
                exchange.more_headers.append((b"x-stream-id", exchange.unique_id.encode()))
                await self._send(exchange, stream, shown, Marks.begin(job.n), life)

    async def resume(self, exchange: Exchange) -> None:
        """Goes on with a stream. Raises StreamNotFound, StreamExpired, and InvalidRequest for a wrong event id."""
        exchange.phase = "waiting"
        stream_id = exchange.path_params["stream_id"]
        kept = self._find(exchange, stream_id)
        record = StreamRecord.decode(kept.head)
        # The engine may not have heard yet that the connection before is gone: its requests are others.
        settled = replace(record.settled, epoch=kept.epoch + 1)
        exchange.enter_span(self._config.tracing, settled.trace)
        exchange.service_class = settled.standing.class_name
        life = RequestLife(
            request_id=settled.attempt_id,
            endpoint=record.shown.kind,
            class_name=settled.standing.class_name,
            accepted_s=exchange.arrived_s,
            parsed_s=time.monotonic(),
            sampling=settled.sampling,
            num_choices=settled.n,
            is_streamed=True,
            answer_id=record.shown.head.answer_id,
        )
        record = StreamRecord(record.shown, replace(settled, trace=exchange.traceparent))
        with followed(exchange, self._metrics.answers.lives, life):
            await exchange.unless_gone(self._go_on(exchange, kept, record, life))

    def _find(self, exchange: Exchange, stream_id: str) -> Kept:
        kept = self._store.find(bytes.fromhex(stream_id), _key(exchange)) if _ID.fullmatch(stream_id) else None
        if kept is None:
            self._metrics.stream_resumed("unknown")
            raise StreamNotFound(
                "there is no such stream of this API key; streams are kept for a minute, if there is room"
            )
        if kept.is_expired:
            self._metrics.stream_resumed("expired")
            raise StreamExpired("this stream ended too long ago to be taken up again; send its request anew")
        return kept

    async def _go_on(self, exchange: Exchange, kept: Kept, record: StreamRecord, life: RequestLife) -> None:
        settled, stream_id = record.settled, exchange.path_params["stream_id"]
        event_id = exchange.headers.get(b"last-event-id", b"").decode("latin-1").strip()
        marks = Marks.parse(event_id, settled.n) if event_id else Marks.begin(settled.n)
        outputs = read_words(kept.words, settled.n)
        if event_id:
            await check_reached(marks, self._service, settled, outputs, has_usage=record.shown.include_usage)
        if settled.sampling.num_logprobs is not None:  # what the client has not yet is computed again, to have them
            outputs = [_cut(each, mark) for each, mark in zip(outputs, marks.choices, strict=True)]
        with self._keeping(exchange, bytes.fromhex(stream_id), record.shown, settled.epoch) as journal:
            stream = await self._service.resume(settled, outputs, journal, life)
            self._metrics.stream_resumed("resumed")
            before = Usage(stream.prompt_tokens, sum(len(output.token_ids) for output in outputs), 0)
            async with charged(stream, exchange.visit, life, before):
                exchange.more_headers.append((b"x-stream-id", stream_id.encode()))
                await self._send(exchange, stream, record.shown, marks, life)

    @contextmanager
    def _keeping(self, exchange: Exchange, stream_id: bytes, shown: ShownStream, epoch: int) -> Iterator[StoreJournal]:
        def head_of(settled: SettledGeneration) -> bytes:
            return StreamRecord(shown, settled).encode()

        journal = StoreJournal(self._store, stream_id, _key(exchange), head_of, epoch)
        try:
            yield journal
        finally:
            journal.end()

    async def _send(
        self, exchange: Exchange, whole: GenerationStream, shown: ShownStream, marks: Marks, life: RequestLife
    ) -> None:
        """Sends what is behind the marks."""
        num_choices = len(marks.choices)
        rest = RestOfStream(whole, marks)
        form = CompletionsForm(_KINDS[shown.kind], num_choices, shown.include_usage, shown.shows_reasoning)
        writer = MarkedWriter(form.writer(shown.head, rest), marks)
        exchange.failure_frames = writer.failure
        clock = GapClock(self._metrics.answers, life, num_choices)
        pulse = Pulse(exchange, self._config.patience, self._metrics, writer.keep_alive)
        if writer.is_complete:
            await rest.take()  # nothing comes of it but the usage
        await send_stream(rest, shown, writer=writer, clock=clock, pulse=pulse)


def _cut(output: Output, mark: Mark) -> Output:
    """What needs no computing for a client that wants log probabilities of all that it has not yet."""
    return output if mark.is_finished else output.cut(mark.num_tokens)


def _key(exchange: Exchange) -> bytes:
    """What tells that it is the same API key: nothing of it stays in the store."""
    return hashlib.blake2b(exchange.bearer_token or b"", digest_size=16).digest()


def _shown(job: Job, head: AnswerHead) -> ShownStream:
    form = job.form
    assert isinstance(form, CompletionsForm), "what was checked"
    kind: Literal["chat", "completion"] = "chat" if form.kind is CHAT else "completion"
    return ShownStream(kind, head, job.include_usage, job.continuous_usage, form.shows_reasoning)


def _check(job: Job) -> None:
    if not isinstance(job.form, CompletionsForm):
        raise InvalidRequest("only streams of completions can be taken up again", param="x-stream-resumable")
    if job.num_choices > MAX_MARKED_CHOICES or len(job.generations) > 1:
        raise InvalidRequest(
            f"a stream that can be taken up again has one prompt and at most {MAX_MARKED_CHOICES} choices",
            param="x-stream-resumable",
        )
