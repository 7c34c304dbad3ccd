"""The engine in another process, which may die at any time: its requests are kept here and handed to the next one.

What an engine has published is in shared memory, and a token is there together with its end. So when an engine is
dead, and all is read that it has published, each request that is still here lacks what comes behind its tokens so far:
the next engine computes exactly that, and whoever reads the streams does not notice.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tailrace.classes import ServiceClasses
from tailrace.engine.board import Board, EngineState
from tailrace.engine.channel import Channel
from tailrace.engine.client import ObservePieces, TokenStream
from tailrace.engine.numbers import Numbers
from tailrace.engine.outage import OutageWatch
from tailrace.engine.outbox import Outbox
from tailrace.engine.published import Arrival, Published
from tailrace.engine.stream import EventStream
from tailrace.engine.wire import Abort, Detail, MessageDamaged, Pause, Proceed, Submit
from tailrace.errors import (
    ContextTooLong,
    InvalidRequest,
    Overloaded,
    RingDamaged,
    TailraceError,
    UnavailableError,
    heeded_s,
)
from tailrace.records import EventKind, Tell, untold
from tailrace.ring import MessageRing
from tailrace.types import (
    CacheAnswer,
    CacheQuery,
    Explain,
    Explanation,
    FinishReason,
    Invalidate,
    Invalidated,
    PrefixReport,
    Refusal,
    Request,
    Target,
    TokenEvent,
    TokenIds,
    packed,
)

__all__ = ["RemoteEngine"]

logger = logging.getLogger(__name__)

_MAX_HELD = 256  # requests that come while there is no engine
_MAX_QUESTIONS = 64
_RETRY_S = 1.0
_LOOK_S = 0.02  # how often the board, and room for what waits, are looked for, while something is awaited
_SOME = 256  # read at once
_MOST_READS = 8  # before others on the event loop have their turn

_FAILED = "the engine died again and again, and is left alone for a while: try again later"
_QUARANTINED = "the engine died twice while it computed this request, so it is not computed again"

Answer = TypeVar("Answer", Explanation, Invalidated)


@dataclass(slots=True, eq=False)
class _Live:
    """A request that has not ended, and what came of it."""

    number: int
    request: Request
    stream: EventStream
    output_ids: TokenIds
    prefix: PrefixReport | None = None  # as its client saw it first
    was_sent: bool = False  # to this engine, or to one before it
    is_parked: bool = False  # not sent to this engine yet: its reader lags
    is_suspect: bool = False  # it may have killed an engine, and has not come past that point

    def take(self, arrival: Arrival) -> TokenEvent:
        """What came for it. Raises MessageDamaged when a token is missing, or came twice."""
        detail = arrival.detail if isinstance(arrival.detail, Detail) else None
        if self.prefix is None and detail is not None:
            self.prefix = detail.prefix
        if arrival.token_id is not None:
            self.output_ids.append(arrival.token_id)
            self.is_suspect = False
            if arrival.position != len(self.output_ids):
                raise MessageDamaged(f"token {arrival.position} came where {len(self.output_ids)} was due")
        event = TokenEvent(
            self.request.request_id, arrival.token_id, self.prefix, arrival.finish_reason, arrival.logprob
        )
        if detail is None:
            return event
        return event._replace(
            top_logprobs=detail.top_logprobs,
            error=detail.error,
            refusal=detail.refusal,
            beginning=detail.beginning,
        )

    @property
    def submit(self) -> Submit:
        """It as it is now, for an engine that does not know it."""
        request = replace(self.request, output_ids=self.output_ids, is_resumed=self.was_sent)
        return Submit(self.number, request, self.is_suspect)


@dataclass(frozen=True, slots=True)
class _Asked:
    query: CacheQuery
    answer: asyncio.Future[CacheAnswer]


class RemoteEngine:
    """An EngineClient. Make it on the event loop that will read the streams, in the process that will.

    `classes` have the targets that were configured. `on_failure` is called on that event loop when what engines publish
    can be read no more, which no other engine would change. `observe_ring` is told how long what came together was on
    its way, or the last of it; `on_replaced` is called when another engine takes what one that died has left.
    `on_resumed` is called for each request that one engine had and the next is handed.
    `received_s` is when the latest tokens came.
    `tell` hears of requests that are given up; that of the first API process hears of engines that die and come back.
    """

    def __init__(
        self,
        channel: Channel,
        board: Board,
        *,
        worker_generation: int,
        classes: ServiceClasses,
        max_model_tokens: int,
        on_failure: Callable[[], None],
        observe_ring: ObservePieces | None = None,
        on_replaced: Callable[[], None] = lambda: None,
        on_resumed: Callable[[], None] = lambda: None,
        tell: Tell = untold,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board = board
        self._observe_ring = observe_ring
        self._on_replaced = on_replaced
        self.received_s = 0.0
        self._bell = channel.worker_bell
        self._max_model_tokens = max_model_tokens
        self._on_failure = on_failure
        self._on_resumed = on_resumed
        self._tell = tell
        self._outages = OutageWatch(board, tell if channel.owner == 0 else untold)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._numbers = Numbers(channel.owner, worker_generation)
        self._published = Published(channel, self._numbers)
        self._generation = board.generation
        self._outbox = Outbox(MessageRing(channel.commands), channel.engine_bell, self._generation)
        self._live: dict[int, _Live] = {}
        self._by_id: dict[str, _Live] = {}
        self._num_held = 0
        self._asked: dict[int, _Asked] = {}
        self._classes = classes
        self._scaled = 1.0, classes
        self._watching: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._loop.add_reader(self._bell.fd, self._take_in)
        self._take_in()

    @property
    def is_ready(self) -> bool:
        """Whether there is an engine that takes requests."""
        return self._board.is_ready and not self._is_closed

    @property
    def classes(self) -> ServiceClasses:
        """The service classes, with the targets that they have now."""
        scale = self._board.target_scale
        if scale != self._scaled[0]:
            self._scaled = scale, self._classes.scaled(scale)
        return self._scaled[1]

    @property
    def num_requests(self) -> int:
        """Requests that were submitted and have not ended, of all API processes."""
        return self._board.num_requests

    @property
    def num_live(self) -> int:
        """Requests that were submitted here and have not ended."""
        return len(self._live)

    def submit(self, request: Request) -> TokenStream:
        """Queue a request. What the engine refuses is told by the stream. One that comes between two engines waits.

        Raises InvalidRequest, ContextTooLong, Overloaded, UnavailableError.
        """
        self._look_at_board()
        self._check(request)
        stream = EventStream(request.request_id, self)
        request = replace(request, arrival_s=self._clock())
        live = _Live(self._numbers.next(), request, stream, packed(request.output_ids))
        self._offer(live)
        self._live[live.number] = self._by_id[request.request_id] = live
        self._watch()
        return stream

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """End a request at once. What the engine still publishes of it is passed over."""
        live = self._by_id.get(request_id)
        if live is not None:
            self._end(live, TokenEvent(request_id, None, live.prefix, reason))
            self._outbox.send(Abort(live.number, reason))

    def pause(self, request_id: str) -> None:
        """Let no more of a request be computed until `proceed`."""
        live = self._by_id.get(request_id)
        if live is not None:
            self._outbox.send(Pause(live.number))

    def proceed(self, request_id: str) -> None:
        live = self._by_id.get(request_id)
        if live is None:
            return
        if live.is_parked:
            self._hand_over(live)
        else:
            self._outbox.send(Proceed(live.number))

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        return await self._ask(Explain(self._numbers.next(), prompt_ids, cache_salt), Explanation)

    async def invalidate(self, target: Target) -> Invalidated:
        return await self._ask(Invalidate(self._numbers.next(), target), Invalidated)

    def close(self) -> None:
        """Leave: what is still live ends with an error."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._bell.fd)
        if self._watching is not None:
            self._watching.cancel()
        for number in self._live:
            self._outbox.send(Abort(number, FinishReason.ABORT))
        self._fail_all(UnavailableError("the server has stopped"))

    def _check(self, request: Request) -> None:
        self._check_engine()
        if request.request_id in self._by_id:
            raise InvalidRequest(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        if request.num_prompt_tokens >= self._max_model_tokens:
            raise ContextTooLong(
                f"the prompt has {request.num_prompt_tokens} tokens; the context holds {self._max_model_tokens}, "
                "answer included",
                param="messages",
            )

    def _check_engine(self) -> None:
        state = self._board.state
        if self._is_closed:
            raise UnavailableError("the server has stopped")
        if state is EngineState.STARTING:
            raise UnavailableError("the engine is being started: try again in a moment", retry_after_s=_RETRY_S)
        if state is EngineState.FAILED:
            raise self._failure

    @property
    def _failure(self) -> UnavailableError:
        return UnavailableError(_FAILED, retry_after_s=heeded_s(self._board.retry_at_s - self._clock()))

    def _offer(self, live: _Live) -> None:
        """Send a new request, or hold it while there is no engine."""
        if self._board.state is EngineState.RECOVERING:
            if self._num_held >= _MAX_HELD:
                raise Overloaded(f"{_MAX_HELD} requests wait for the engine already", retry_after_s=_RETRY_S)
            self._num_held += 1
            return
        live.was_sent = self._outbox.offer(live.submit)
        if not live.was_sent:
            raise Overloaded("the engine does not keep up with the requests that come", retry_after_s=_RETRY_S)

    async def _ask(self, query: CacheQuery, kind: type[Answer]) -> Answer:
        self._look_at_board()
        self._check_engine()
        if len(self._asked) >= _MAX_QUESTIONS:
            raise Overloaded(f"{_MAX_QUESTIONS} questions about the cache wait already", retry_after_s=_RETRY_S)
        asked = self._asked[query.query_id] = _Asked(query, self._loop.create_future())
        self._watch()
        try:
            self._outbox.send(query)
            answer = await asked.answer
        finally:
            del self._asked[query.query_id]
            self._outbox.drop(query.query_id)
        assert isinstance(answer, kind), f"question {query.query_id} got a {type(answer).__name__}"
        return answer

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = self._loop.call_later(_LOOK_S, self._look_around)

    def _look_around(self) -> None:
        self._watching = None
        self._take_in()
        if self._live or self._asked or len(self._outbox):
            self._watch()

    def _take_in(self) -> None:
        """Act upon what there is; on much of it in parts, between which others on the event loop have their turn."""
        if self._is_closed:
            return
        self._bell.clear()
        self._look_at_board()
        self._outbox.flush()
        for _ in range(_MOST_READS):
            if not self._read() and self._bell.arm():
                return
        self._loop.call_soon(self._take_in)

    def _look_at_board(self) -> None:
        self._outages.look()
        if self._board.generation != self._generation:
            self._move_on(self._board.generation)
        if self._board.state is EngineState.FAILED and (self._live or self._asked):
            self._read_all()
            self._fail_all(self._failure)

    def _read_all(self) -> None:
        """What an engine that is dead has published."""
        while self._read():
            pass

    def _read(self) -> bool:
        """Deliver some of what engines have published; False: there was nothing."""
        try:
            arrivals = self._published.take(_SOME)
            if arrivals:
                self._note_arrivals(len(arrivals))
            for arrival in arrivals:
                self._deliver(arrival)
        except (MessageDamaged, RingDamaged):
            logger.exception("what the engine publishes cannot be read any more")
            self.close()
            self._loop.call_soon(self._on_failure)
            return False
        return bool(arrivals)

    def _note_arrivals(self, num_arrivals: int) -> None:
        self.received_s = self._clock()
        if self._observe_ring is not None:
            self._observe_ring(max(self.received_s - self._board.published_s, 0.0), num_arrivals)

    def _deliver(self, arrival: Arrival) -> None:
        live = self._live.get(arrival.number)
        if live is None:
            self._answer(arrival)
        elif arrival.generation == self._generation:
            self._advance(live, arrival)

    def _advance(self, live: _Live, arrival: Arrival) -> None:
        event = live.take(arrival)
        if event.finish_reason is None:
            live.stream.push(event)
        else:
            self._end(live, event)

    def _answer(self, arrival: Arrival) -> None:
        asked = self._asked.get(arrival.number)
        if asked is None or asked.answer.done():
            return
        if isinstance(arrival.detail, Explanation | Invalidated):
            asked.answer.set_result(arrival.detail)
        else:
            asked.answer.set_exception(_refusal_of(arrival))

    def _move_on(self, generation: int) -> None:
        """There is another engine: hand everything to it that the one before it has left."""
        self._read_all()
        suspects = frozenset(self._board.suspects)
        self._generation = generation
        self._outbox.begin(generation)
        self._num_held = 0
        if self._live:
            self._on_replaced()
        for live in list(self._live.values()):
            if live.number in suspects and live.is_suspect:
                about = {"request_id": live.request.request_id, "trace": live.request.trace}
                message = f"request {live.request.request_id} is given up: {_QUARANTINED}"
                logger.error("%s", message, extra=about)
                self._tell(EventKind.REQUEST_QUARANTINED, message)
                self._end(live, _error_event(live, _QUARANTINED))
                continue
            live.is_suspect = live.is_suspect or live.number in suspects
            live.is_parked = live.stream.is_paused
            if not live.is_parked:
                self._hand_over(live)
        for asked in self._asked.values():
            self._outbox.send(asked.query)

    def _hand_over(self, live: _Live) -> None:
        live.is_parked = False
        self._outbox.send(live.submit)
        if live.was_sent:
            self._on_resumed()
        live.was_sent = True

    def _fail_all(self, error: UnavailableError) -> None:
        refusal = Refusal(None, str(error), error.retry_after_s or _RETRY_S)
        for live in list(self._live.values()):
            self._end(live, _error_event(live, str(error), refusal))
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(error)

    def _end(self, live: _Live, event: TokenEvent) -> None:
        del self._live[live.number], self._by_id[live.request.request_id]
        live.stream.push(event)


def _error_event(live: _Live, message: str, refusal: Refusal | None = None) -> TokenEvent:
    return TokenEvent(live.request.request_id, None, live.prefix, FinishReason.ERROR, error=message, refusal=refusal)


def _refusal_of(arrival: Arrival) -> TailraceError:
    """Why a question is not answered."""
    detail = arrival.detail if isinstance(arrival.detail, Detail) else None
    if detail is not None and detail.refusal is not None:
        return detail.refusal.error
    error = None if detail is None else detail.error
    return UnavailableError(error or "the engine has not answered", retry_after_s=_RETRY_S)
