import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress

import pytest
import pytest_asyncio

from tailrace.classes import STANDARD
from tailrace.engine.channel import make_channels
from tailrace.engine.remote import RemoteEngine
from tailrace.engine.wire import Detail, encode
from tailrace.errors import ContextTooLong, InvalidRequest, Overloaded, RefusalReason, UnavailableError
from tailrace.records import EventKind
from tailrace.ring import MessageRing, TokenRing
from tailrace.types import Explanation, FinishReason, PromptTarget, Request, SamplingParams, TenantTarget, TokenEvent
from tests.support.scripted_engine import MAX_MODEL_TOKENS, ScriptedEngine, Supervised, answer_of


class Served:
    """A RemoteEngine on the running loop, and the scripted engines behind it."""

    def __init__(self) -> None:
        self.channels = make_channels(1, MAX_MODEL_TOKENS)
        self.supervised = Supervised(self.channels)
        self.worker_generation = self.supervised.board.begin_worker(0)
        self.has_failed = False
        self.num_replaced = 0
        self.now_s: float | None = None  # None: time passes by itself
        self.read: list[tuple[float, int]] = []  # how long tokens were on their way, and how many
        self.num_resumed = 0
        self.told: list[tuple[EventKind, str]] = []
        self.remote = self.connect()
        self.events: dict[str, list[TokenEvent]] = {}
        self.readers: dict[str, asyncio.Task[None]] = {}

    def connect(self) -> RemoteEngine:
        return RemoteEngine(
            self.channels[0],
            self.supervised.board,
            worker_generation=self.worker_generation,
            classes=STANDARD,
            max_model_tokens=MAX_MODEL_TOKENS,
            on_failure=self._fail,
            on_replaced=self._note_replaced,
            observe_ring=lambda took_s, num_tokens: self.read.append((took_s, num_tokens)),
            clock=lambda: time.monotonic() if self.now_s is None else self.now_s,
            on_resumed=self._count_resumed,
            tell=lambda kind, message: self.told.append((kind, message)),
        )

    def _note_replaced(self) -> None:
        self.num_replaced += 1

    def _count_resumed(self) -> None:
        self.num_resumed += 1

    @property
    def engine(self) -> ScriptedEngine:
        assert self.supervised.engine is not None
        return self.supervised.engine

    def ask(self, request: Request) -> None:
        """Submit it, and read its events."""
        seen = self.events[request.request_id] = []
        stream = self.remote.submit(request)

        async def read() -> None:
            async for events in stream:
                seen.extend(events)

        self.readers[request.request_id] = asyncio.create_task(read())

    async def steps(self, count: int) -> None:
        for _ in range(count):
            self.engine.take_in()
            self.engine.step()
            await settle()

    async def finish(self) -> None:
        """Go on until all streams have ended."""
        while not all(reader.done() for reader in self.readers.values()):
            await self.steps(1)

    async def replace_engine(self, suspects: list[int] | None = None) -> None:
        self.supervised.kill(suspects or [])
        await settle()
        self.supervised.start()
        await settle()

    def is_ready(self) -> bool:
        return self.remote.is_ready

    def is_paused(self, request_id: str) -> bool:
        return self.engine.running[request_id].is_paused

    def tokens(self, request_id: str) -> list[int]:
        return [event.token_id for event in self.events[request_id] if event.token_id is not None]

    def _fail(self) -> None:
        self.has_failed = True


async def settle() -> None:
    """Let everything happen that can without an engine."""
    for _ in range(6):
        await asyncio.sleep(0)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    served.supervised.start()
    yield served
    served.remote.close()
    assert not served.has_failed
    for reader in served.readers.values():
        reader.cancel()
    await asyncio.gather(*served.readers.values(), return_exceptions=True)


def request(name: str, num_tokens: int = 3, max_tokens: int = 4, **changes: object) -> Request:
    prompt = tuple(range(sum(name.encode()), sum(name.encode()) + num_tokens))
    return Request(name, prompt, SamplingParams(max_tokens=max_tokens), **changes)  # type: ignore[arg-type]


async def test_tokens_come_with_their_ends_and_what_the_cache_gave(served: Served) -> None:
    asked = [request("a"), request("b", max_tokens=9)]
    for each in asked:
        served.ask(each)
    await served.finish()

    for each in asked:
        assert served.tokens(each.request_id) == answer_of(each)
        assert served.events[each.request_id][-1].finish_reason is FinishReason.LENGTH
        assert all(event.prefix is not None for event in served.events[each.request_id])
    assert served.remote.num_live == 0


