"""The endpoints that generate text: a body becomes a job, the job's stream becomes an answer, whole or in chunks."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tailrace.errors import InvalidRequest
from tailrace.frontends.charged import charged
from tailrace.frontends.claim import with_headers
from tailrace.frontends.following import note_asked
from tailrace.frontends.gaps import GapClock
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.request import decode_message
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.followed import followed
from tailrace.frontends.http.gathered import Gathered
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.merge import start_all
from tailrace.frontends.http.openai.request import decode_chat, decode_completion
from tailrace.frontends.http.pulse import Pulse
from tailrace.frontends.http.responses.request import decode_response
from tailrace.frontends.http.resume.streams import ResumableStreams, is_resumable
from tailrace.frontends.http.server_timing import server_timing
from tailrace.frontends.http.sse import send_stream
from tailrace.frontends.standing import settle, tier_word
from tailrace.service.api import GenerationStream, ModelCard, Service
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.lives import RequestLife

__all__ = ["CHAT", "COMPLETION", "MESSAGE", "RESPONSE", "Dialect", "Generate"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What tells one generating endpoint from another: how its answers are called, and how its bodies are read.

    The job that is made of a body knows how its answer is written.
    """

    endpoint: str
    id_prefix: str
    decode: Callable[[bytes, str, ModelCard, HttpConfig], Job]


CHAT = Dialect("chat", "chatcmpl-", decode_chat)
COMPLETION = Dialect("completion", "cmpl-", decode_completion)
RESPONSE = Dialect("response", "resp_", decode_response)
MESSAGE = Dialect("message", "msg_", decode_message)


class Generate:
    """Answers one dialect. The work is aborted as soon as the client is gone, in whatever phase it is."""

    def __init__(
        self,
        service: Service,
        metrics: HttpMetrics,
        config: HttpConfig,
        dialect: Dialect,
        streams: ResumableStreams | None = None,
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._config = config
        self._dialect = dialect
        self._streams = streams

    async def __call__(self, exchange: Exchange) -> None:
        exchange.enter_span(self._config.tracing)
        life = RequestLife(
            # The client's id may come twice, from a retry: the engine gets one that cannot.
            request_id=f"{exchange.request_id}-{exchange.unique_id[:12]}",
            endpoint=self._dialect.endpoint,
            class_name="",
            accepted_s=exchange.arrived_s,
            answer_id=self._dialect.id_prefix + exchange.unique_id,
        )
        with followed(exchange, self._metrics.answers.lives, life):
            await self._follow(exchange, life)

    async def _follow(self, exchange: Exchange, life: RequestLife) -> None:
        body = await exchange.read_json(self._config.max_body_bytes)
        job = self._dialect.decode(body, life.request_id, self._service.model, self._config)
        job = self._placed(job, exchange).followed(life)
        life.class_name = exchange.service_class = job.class_name
        note_asked(life, job.generations[0], job.num_choices, is_streamed=job.is_streamed)
        life.parsed_s = time.monotonic()
        await exchange.unless_gone(self._answer(exchange, job, life))

    def _placed(self, job: Job, exchange: Exchange) -> Job:
        """The job in the class that it is served in."""
        classes = self._service.classes
        claim = with_headers(job.claim, exchange.headers, classes)
        standing = settle(claim, exchange.client, classes)
        return job.placed(standing, tier_word(claim, standing, classes), exchange.traceparent)

    async def _answer(self, exchange: Exchange, job: Job, life: RequestLife) -> None:
        if is_resumable(exchange, job):
            if self._streams is None:
                raise InvalidRequest("this stream cannot be taken up again", param="x-stream-resumable")
            await self._streams.answer(exchange, job, self._head(exchange, job), life)
            return
        stream = await start_all(self._service, job.generations)
        async with charged(stream, exchange.visit, life):
            clock = GapClock(self._metrics.answers, life, job.num_choices, is_streamed=job.is_streamed)
            send = self._send_chunks if job.is_streamed else self._send_whole
            await send(exchange, stream, job, clock)

    async def _send_chunks(self, exchange: Exchange, stream: GenerationStream, job: Job, clock: GapClock) -> None:
        writer = job.form.writer(self._head(exchange, job), stream)
        exchange.failure_frames = writer.failure
        pulse = Pulse(exchange, self._config.patience, self._metrics, writer.keep_alive)
        await send_stream(stream, job, writer=writer, clock=clock, pulse=pulse)

    async def _send_whole(self, exchange: Exchange, stream: GenerationStream, job: Job, clock: GapClock) -> None:
        gathered = Gathered(job.num_choices)
        async for delta in stream:
            exchange.phase = "answering"
            clock.tick(delta)
            gathered.add(delta)
        head, usage = self._head(exchange, job), stream.usage
        body = job.form.encode_whole(head, gathered.choices(), usage)
        clock.ended()
        await exchange.respond(200, body, [server_timing(clock.life, time.monotonic())])

    def _head(self, exchange: Exchange, job: Job) -> AnswerHead:
        answer_id, model = self._dialect.id_prefix + exchange.unique_id, self._service.model.name
        return AnswerHead(answer_id, int(time.time()), model, self._config.fingerprint, job.service_tier)
