"""Requests with guides in a whole engine, over a runner that draws the lowest token that it may."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pytest

from tailrace.engine.engine import Engine
from tailrace.engine.guidance import Guidance
from tailrace.engine.guided import GuidedRunner, MakeGuide, TokenGuide
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.ops.api import NO_TOKEN
from tailrace.ops.reference_masks import ReferenceMasks
from tailrace.runtime.masks import MaskWriter
from tailrace.scheduler.admission import longest_sequence
from tailrace.scheduler.plan import SampledToken, SequenceSlice, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason, Guide, Request, SamplingParams, TokenEvent
from tests.support.guides import guide_of, make_scripted

EOS = 31
FREE = 30  # what a sequence without a guide draws


class LowestRunner:
    def __init__(self, masks: ReferenceMasks, rows: Mapping[str, int]) -> None:
        self._masks = masks
        self._rows = rows

    def run(self, plan: StepPlan) -> StepResult:
        drawn = [SampledToken(part.request_id, self._draw(part)) for part in plan.slices if part.is_sampled]
        return StepResult(plan.step_id, tuple(drawn))

    def correct(self, request_id: str, position: int, token_id: int) -> None:
        pass

    def _draw(self, part: SequenceSlice) -> int:
        row = self._rows.get(part.request_id)
        if row is None:
            return FREE
        allowed = np.flatnonzero(self._masks._wait_for(row, part.start + part.num_tokens))
        return int(allowed[0]) if len(allowed) else NO_TOKEN


class Bench:
    """An engine with everything it said. Its clock stands still."""

    def __init__(self, make: MakeGuide = make_scripted, *, num_blocks: int = 16, max_guided: int = 8) -> None:
        self.events: list[TokenEvent] = []
        self.intake = Intake(IntakeConfig(16, max_queued_tokens=640, max_model_tokens=32), lambda: 1.0)
        scheduler = Scheduler(
            SchedulerConfig(budget_tokens=16, max_running=4, max_model_tokens=32, eos_ids=(EOS,)),
            KvCache(KvCacheConfig(num_blocks=num_blocks, block_tokens=4, root_parts=("m",))),
        )
        masks, rows = ReferenceMasks(num_rows=8, vocab=32), dict[str, int]()
        runner = GuidedRunner(LowestRunner(masks, rows), MaskWriter(masks), rows, eos_ids=(EOS,))
        longest = partial(longest_sequence, config=scheduler.config)
        self.guidance = Guidance(make, runner, longest, self.intake.wake, max_guided)
        self.engine = Engine(
            scheduler,
            runner,
            self.intake,
            publish=self.events.extend,
            reply=lambda _: None,
            emit=lambda _: None,
            guidance=self.guidance,
            clock=lambda: 1.0,
        )
        self.runner = runner

    def submit(
        self, name: str, *script: Sequence[int], guide: Guide | None = None, max_tokens: int = 6, **fields: object
    ) -> None:
        if script:
            guide = guide_of(*script)
        prompt = (ord(name[0]), 2, 3)
        sampling = SamplingParams(max_tokens, temperature=0.0)
        self.intake.submit(Request(name, prompt, sampling, guide=guide, **fields))  # type: ignore[arg-type]  # of Request

    def run(self) -> None:
        """Until all have ended."""
        while self.intake.request_ids:
            self.engine.drain_intake()
            if not self.engine.step() and self.intake.request_ids:
                self.intake.wait(5.0)
        self.guidance.close()

    def tokens(self, name: str) -> list[int | None]:
        return [event.token_id for event in self.events if event.request_id == name]

    def end(self, name: str) -> TokenEvent:
        return [event for event in self.events if event.request_id == name][-1]


def test_guided_and_free_requests_run_together() -> None:
    bench = Bench()
    bench.submit("a", [5, 6], [7], [EOS])
    bench.submit("b")
    bench.submit("c", [8], [9], [4], [5], [6], [7])
    bench.run()

    assert bench.tokens("a") == [5, 7, EOS]
    assert bench.end("a").finish_reason is FinishReason.STOP
    assert bench.tokens("b") == [FREE] * 6
    assert bench.tokens("c") == [8, 9, 4, 5, 6, 7]
    assert bench.end("c").finish_reason is FinishReason.LENGTH
    assert bench.runner.num_guided == 0


def test_an_answer_that_had_to_be_closed_was_ended_by_its_length() -> None:
    bench = Bench()
    bench.submit("a", [5], [7, 6], [EOS], max_tokens=3)  # the closing takes 7 where 6 is drawn
    bench.submit("b", [5], [6, 7], [EOS], max_tokens=3)
    bench.run()

    assert bench.tokens("a") == [5, 7, EOS]
    assert bench.end("a").finish_reason is FinishReason.LENGTH
    assert bench.tokens("b") == [5, 6, EOS]
    assert bench.end("b").finish_reason is FinishReason.STOP


def test_preempted_requests_go_on_in_their_grammar() -> None:
    bench = Bench(num_blocks=5)  # not enough for two whole sequences
    bench.submit("a", *([token_id] for token_id in range(12)), max_tokens=12)
    bench.submit("b", *([token_id] for token_id in range(12, 24)), max_tokens=12)
    bench.run()

    assert bench.tokens("a") == list(range(12))
    assert bench.tokens("b") == list(range(12, 24))


def test_a_request_that_comes_back_after_a_death_goes_on_behind_what_it_has() -> None:
    bench = Bench()
    bench.submit("a", [5], [6], [7], [EOS], output_ids=(5, 6), is_resumed=True)
    bench.run()

    assert bench.tokens("a") == [7, EOS]


def test_a_guide_that_cannot_be_made_ends_its_request_alone() -> None:
    bench = Bench()
    bench.submit("a", guide=Guide("no number"))
    bench.submit("b", max_tokens=2)
    bench.run()

    assert bench.end("a").finish_reason is FinishReason.ERROR
    assert "no script" in (bench.end("a").error or "")
    assert bench.tokens("b") == [FREE, FREE]


def test_a_guide_that_leaves_nothing_ends_its_request_alone() -> None:
    bench = Bench()
    bench.submit("a", [5])  # and nothing behind
    bench.submit("b", max_tokens=4)
    bench.run()

    assert bench.tokens("a") == [5, None]
    assert bench.end("a").finish_reason is FinishReason.ERROR
    assert "cannot follow its format any further" in (bench.end("a").error or "")
    assert bench.tokens("b") == [FREE] * 4
    assert bench.runner.num_guided == 0


def test_others_run_while_a_guide_is_made_and_it_may_be_aborted() -> None:
    gate = threading.Event()

    def slow(guide: Guide, max_tokens: int, output_ids: Sequence[int]) -> TokenGuide:
        gate.wait()
        return make_scripted(guide, max_tokens, output_ids)

    bench = Bench(slow)
    bench.submit("a", [5], [EOS])
    bench.submit("b", max_tokens=2)
    bench.submit("c", [5], [EOS])
    bench.engine.drain_intake()
    while bench.engine.step():
        bench.engine.drain_intake()
    assert bench.tokens("b") == [FREE, FREE]
    assert bench.tokens("a") == []
    bench.intake.abort("a")
    bench.engine.drain_intake()
    assert bench.end("a").finish_reason is FinishReason.ABORT
    gate.set()
    bench.run()

    assert bench.tokens("c") == [5, EOS]
    assert bench.tokens("a") == [None]


def test_a_pause_while_a_guide_is_made_holds() -> None:
    gate, made = threading.Event(), threading.Event()

    def slow(guide: Guide, max_tokens: int, output_ids: Sequence[int]) -> TokenGuide:
        gate.wait()
        made.set()
        return make_scripted(guide, max_tokens, output_ids)

    bench = Bench(slow)
    bench.submit("a", [5], [6], [EOS])
    bench.submit("b", [7], [EOS])
    bench.engine.drain_intake()
    bench.intake.pause("a")
    bench.engine.drain_intake()
    gate.set()
    while not bench.tokens("b") or bench.end("b").finish_reason is None:
        bench.engine.drain_intake()
        if not bench.engine.step():
            bench.intake.wait(5.0)
    assert len(bench.tokens("a")) <= 1  # at most the token of the step in which it was let in
    bench.intake.proceed("a")
    bench.run()

    assert bench.tokens("a") == [5, 6, EOS]


def test_no_more_guides_are_made_than_there_may_be_but_for_who_was_here_before() -> None:
    bench = Bench(max_guided=2)
    for name in "abc":
        bench.submit(name, [5], [EOS])
    bench.submit("d", [6], [EOS], is_resumed=True)
    bench.run()

    assert [bench.tokens(name) for name in "abcd"] == [[5, EOS], [None], [None], [6, EOS]]  # d came before all of them
    refusal = bench.end("c").refusal
    assert refusal is not None
    assert "ask again" in refusal.message


def test_an_engine_without_guidance_refuses_guides() -> None:
    bench = Bench()
    bench.engine._guidance = None
    bench.submit("a", [5])
    bench.run()

    assert "follows no guides" in (bench.end("a").error or "")


@pytest.mark.parametrize("is_failing", [False, True])
def test_no_thread_outlives_the_engine(is_failing: bool) -> None:
    before = set(threading.enumerate())
    bench = Bench()
    bench.submit("a", [5], [EOS])
    while bench.intake.request_ids:
        bench.engine.drain_intake()
        bench.engine.step()
    assert "tailrace-masks" in [thread.name for thread in set(threading.enumerate()) - before]
    bench.intake.close()
    if is_failing:
        bench.engine._scheduler = None  # type: ignore[assignment]  # any fault of the loop
        with pytest.raises(AttributeError):
            bench.engine.run()
    else:
        bench.engine.run()

    assert "tailrace-masks" not in [thread.name for thread in set(threading.enumerate()) - before]