async def test_how_long_tokens_were_on_their_way_is_told_of_all_that_are_read_together(served: Served) -> None:
    for name in "abc":
        served.ask(request(name))
    await served.steps(1)
    assert [num_tokens for _, num_tokens in served.read] == [3]
    served.engine.take_in()
    served.engine.step()
    served.now_s = served.supervised.board.published_s + 0.5
    await settle()
    assert served.read[1:] == [(0.5, 3)]
    assert served.remote.received_s == served.now_s
    served.now_s -= 1.0  # two processes need not read the clock in the order of things
    served.engine.step()
    await settle()
    assert served.read[2:] == [(0.0, 3)]


async def test_the_first_token_of_each_engine_says_how_it_came_about(served: Served) -> None:
    served.ask(request("a", max_tokens=6))
    await served.steps(2)
    await served.replace_engine()
    await served.finish()

    taken_s = [event.beginning and event.beginning.taken_s for event in served.events["a"]]
    assert taken_s == [1.25, None, 2.25, None, None, None]


async def test_a_request_goes_on_where_a_dead_engine_left_it(served: Served) -> None:
    asked = [request("a", max_tokens=9), request("b", max_tokens=9)]
    served.ask(asked[0])
    await served.steps(4)
    served.ask(asked[1])
    await served.replace_engine()
    await served.finish()

    assert [served.tokens(each.request_id) for each in asked] == [answer_of(each) for each in asked]
    (resumed, _) = asked
    assert len(served.events[resumed.request_id]) == 9
    assert served.num_replaced == 1
    assert served.num_resumed == 2


async def test_a_request_that_no_engine_has_seen_waits_for_the_next(served: Served) -> None:
    served.supervised.kill()
    await settle()
    served.ask(request("a"))
    served.supervised.start()
    await settle()
    served.engine.take_in()

    (computed,) = served.engine.running.values()
    assert not computed.request.is_resumed
    assert served.num_resumed == 0
    await served.finish()
    assert served.tokens("a") == answer_of(request("a"))


async def test_who_was_let_in_before_is_let_in_again_though_others_came_meanwhile(served: Served) -> None:
    names = [f"r{number}" for number in range(6)]
    for name in names:
        served.ask(request(name, max_tokens=9))
    await served.steps(2)
    served.supervised.kill()
    await settle()
    served.supervised.start(max_queued=2)
    await settle()
    await served.finish()

    assert all(served.tokens(name) == answer_of(request(name, max_tokens=9)) for name in names)


async def test_what_an_engine_published_before_it_died_counts(served: Served) -> None:
    served.ask(request("a", max_tokens=6))
    served.engine.take_in()
    for _ in range(6):  # the last token, too
        served.engine.step()
    await served.replace_engine()
    served.engine.take_in()

    assert not served.engine.running
    assert served.tokens("a") == answer_of(request("a", max_tokens=6))


async def test_all_that_a_dead_engine_published_is_read_before_the_next_one_is_asked(served: Served) -> None:
    served.ask(request("a", max_tokens=9))
    served.engine.take_in()
    for _ in range(4):
        served.engine.step()
    served.supervised.kill()
    served.supervised.start()  # all of it while this process did nothing
    await settle()
    served.engine.take_in()

    (computed,) = served.engine.running.values()
    assert computed.output_ids == answer_of(request("a", max_tokens=4))
    await served.finish()


async def test_slots_of_another_generation_are_passed_over(served: Served) -> None:
    served.ask(request("a", max_tokens=6))
    await served.steps(2)
    (number,) = served.engine.numbers
    details, slots = MessageRing(served.channels[0].details), TokenRing(served.channels[0].tokens)
    kind, parts = encode(Detail(number))
    details.send(kind, 7, *parts)
    assert slots.push_detailed(number, 1, None, 3, 7, None)
    await served.finish()
    assert served.tokens("a") == answer_of(request("a", max_tokens=6))


async def test_a_detail_whose_slot_was_never_published_is_passed_over(served: Served) -> None:
    served.ask(Request("a", (1, 2), SamplingParams(5, num_logprobs=1)))
    await served.steps(2)
    (number,) = served.engine.numbers
    kind, parts = encode(Detail(number, error="half a word"))
    MessageRing(served.channels[0].details).send(kind, served.engine.generation, *parts)
    await served.replace_engine()
    await served.finish()
    assert all(event.error is None and len(event.top_logprobs) == 1 for event in served.events["a"])


async def test_a_second_report_of_the_cache_changes_nothing(served: Served) -> None:
    served.ask(request("a", max_tokens=6))
    await served.steps(3)
    first = served.events["a"][0].prefix
    await served.replace_engine()
    await served.finish()

    assert all(event.prefix is first for event in served.events["a"])


async def test_details_of_tokens_arrive_with_them(served: Served) -> None:
    asked = Request("a", (1, 2), SamplingParams(5, num_logprobs=1))
    served.ask(asked)
    await served.steps(2)
    await served.replace_engine()
    await served.finish()

    events = served.events["a"]
    assert [event.top_logprobs[0].token_id for event in events] == answer_of(asked)
    assert [event.logprob for event in events] == [-float(token % 8) for token in answer_of(asked)]


