"""Against an engine of which the test decides when a request ends, and what is cached."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from tailrace.engine.stream import EventStream
from tailrace.errors import ContextTooLong, Overloaded, RefusalReason, UnavailableError
from tailrace.kvcache.warm import HotPrefix, PrefixTally, TallyConfig
from tailrace.service.warm import Warmer, WarmerConfig
from tailrace.types import (
    Explanation,
    FinishReason,
    Invalidated,
    Level,
    MissReason,
    ModelTarget,
    PrefixReport,
    PromptTarget,
    Refusal,
    Request,
    Target,
    TenantTarget,
    TokenEvent,
)

BLOCK, PIECE = 2, 4
CONFIG = WarmerConfig(piece_tokens=PIECE, max_tokens=40, quiet_s=0.0, look_every_s=0.0)


@dataclass
class GatedEngine:
    """Requests wait for `end`, unless `is_open`; one that ended whole has its whole blocks cached."""

    is_ready: bool = True
    received_s: float = 0.0
    is_open: bool = False
    has_too_many_questions: bool = False
    num_others: int = 0
    refusal: Exception | None = None
    late_refusal: Refusal | None = None
    refuses: Callable[[Request], bool] = lambda _request: True
    submitted: list[Request] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    cached: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    running: dict[str, "asyncio.Future[FinishReason]"] = field(default_factory=dict)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def num_requests(self) -> int:
        return self.num_others + len(self.running)

    def submit(self, request: Request) -> EventStream:
        if self.refusal is not None and self.refuses(request):
            raise self.refusal
        stream = EventStream()
        if self.late_refusal is not None and self.refuses(request):
            refused = TokenEvent(request.request_id, None, None, FinishReason.ERROR, refusal=self.late_refusal)
            stream.push(refused)
            return stream
        self.submitted.append(request)
        waiting = self.running[request.request_id] = asyncio.get_running_loop().create_future()
        self.started.set()
        if self.is_open:
            waiting.set_result(FinishReason.LENGTH)
        waiting.add_done_callback(partial(self._ended, request, stream))
        return stream

    def _ended(self, request: Request, stream: EventStream, waiting: "asyncio.Future[FinishReason]") -> None:
        del self.running[request.request_id]
        if waiting.result() is FinishReason.LENGTH:
            self.keep_whole(request.cache_salt, request.prompt_ids)
        stream.push(TokenEvent(request.request_id, None, finish_reason=waiting.result()))

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        self.aborted.append(request_id)
        waiting = self.running.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(FinishReason.ABORT)

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        if self.has_too_many_questions:
            raise Overloaded("too many questions", retry_after_s=1.0)
        ends = [
            end
            for end in range(BLOCK, len(prompt_ids), BLOCK)
            if all((cache_salt, tuple(prompt_ids[:to])) in self.cached for to in range(BLOCK, end + 1, BLOCK))
        ]
        num_cached = max(ends, default=0)
        report = PrefixReport(((Level.ENGINE, num_cached),) if num_cached else (), MissReason.NEVER_SEEN)
        return Explanation(1, len(prompt_ids), report, BLOCK, (), b"")

    async def invalidate(self, target: Target) -> Invalidated:
        raise NotImplementedError

    def end(self) -> None:
        """End what runs; and let all that come end at once from now on."""
        self.is_open = True
        for waiting in self.running.values():
            if not waiting.done():
                waiting.set_result(FinishReason.LENGTH)

    def keep_whole(self, salt: str, token_ids: Sequence[int]) -> None:
        """Its whole blocks are cached from now on."""
        for end in range(BLOCK, len(token_ids) + 1, BLOCK):
            self.cached.add((salt, tuple(token_ids[:end])))


def warmer_of(
    engine: GatedEngine, config: WarmerConfig = CONFIG, keep: Callable[[Sequence[HotPrefix]], None] | None = None
) -> Warmer:
    return Warmer(engine, PrefixTally(TallyConfig(piece_tokens=BLOCK)), config, keep=keep)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def prompts(engine: GatedEngine) -> list[tuple[int, ...]]:
    return [tuple(request.prompt_ids) for request in engine.submitted]


async def test_what_is_listed_is_computed_piece_by_piece_as_nobodys_request() -> None:
    engine = GatedEngine(is_open=True)
    task = asyncio.create_task(warmer_of(engine).run([("tenant", list(range(10))), ("", [50, 51, 52])]))
    await until(lambda: ("", (50, 51)) in engine.cached)
    assert prompts(engine) == [tuple(range(4)), tuple(range(8)), tuple(range(10)), (50, 51, 52)]
    assert {request.cache_salt for request in engine.submitted[:3]} == {"tenant"}
    assert all(request.is_warmup and request.sampling.max_tokens == 1 for request in engine.submitted)
    await stop(task)


async def test_it_says_when_all_that_was_known_at_the_start_is_computed() -> None:
    engine, told = GatedEngine(is_open=True), list[int]()
    warmer = warmer_of(engine)
    for _ in range(2):
        warmer.arrives("", [1] * 4)
    task = asyncio.create_task(warmer.run([("", [2] * 4)], lambda: told.append(len(engine.submitted))))
    await until(lambda: bool(told))
    assert told == [2]
    await stop(task)


async def test_it_gives_way_at_once_and_goes_on_where_it_was() -> None:
    engine = GatedEngine()
    warmer = warmer_of(engine)
    task = asyncio.create_task(warmer.run([("", list(range(6)))]))
    await engine.started.wait()

    engine.num_others += 1
    warmer.arrives("", [90, 91])
    await until(lambda: not engine.running)
    for _ in range(20):
        await asyncio.sleep(0)
    assert prompts(engine) == [tuple(range(4))], "it went on while a user's request ran"

    engine.num_others -= 1
    engine.end()
    await until(lambda: ("", tuple(range(6))) in engine.cached)
    assert prompts(engine) == [tuple(range(4)), tuple(range(4)), tuple(range(6))]
    await stop(task)


async def test_between_two_pieces_it_looks_whether_somebody_has_come() -> None:
    engine = GatedEngine()
    warmer = warmer_of(engine)
    task = asyncio.create_task(warmer.run([("", list(range(6)))]))
    await engine.started.wait()
    engine.num_others += 1
    engine.end()
    for _ in range(20):
        await asyncio.sleep(0)
    assert prompts(engine) == [tuple(range(4))]
    await stop(task)


async def test_nothing_is_computed_before_it_was_quiet_for_a_while() -> None:
    now_s, engine = 100.0, GatedEngine(is_open=True)
    config = WarmerConfig(PIECE, 40, quiet_s=0.004)
    warmer = Warmer(engine, PrefixTally(TallyConfig()), config, clock=lambda: now_s)
    warmer.arrives("", [1])
    task = asyncio.create_task(warmer.run([("", list(range(4)))]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert engine.submitted == []
    now_s += 0.004
    await until(lambda: bool(engine.submitted))
    await stop(task)


async def test_what_many_prompts_begin_with_is_computed_when_it_is_missing() -> None:
    engine = GatedEngine(is_open=True)
    warmer = warmer_of(engine)
    for salt, prompt in (("", [1, 1, 1, 1, 7, 7]), ("", [1, 1, 1, 1, 8, 8]), ("", [2, 2, 9, 9]), ("", [2, 2, 9, 9])):
        warmer.arrives(salt, prompt)
    engine.keep_whole("", [2, 2, 9, 9])
    task = asyncio.create_task(warmer.run())
    await until(lambda: ("", (1, 1, 1, 1)) in engine.cached)
    assert prompts(engine) == [(1, 1, 1, 1)], "what is cached is not computed again"

    for _ in range(2):
        warmer.arrives("b", [5, 5, 5, 5])
    await until(lambda: ("b", (5, 5, 5, 5)) in engine.cached)
    await stop(task)


async def test_what_nobody_asked_for_ranks_as_it_is_told_to() -> None:
    engine = GatedEngine(is_open=True)
    warmer = warmer_of(engine, replace(CONFIG, class_name="bronze"))
    task = asyncio.create_task(warmer.run([("", [1] * 4)]))
    await until(lambda: ("", (1,) * 4) in engine.cached)
    await stop(task)
    assert [(request.class_name, request.is_warmup) for request in engine.submitted] == [("bronze", True)]


async def test_the_prefix_that_saves_most_is_computed_first() -> None:
    engine = GatedEngine(is_open=True)
    warmer = warmer_of(engine)
    for prompt in ([1] * 4, [2] * 8, [3] * 6):
        for _ in range(2):
            warmer.arrives("", prompt)
    engine.keep_whole("", [2] * 8)
    task = asyncio.create_task(warmer.run())
    await until(lambda: ("", (1,) * 4) in engine.cached)
    assert prompts(engine) == [(3,) * 4, (3,) * 6, (1,) * 4]
    await stop(task)


async def test_more_than_fits_is_left_out_of_a_list_and_said(caplog: pytest.LogCaptureFixture) -> None:
    engine = GatedEngine(is_open=True)
    warmer = warmer_of(engine, WarmerConfig(PIECE, max_tokens=8, quiet_s=0.0))
    task = asyncio.create_task(warmer.run([("", [1] * 4), ("", [2] * 4), ("", [3] * 4)]))
    await until(lambda: ("", (2,) * 4) in engine.cached)
    await stop(task)
    assert prompts(engine) == [(1,) * 4, (2,) * 4]
    assert "only the first 2 of 3 listed prompts" in caplog.text


async def test_a_prefix_that_is_refused_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    engine = GatedEngine(is_open=True, refusal=ContextTooLong("too long"))
    engine.refuses = lambda request: request.prompt_ids[0] == 1
    task = asyncio.create_task(warmer_of(engine).run([("", [1] * 4), ("", [2] * 4)]))
    await until(lambda: ("", (2,) * 4) in engine.cached)
    await stop(task)
    assert "a prefix of 4 tokens is not computed ahead: too long" in caplog.text


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_prefix_for_which_there_is_no_room_now_is_tried_again(*, is_late: bool) -> None:
    """Refused when it is submitted, or as it waits."""
    engine = GatedEngine(is_open=True)
    tries = 0

    def refuses(_request: Request) -> bool:
        nonlocal tries
        tries += 1
        return tries < 3

    engine.refuses = refuses
    if is_late:
        engine.late_refusal = Refusal(RefusalReason.QUEUE_TIMEOUT, "waited", 0.001)
    else:
        engine.refusal = Overloaded("full", retry_after_s=0.001)
    task = asyncio.create_task(warmer_of(engine).run([("", [1] * 4)]))
    await until(lambda: ("", (1,) * 4) in engine.cached)
    await stop(task)
    assert tries == 3


async def test_an_engine_with_too_many_questions_is_asked_later() -> None:
    engine = GatedEngine(is_open=True, has_too_many_questions=True)
    warmer = warmer_of(engine)
    warmer.arrives("", [1] * 4)
    warmer.arrives("", [1] * 4)
    task = asyncio.create_task(warmer.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not engine.submitted
    engine.has_too_many_questions = False
    warmer.arrives("", [2])
    await until(lambda: ("", (1,) * 4) in engine.cached)
    await stop(task)


async def test_it_ends_with_the_engine_and_hands_over_what_it_knows() -> None:
    kept: list[Sequence[HotPrefix]] = []
    warmer = warmer_of(GatedEngine(refusal=UnavailableError("stopped")), keep=kept.append)
    for _ in range(3):
        warmer.arrives("salt", [1, 1, 1, 1])
    await warmer.run([("", [9] * 4)])
    ((prefix,),) = kept
    assert (prefix.salt, prefix.token_ids) == ("salt", (1, 1, 1, 1))
    assert prefix.num_uses == pytest.approx(3.0, rel=1e-3)


async def test_stopping_it_ends_the_piece_that_runs() -> None:
    engine = GatedEngine()
    task = asyncio.create_task(warmer_of(engine).run([("", [1] * 4)]))
    await engine.started.wait()
    await stop(task)
    assert engine.aborted == [engine.submitted[0].request_id]


async def test_what_is_forgotten_is_not_computed_again_and_what_runs_is_given_up() -> None:
    engine = GatedEngine()
    warmer = warmer_of(engine)
    for prompt in ([1] * 4, [2] * 4, [3] * 4):
        for salt in ("a", "b"):
            warmer.arrives(salt, prompt)
            warmer.arrives(salt, prompt)
    task = asyncio.create_task(warmer.run([("", [9] * 4)]))
    await engine.started.wait()
    warmer.forget(TenantTarget("a"))
    warmer.forget(PromptTarget([2, 2, 2], "b"))
    assert engine.aborted == [engine.submitted[0].request_id] * 2
    engine.end()
    await until(lambda: {("b", (1,) * 4), ("b", (3,) * 4)} <= engine.cached)
    assert {(one.cache_salt, tuple(one.prompt_ids)) for one in engine.submitted} == {
        ("", (9,) * 4),
        ("b", (1,) * 4),
        ("b", (3,) * 4),
    }
    await stop(task)


async def test_when_all_is_forgotten_nothing_is_left_to_hand_over() -> None:
    kept: list[Sequence[HotPrefix]] = []
    warmer = warmer_of(GatedEngine(refusal=UnavailableError("stopped")), keep=kept.append)
    for _ in range(3):
        warmer.arrives("salt", [1] * 4)
    warmer.forget(ModelTarget())
    await warmer.run([("", [9] * 4)])
    assert kept == [[]]
