import asyncio
import threading
import time

import pytest

from tailrace.engine.engine import Engine, Publish, Reply
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import ContextTooLong, UnavailableError
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason, Level, PromptTarget, Request, SamplingParams, TenantTarget, TokenEvent


class Runner:
    def __init__(self) -> None:
        self.fail = False
        self.gate: threading.Event | None = None
        self.has_begun = threading.Event()

    def run(self, plan: StepPlan) -> StepResult:
        self.has_begun.set()
        if self.gate is not None:
            self.gate.wait()
        if self.fail:
            raise RuntimeError("the device is gone")
        return StepResult(plan.step_id, tuple(SampledToken(p.request_id, 7) for p in plan.slices if p.is_sampled))


class Local:
    """A LocalEngine over a fake device, made on the running loop."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.failed = asyncio.Event()
        self.intake = Intake(IntakeConfig(max_queued=4, max_queued_tokens=64, max_model_tokens=32))
        self.engine = LocalEngine(self.intake, self._build, self.failed.set)

    def _build(self, publish: Publish, reply: Reply) -> Engine:
        config = SchedulerConfig(budget_tokens=8, max_running=2, max_model_tokens=32, eos_ids=())
        scheduler = Scheduler(config, KvCache(KvCacheConfig(num_blocks=16, block_tokens=4, root_parts=("m",))))
        return Engine(scheduler, self.runner, self.intake, publish=publish, reply=reply, emit=lambda _: None)


def request(name: str, num_tokens: int = 3, max_tokens: int = 4) -> Request:
    return Request(name, tuple(range(num_tokens)), SamplingParams(max_tokens=max_tokens))


async def read(local: Local, submitted: Request) -> list[TokenEvent]:
    return [event async for events in local.engine.submit(submitted) for event in events]


async def test_requests_of_one_loop_are_computed_on_the_engines_thread() -> None:
    local = Local()
    answers = await asyncio.gather(read(local, request("a")), read(local, request("b")))
    local.engine.close()

    assert [[event.token_id for event in answer] for answer in answers] == [[7] * 4, [7] * 4]


async def test_the_first_token_says_how_it_came_about_and_when_it_came_is_known() -> None:
    local, before_s = Local(), time.monotonic()
    first, *others = await read(local, request("a"))
    beginning = first.beginning
    assert beginning is not None
    moments = [before_s, beginning.taken_s, beginning.started_s, beginning.computed_s, local.engine.received_s]
    assert moments == sorted(moments)
    assert [event.beginning for event in others] == [None] * 3
    local.engine.close()


async def test_a_refused_request_leaves_its_id_free() -> None:
    local = Local()
    with pytest.raises(ContextTooLong):
        local.engine.submit(request("a", num_tokens=40))
    assert len(await read(local, request("a"))) == 4
    local.engine.close()


async def test_an_abort_ends_the_stream() -> None:
    local = Local()
    events = aiter(local.engine.submit(request("a", max_tokens=28)))
    seen = list(await anext(events))
    local.engine.abort("a")
    seen += [event async for batch in events for event in batch]
    local.engine.close()

    assert seen[-1].finish_reason in (FinishReason.ABORT, FinishReason.LENGTH)  # it may have come to its end first


async def test_a_failed_engine_is_reported_and_takes_nothing_more() -> None:
    local = Local()
    local.runner.fail = True
    (end,) = await read(local, request("a"))
    await asyncio.wait_for(local.failed.wait(), timeout=10)

    assert end.finish_reason is FinishReason.ERROR
    assert not local.engine.is_ready
    with pytest.raises(UnavailableError, match="stopped"):
        local.engine.submit(request("b"))
    local.engine.close()


async def test_closing_is_no_failure() -> None:
    local = Local()
    local.engine.close()
    await asyncio.sleep(0)

    assert not local.failed.is_set()
    assert all(thread.name != "tailrace-engine" for thread in threading.enumerate())


async def test_questions_are_answered_while_requests_run_and_when_nothing_does() -> None:
    local = Local()
    prompt = tuple(range(9))
    assert (await local.engine.explain(prompt, "")).prefix.num_cached_tokens == 0
    stream = asyncio.create_task(read(local, request("a", num_tokens=9, max_tokens=20)))
    await asyncio.gather(*(local.engine.explain(prompt, "") for _ in range(8)))
    assert len(await stream) == 20
    assert (await local.engine.explain(prompt, "")).prefix.num_cached_tokens == 8
    assert (await local.engine.explain(prompt, "other")).prefix.num_cached_tokens == 0
    done = await local.engine.invalidate(PromptTarget(prompt))
    assert done.num_dropped == ((Level.ENGINE, 7),)
    assert (await local.engine.explain(prompt, "")).prefix.num_cached_tokens == 0
    local.engine.close()


async def test_a_question_to_an_engine_that_ends_is_refused() -> None:
    local = Local()
    local.runner.gate = threading.Event()
    stream = asyncio.create_task(read(local, request("a")))
    await asyncio.to_thread(local.runner.has_begun.wait)
    question = asyncio.create_task(local.engine.explain((1, 2), ""))
    await asyncio.sleep(0)  # it is in the inbox, and the step loop is in a step
    local.runner.fail = True
    local.runner.gate.set()

    with pytest.raises(UnavailableError):
        await question
    with pytest.raises(UnavailableError):
        await local.engine.invalidate(TenantTarget(""))
    await stream
    await asyncio.wait_for(local.failed.wait(), timeout=10)
    local.engine.close()


async def test_a_question_nobody_waits_for_any_more_is_harmless() -> None:
    local = Local()
    question = asyncio.create_task(local.engine.explain((1, 2), ""))
    await asyncio.sleep(0)
    question.cancel()
    await asyncio.gather(question, return_exceptions=True)
    assert len(await read(local, request("a"))) == 4
    local.engine.close()