async def test_an_abort_ends_the_stream_at_once_and_reaches_the_engine(served: Served) -> None:
    served.ask(request("a", max_tokens=50))
    await served.steps(2)
    served.remote.abort("a", FinishReason.STOP)
    served.remote.abort("a")
    await settle()
    assert served.events["a"][-1].finish_reason is FinishReason.STOP
    served.engine.take_in()
    assert not served.engine.running
    assert served.remote.num_live == 0


async def test_who_is_aborted_between_two_engines_is_not_computed_again(served: Served) -> None:
    served.ask(request("a", max_tokens=50))
    await served.steps(2)
    served.supervised.kill()
    served.remote.abort("a")
    served.supervised.start()
    await served.steps(1)
    assert not served.engine.running


async def test_what_the_engine_refuses_is_told_by_the_stream() -> None:
    served = Served()
    served.supervised.start(max_queued=1)
    for name in ("a", "b"):
        served.ask(request(name))
    await served.finish()
    served.remote.close()

    (end,) = served.events["b"]
    assert end.finish_reason is FinishReason.ERROR
    assert end.refusal is not None
    assert end.refusal.reason is RefusalReason.QUEUE_FULL


async def test_what_can_be_refused_here_is_refused_at_once(served: Served) -> None:
    with pytest.raises(ContextTooLong, match="holds 4096"):
        served.remote.submit(request("a", num_tokens=MAX_MODEL_TOKENS))
    served.ask(request("b"))
    with pytest.raises(InvalidRequest, match="in use"):
        served.remote.submit(request("b"))
    with pytest.raises(InvalidRequest, match="odd"):
        served.remote.submit(request("c", tenant="\ud800"))
    assert served.remote.num_live == 1
    await served.finish()


async def test_commands_that_find_no_room_are_refused_and_aborts_are_kept(served: Served) -> None:
    num_sent = 0
    with suppress(Overloaded):
        while True:
            served.ask(request(f"r{num_sent}", num_tokens=4000))
            num_sent += 1
    with pytest.raises(Overloaded, match="keep up"):
        served.remote.submit(request("one more", num_tokens=4000))
    assert num_sent == served.remote.num_live > 10
    for number in range(num_sent):
        served.remote.abort(f"r{number}")
    assert served.remote.num_live == 0
    served.engine.take_in()
    await asyncio.sleep(0.03)  # until it looks for room again
    await settle()
    served.engine.take_in()
    assert not served.engine.running


async def test_before_the_first_engine_and_after_too_many_nobody_is_let_in() -> None:
    served = Served()
    with pytest.raises(UnavailableError, match="being started"):
        served.remote.submit(request("a"))
    served.supervised.start()
    served.ask(request("a", max_tokens=50))
    question = asyncio.create_task(served.remote.explain((1, 2), ""))
    await served.steps(0)
    await settle()
    served.supervised.kill()
    served.supervised.give_up(time.monotonic() + 30.0)
    await settle()

    assert not served.is_ready()
    assert served.events["a"][-1].finish_reason is FinishReason.ERROR
    assert "again and again" in (served.events["a"][-1].error or "")
    with pytest.raises(UnavailableError):
        await question
    with pytest.raises(UnavailableError) as refused:
        served.remote.submit(request("b"))
    assert 20.0 < (refused.value.retry_after_s or 0.0) <= 30.0
    served.supervised.start()
    await settle()
    assert served.is_ready()
    served.ask(request("c"))
    await served.finish()
    served.remote.close()


