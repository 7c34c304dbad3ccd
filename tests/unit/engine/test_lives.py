from collections.abc import Sequence

from tailrace.engine.lives import MAX_CHUNKS, Beginnings
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice, StepPlan
from tailrace.types import Beginning, FinishReason, PromptChunk, Request, SamplingParams, TokenEvent

SAMPLING = SamplingParams(4)


def plan(*slices: tuple[str, int, bool], entered: Sequence[str] = ()) -> StepPlan:
    entries = tuple(SequenceEntry(name, (1, 2), 2, SAMPLING) for name in entered)
    parts = tuple(SequenceSlice(name, 0, count, is_sampled) for name, count, is_sampled in slices)
    return StepPlan(1, (), entries, (), parts)


class Bench:
    """Steps that are planned at one time and computed at another."""

    def __init__(self, **fetch_s: float) -> None:
        self.beginnings = Beginnings(lambda request_id: fetch_s.get(request_id, 0.0))

    def take(self, now_s: float, *names: str) -> None:
        self.beginnings.taken([Request(name, (1, 2), SAMPLING) for name in names], now_s)

    def step(self, of: StepPlan, planned_s: float, computed_s: float) -> dict[str, Beginning | None]:
        """What each sampled token says."""
        self.beginnings.planned(of.entered, planned_s)
        self.beginnings.computed(of, planned_s, computed_s)
        events = [TokenEvent(part.request_id, 7) for part in of.slices if part.is_sampled]
        return {event.request_id: event.beginning for event in self.beginnings.told(events, computed_s)}


def test_a_first_token_says_how_it_came_about_and_no_other_does() -> None:
    bench = Bench(a=0.25)
    bench.take(1.0, "a")
    assert bench.step(plan(("a", 8, False), entered=["a"]), 2.0, 2.5) == {}
    assert bench.step(plan(("a", 3, True)), 3.0, 3.5) == {
        "a": Beginning(1.0, 2.0, 3.5, 0.25, (PromptChunk(2.0, 2.5, 8), PromptChunk(3.0, 3.5, 3)))
    }
    assert bench.step(plan(("a", 1, True)), 4.0, 4.5) == {"a": None}
    assert len(bench.beginnings) == 0


def test_requests_are_followed_apart_from_streams_beside_them() -> None:
    bench = Bench()
    bench.take(1.0, "a")
    bench.step(plan(("a", 2, True), entered=["a"]), 1.5, 2.0)
    bench.take(2.0, "b", "c")
    told = bench.step(plan(("a", 1, True), ("b", 2, True), entered=["b"]), 3.0, 4.0)
    assert told == {"a": None, "b": Beginning(2.0, 3.0, 4.0, 0.0, (PromptChunk(3.0, 4.0, 2),))}
    assert len(bench.beginnings) == 1


def test_who_is_sent_back_before_its_first_token_has_begun_once_and_was_preempted() -> None:
    bench = Bench()
    bench.take(1.0, "a")
    bench.step(plan(("a", 4, False), entered=["a"]), 2.0, 3.0)
    told = bench.step(plan(("a", 6, True), entered=["a"]), 5.0, 6.0)
    beginning = told["a"]
    assert beginning is not None
    assert (beginning.started_s, beginning.num_preemptions) == (2.0, 1)
    assert beginning.chunks == (PromptChunk(2.0, 3.0, 4), PromptChunk(5.0, 6.0, 6))


def test_who_is_sent_back_later_is_followed_no_more() -> None:
    bench = Bench()
    bench.take(1.0, "a")
    bench.step(plan(("a", 4, True), entered=["a"]), 2.0, 3.0)
    assert bench.step(plan(("a", 5, True), entered=["a"]), 4.0, 5.0) == {"a": None}
    assert len(bench.beginnings) == 0


def test_of_very_many_chunks_the_last_stands_for_the_rest() -> None:
    bench = Bench()
    bench.take(0.0, "a")
    bench.step(plan(("a", 10, False), entered=["a"]), 1.0, 1.5)
    for step in range(2, 101):
        bench.step(plan(("a", 10, False)), step, step + 0.5)
    beginning = bench.step(plan(("a", 1, True)), 101.0, 101.5)["a"]
    assert beginning is not None
    assert len(beginning.chunks) == MAX_CHUNKS
    assert sum(chunk.num_tokens for chunk in beginning.chunks) == 1001
    assert beginning.chunks[-1] == PromptChunk(64.0, 101.5, 371)  # steps 64 to 100, and the last token


def test_whoever_ends_without_a_token_is_forgotten() -> None:
    bench = Bench()
    bench.take(1.0, "a", "b")
    bench.step(plan(("a", 4, False), entered=["a"]), 2.0, 3.0)
    for name in ("a", "a", "b", "nobody"):
        bench.beginnings.ended(name)
    assert len(bench.beginnings) == 0


def test_an_end_without_a_token_says_nothing() -> None:
    bench = Bench()
    bench.take(1.0, "a")
    bench.step(plan(("a", 4, False), entered=["a"]), 2.0, 3.0)
    ended = TokenEvent("a", None, finish_reason=FinishReason.ERROR)
    assert bench.beginnings.told([ended], 4.0) == [ended]


def test_of_steps_that_compute_no_prompt_nothing_is_looked_at() -> None:
    bench = Bench()
    bench.take(1.0, "a", "b")
    bench.step(plan(("a", 4, True), entered=["a"]), 2.0, 3.0)
    events = [TokenEvent("a", 7)]
    assert bench.beginnings.told(events, 4.0) is events  # though somebody waits
