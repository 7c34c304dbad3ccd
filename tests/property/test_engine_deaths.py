"""Engines die, API processes die or stall, readers lag, in any order: each answer is the undisturbed one."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tailrace.classes import STANDARD
from tailrace.engine.channel import Channel
from tailrace.engine.client import TokenStream
from tailrace.engine.remote import RemoteEngine
from tailrace.errors import Overloaded, UnavailableError
from tailrace.ring import Bell, MessageRing, TokenRing
from tailrace.types import Explanation, FinishReason, Request, SamplingParams, TokenEvent
from tests.support.scripted_engine import MAX_MODEL_TOKENS, ScriptedEngine, Supervised, answer_of
from tests.support.shared import shared_memory

_NUM_WORKERS = 2
_NUM_SLOTS = 16
_MOST_STEPS = 3_000  # to the end of everything
_MOST_LIVE = 12


def small_channels() -> tuple[Channel, ...]:
    """Rings of few slots, so that they are often full."""
    bell = Bell()
    return tuple(
        Channel(
            owner,
            bell,
            Bell(),
            commands=shared_memory(MessageRing.bytes_for(2048)),
            tokens=shared_memory(TokenRing.bytes_for(_NUM_SLOTS)),
            details=shared_memory(MessageRing.bytes_for(4096)),
        )
        for owner in range(_NUM_WORKERS)
    )


@dataclass
class Asked:
    """A request, and what its client has got of it."""

    request: Request
    stream: TokenStream
    kills_at: int | None  # the engine, when it is to compute this token of it
    is_read: bool = True
    is_aborted: bool = False
    events: list[TokenEvent] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [event.token_id for event in self.events if event.token_id is not None]

    @property
    def end(self) -> FinishReason | None:
        return self.events[-1].finish_reason if self.events else None

    def read(self) -> None:
        self.events += self.stream.take()


class Worker:
    """An API process. While it is stalled its event loop does nothing: here, its callbacks are not there."""

    def __init__(self, channel: Channel, supervised: Supervised) -> None:
        self.asked: dict[str, Asked] = {}
        self.questions: list[asyncio.Task[Explanation]] = []
        self.remote = RemoteEngine(
            channel,
            supervised.board,
            worker_generation=supervised.board.begin_worker(channel.owner),
            classes=STANDARD,
            max_model_tokens=MAX_MODEL_TOKENS,
            on_failure=_never,
        )

    @property
    def is_busy(self) -> bool:
        return bool(self.live or self.remote.num_live) or not all(question.done() for question in self.questions)

    @property
    def live(self) -> list[Asked]:
        return [asked for asked in self.asked.values() if asked.end is None]


class EngineDeaths(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.channels = small_channels()
        self.supervised = Supervised(self.channels)
        self.workers = self.loop.run_until_complete(self._connect())
        self.num_asked = 0
        self.asked: dict[str, Asked] = {}
        self.deaths = Counter[str]()  # by request, those in which it took part
        self.supervised.start()

    async def _connect(self) -> list[Worker]:
        return [Worker(channel, self.supervised) for channel in self.channels]

    @property
    def engine(self) -> ScriptedEngine | None:
        return self.supervised.engine

    @rule(
        worker=st.integers(0, _NUM_WORKERS - 1),
        max_tokens=st.integers(1, 12) | st.integers(150, 400),
        num_prompt_tokens=st.integers(1, 60),
        num_logprobs=st.none() | st.just(1),
        kills_at=st.none() | st.none() | st.integers(1, 6),
    )
    def submit(
        self, worker: int, max_tokens: int, num_prompt_tokens: int, num_logprobs: int | None, kills_at: int | None
    ) -> None:
        self.num_asked += 1
        sampling = SamplingParams(max_tokens, num_logprobs=num_logprobs)
        request = Request(
            f"r{self.num_asked}", tuple(range(self.num_asked, self.num_asked + num_prompt_tokens)), sampling
        )
        if len(self.workers[worker].live) < _MOST_LIVE:
            self._submit(self.workers[worker], request, kills_at)

    def _submit(self, worker: Worker, request: Request, kills_at: int | None) -> None:
        try:
            stream = worker.remote.submit(request)
        except Overloaded:
            return
        self.asked[request.request_id] = worker.asked[request.request_id] = Asked(request, stream, kills_at)

    @rule(data=st.data(), worker=st.integers(0, _NUM_WORKERS - 1))
    def abort(self, data: st.DataObject, worker: int) -> None:
        if live := self.workers[worker].live:
            asked = data.draw(st.sampled_from(live))
            self.workers[worker].remote.abort(asked.request.request_id)
            asked.is_aborted = True

    @rule(data=st.data(), worker=st.integers(0, _NUM_WORKERS - 1), is_read=st.booleans())
    def lag(self, data: st.DataObject, worker: int, *, is_read: bool) -> None:
        """A reader stops to read, or goes on."""
        if live := self.workers[worker].live:
            data.draw(st.sampled_from(live)).is_read = is_read

    @rule(worker=st.integers(0, _NUM_WORKERS - 1))
    def question(self, worker: int) -> None:
        remote = self.workers[worker].remote
        self.workers[worker].questions.append(self.loop.create_task(remote.explain((1, 2, 3), "")))

    @rule()
    def turn(self) -> None:
        """The event loop of all API processes comes round."""
        self._settle()

    @precondition(lambda self: self.engine is not None)
    @rule(count=st.integers(1, 20), turns=st.booleans())
    def step(self, count: int, *, turns: bool) -> None:
        """Steps during which the API processes run, or stand still."""
        for _ in range(count):
            self._step()
            if turns:
                self._settle()

    @precondition(lambda self: self.engine is not None)
    @rule()
    def read_commands(self) -> None:
        """The engine takes in what there is, and gets no further."""
        assert self.engine is not None
        self.engine.take_in()

    @precondition(lambda self: self.engine is not None)
    @rule()
    def kill(self) -> None:
        """Somebody kills the engine, which is nobody's fault."""
        self.supervised.kill()

    @precondition(lambda self: self.engine is None)
    @rule()
    def restart(self) -> None:
        self.supervised.start()

    @rule(worker=st.integers(0, _NUM_WORKERS - 1))
    def replace_worker(self, worker: int) -> None:
        """An API process dies with its clients, and another takes its place before the engine hears any last words."""
        dead = self.workers[worker]
        self._drop_questions(dead)
        dead.remote.close()
        for name in dead.asked:
            del self.asked[name]
        self.workers[worker] = self.loop.run_until_complete(self._replace(worker))

    @invariant()
    def answers_are_beginnings_of_the_undisturbed_ones(self) -> None:
        for asked in self.asked.values():
            if asked.is_read:
                asked.read()
            assert asked.tokens == answer_of(asked.request)[: len(asked.tokens)]

    @invariant()
    def no_engine_computes_for_the_dead(self) -> None:
        if self.engine is not None:
            self.engine.take_in()
            assert self.engine.running.keys() <= self.asked.keys()

    def teardown(self) -> None:
        try:
            self._finish()
        finally:
            for worker in self.workers:
                self._drop_questions(worker)
                worker.remote.close()
            self.loop.close()

    def _finish(self) -> None:
        for asked in self.asked.values():
            asked.is_read = True
        for _ in range(_MOST_STEPS):
            if self.engine is None:
                self.supervised.start()
            self._settle()
            self._step()
            for asked in self.asked.values():
                asked.read()
            if not any(worker.is_busy for worker in self.workers):
                break
        self._settle()
        self._step()
        for asked in self.asked.values():
            self._check(asked)
        assert self.engine is not None
        assert not self.engine.running
        for worker in self.workers:
            assert not worker.is_busy
            for question in worker.questions:
                assert isinstance(question.exception(), Overloaded | UnavailableError | None)

    def _check(self, asked: Asked) -> None:
        name = asked.request.request_id
        if asked.is_aborted:
            assert asked.end in (FinishReason.ABORT, FinishReason.LENGTH)
        elif asked.end is FinishReason.ERROR:
            assert "died twice" in (asked.events[-1].error or "")
            assert self.deaths[name] >= 2
        else:
            assert asked.end is FinishReason.LENGTH
            assert asked.tokens == answer_of(asked.request)
            assert asked.kills_at is None or asked.kills_at > len(asked.tokens)
        assert all(event.finish_reason is None for event in asked.events[:-1])

    def _step(self) -> None:
        engine = self.engine
        if engine is None:
            return
        engine.take_in()
        running = [name for name, each in engine.running.items() if not each.is_paused]
        if any(self._kills(engine, name) for name in running):
            self.deaths.update(running)
            self.supervised.kill(engine.numbers)
        else:
            engine.step()

    def _kills(self, engine: ScriptedEngine, name: str) -> bool:
        asked = self.asked[name]
        return asked.kills_at == len(engine.running[name].output_ids) + 1

    def _drop_questions(self, worker: Worker) -> None:
        for question in worker.questions:
            question.cancel()
        if worker.questions:
            self.loop.run_until_complete(asyncio.wait(worker.questions))
            assert all(question.cancelled() or question.exception() is None for question in worker.questions)

    def _settle(self) -> None:
        for _ in range(8):
            self.loop.run_until_complete(asyncio.sleep(0))

    async def _replace(self, worker: int) -> Worker:
        return Worker(self.channels[worker], self.supervised)


def _never() -> None:
    raise AssertionError("what the engine published could not be read")


TestEngineDeaths = EngineDeaths.TestCase
TestEngineDeaths.settings = settings(max_examples=60, stateful_step_count=50)