async def test_who_kills_two_engines_is_given_up_and_the_others_go_on(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("good", "bad", "better"):
        served.ask(request(name, max_tokens=6))
    await served.steps(2)
    suspects = served.engine.numbers
    await served.replace_engine(suspects)
    served.engine.take_in()
    assert list(served.engine.running) == ["good"]
    await served.steps(1)
    served.engine.take_in()
    assert list(served.engine.running) == ["good", "bad"]
    await served.replace_engine(served.engine.numbers)
    await served.finish()

    assert served.tokens("good") == answer_of(request("good", max_tokens=6))
    assert served.tokens("better") == answer_of(request("better", max_tokens=6))
    assert served.events["bad"][-1].finish_reason is FinishReason.ERROR
    assert "died twice" in (served.events["bad"][-1].error or "")
    assert "bad" in caplog.text
    kinds = [kind for kind, _ in served.told]
    assert kinds.count(EventKind.ENGINE_LOST) == kinds.count(EventKind.ENGINE_BACK) == 2
    assert [message for kind, message in served.told if kind is EventKind.REQUEST_QUARANTINED] == [
        "request bad is given up: the engine died twice while it computed this request, so it is not computed again"
    ]


async def test_a_stream_that_nobody_reads_has_its_request_paused_until_it_is_read(served: Served) -> None:
    stream = served.remote.submit(request("slow", max_tokens=400))
    served.ask(request("quick", max_tokens=400))
    await served.steps(300)
    assert served.is_paused("slow")
    held = len(served.engine.running["slow"].output_ids)
    assert 128 <= held <= 130
    assert len(served.tokens("quick")) == 300

    assert len(stream.take()) == held
    await served.steps(2)
    assert not served.is_paused("slow")
    served.remote.abort("slow")
    await served.finish()


async def test_who_is_paused_when_the_engine_dies_comes_back_when_it_is_read(served: Served) -> None:
    stream = served.remote.submit(request("slow", max_tokens=200))
    await served.steps(150)
    await served.replace_engine()
    served.engine.take_in()
    assert not served.engine.running
    assert served.num_resumed == 0, "it is handed over when it is read"
    tokens = [event.token_id for event in stream.take()]
    assert served.num_resumed == 1
    await served.steps(200 - len(tokens))
    tokens += [event.token_id for event in stream.take()]

    assert tokens == answer_of(request("slow", max_tokens=200))


async def test_questions_are_asked_again_when_an_engine_dies(served: Served) -> None:
    explanation = asyncio.create_task(served.remote.explain((1, 2, 3), "salt"))
    invalidated = asyncio.create_task(served.remote.invalidate(PromptTarget((1, 2), "")))
    await settle()
    await served.replace_engine()
    served.engine.take_in()

    assert (await explanation).num_prompt_tokens == 3
    assert (await invalidated).version == 2  # of the second engine


async def test_questions_are_bounded_and_one_that_is_given_up_is_forgotten(served: Served) -> None:
    questions = [asyncio.create_task(served.remote.invalidate(TenantTarget("t"))) for _ in range(64)]
    await settle()
    with pytest.raises(Overloaded, match="64"):
        await served.remote.explain((1,), "")
    for question in questions:
        question.cancel()
    await asyncio.gather(*questions, return_exceptions=True)
    another = asyncio.create_task(served.remote.explain((1,), ""))
    await settle()
    served.engine.take_in()
    with pytest.raises(Overloaded, match="questions"):  # the engine has as many as it takes
        await another
    served.engine.take_in()
    assert (await answered(served, served.remote.explain((1,), ""))).num_prompt_tokens == 1


async def answered(served: Served, question: Coroutine[None, None, Explanation]) -> Explanation:
    asked = asyncio.create_task(question)
    await settle()
    served.engine.take_in()
    return await asked


async def test_targets_are_those_that_hold_now(served: Served) -> None:
    assert served.remote.classes == STANDARD
    served.supervised.board.target_scale = 3.0
    assert served.remote.classes == STANDARD.scaled(3.0)
    served.supervised.board.num_requests = 5
    assert served.remote.num_requests == 5


async def test_who_takes_the_place_of_a_dead_process_begins_with_nothing(served: Served) -> None:
    served.ask(request("old", max_tokens=50))
    await served.steps(3)
    served.engine.step()
    served.remote.close()
    served.worker_generation = served.supervised.board.begin_worker(0)
    served.remote = served.connect()
    served.ask(request("new"))
    await served.finish()

    assert served.tokens("new") == answer_of(request("new"))
    assert "old" not in served.engine.running


async def test_memory_that_makes_no_sense_ends_everything() -> None:
    served = Served()
    served.supervised.start()
    served.ask(request("a", max_tokens=50))
    await served.steps(2)
    served.engine.step()
    served.channels[0].tokens[:64] = b"\xff" * 64
    await settle()
    served.remote._take_in()
    await settle()

    assert served.has_failed
    assert not served.is_ready()
    assert served.events["a"][-1].finish_reason is FinishReason.ERROR
    with pytest.raises(UnavailableError):
        served.remote.submit(request("b"))


async def test_what_a_process_that_died_while_it_read_has_left_holds_up_nobody(served: Served) -> None:
    """It was killed when it had taken the slots and none of their details, which fill their ring."""
    questions = [asyncio.create_task(served.remote.explain(range(4000), "")) for _ in range(14)]
    await asyncio.sleep(0)
    served.engine.take_in()
    TokenRing(served.channels[0].tokens).pop(10_000)
    for question in questions:
        question.cancel()
    served.remote.close()
    served.worker_generation = served.supervised.board.begin_worker(0)
    served.remote = served.connect()
    served.engine.take_in()
    served.engine.step()
    served.ask(request("new"))
    for _ in range(20):
        await served.steps(1)

    assert served.tokens("new") == answer_of(request("new"))
