"""The endpoints that generate text: a body becomes a job, the job's stream becomes an answer, whole or in chunks."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.gaps import GapClock
from tailrace.frontends.http.merge import start_all
from tailrace.frontends.http.openai.answer import AnswerHead
from tailrace.frontends.http.openai.chunks import ChatShape, ChunkShape, ChunkWriter, CompletionShape
from tailrace.frontends.http.openai.request import Job, decode_chat, decode_completion
from tailrace.frontends.http.openai.whole import Gathered, encode_chat, encode_completion
from tailrace.frontends.http.sse import send_stream
from tailrace.service.api import GenerationStream, ModelCard, Service, Usage
from tailrace.telemetry.http import HttpMetrics

__all__ = ["CHAT", "COMPLETION", "Dialect", "Generate"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What tells one generating endpoint from another."""

    id_prefix: str
    decode: Callable[[bytes, str, ModelCard, HttpConfig], Job]
    chunk_shape: ChunkShape
    encode_whole: Callable[[AnswerHead, Gathered, Usage], bytes]


CHAT = Dialect("chatcmpl-", decode_chat, ChatShape(), encode_chat)
COMPLETION = Dialect("cmpl-", decode_completion, CompletionShape(), encode_completion)


class Generate:
    """Answers one dialect. The work is aborted as soon as the client is gone, in whatever phase it is."""

    def __init__(self, service: Service, metrics: HttpMetrics, config: HttpConfig, dialect: Dialect) -> None:
        self._service = service
        self._metrics = metrics
        self._config = config
        self._dialect = dialect

    async def __call__(self, exchange: Exchange) -> None:
        body = await exchange.read_json(self._config.max_body_bytes)
        # The client's id may come twice, from a retry: the engine gets one that cannot.
        request_id = f"{exchange.request_id}-{exchange.unique_id[:12]}"
        job = self._dialect.decode(body, request_id, self._service.model, self._config)
        await exchange.unless_gone(self._answer(exchange, job))

    async def _answer(self, exchange: Exchange, job: Job) -> None:
        stream = await start_all(self._service, job.generations)
        try:
            clock = GapClock(self._metrics, exchange.arrived_s, job.num_choices)
            send = self._send_chunks if job.is_streamed else self._send_whole
            await send(exchange, stream, job, clock)
        finally:
            await stream.aclose()

    async def _send_chunks(self, exchange: Exchange, stream: GenerationStream, job: Job, clock: GapClock) -> None:
        head = self._head(exchange)
        writer = ChunkWriter(self._dialect.chunk_shape, head, job.num_choices, has_usage=job.include_usage)
        limit = self._config.max_buffered_bytes
        await send_stream(exchange, stream, job, writer=writer, clock=clock, max_bytes=limit)

    async def _send_whole(self, exchange: Exchange, stream: GenerationStream, job: Job, clock: GapClock) -> None:
        gathered = Gathered(job.num_choices)
        async for delta in stream:
            exchange.phase = "answering"
            clock.tick(delta)
            gathered.add(delta)
        await exchange.respond_json(self._dialect.encode_whole(self._head(exchange), gathered, stream.usage))

    def _head(self, exchange: Exchange) -> AnswerHead:
        answer_id = self._dialect.id_prefix + exchange.unique_id
        return AnswerHead(answer_id, int(time.time()), self._service.model.name, self._config.fingerprint)
