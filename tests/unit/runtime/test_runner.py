"""Arrays that are kept from step to step say the same as arrays made anew."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import astuple, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.ops.api import MAX_TOP_LOGPROBS, SampleOutputs, SamplingInputs, StepInputs
from tailrace.ops.reference_masks import ReferenceMasks
from tailrace.runtime.runner import Runner
from tailrace.scheduler.plan import BlockCopy, BlockMove, SequenceEntry, SequenceSlice, StepPlan, StepResult
from tailrace.types import OpTime, SamplingParams
from tests.support.steps import limits

LIMITS = limits(max_tokens=16, max_model_tokens=64, block_tokens=4)


class Recorder:
    """Draws 100, 101, ... and keeps copies of what it was asked to compute, and the objects themselves."""

    kv_bytes_per_block = 0
    weight_bytes = 0
    is_whole = True
    expert_loads: tuple[NDArray[np.uint64], ...] = ()
    resident_experts = None
    masks = ReferenceMasks(8, 64)

    def __init__(self) -> None:
        self.seen: list[tuple[StepInputs, SamplingInputs]] = []
        self.steps: list[StepInputs] = []
        self.copied: list[tuple[int, int, int]] = []
        self.memory: list[tuple[str, range]] = []  # what was done to which blocks, in order

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        self.seen.append(deepcopy((step, sampling)))
        self.steps.append(step)
        rows = len(step.sample_rows)
        return SampleOutputs(
            token_ids=np.arange(100, 100 + rows, dtype=np.int32) + np.int32(10 * len(self.seen)),
            logprobs=np.full(rows, -0.5, np.float32),
            top_ids=np.zeros((rows, MAX_TOP_LOGPROBS), np.int32),
            top_logprobs=np.zeros((rows, MAX_TOP_LOGPROBS), np.float32),
        )

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        return self.run(step, sampling), (OpTime("linear", 0.25, 1e9, 2e9),)

    @property
    def kv_pool(self) -> NDArray[np.uint8]:
        raise NotImplementedError

    def logits(self, step: StepInputs) -> NDArray[np.float32]:
        raise NotImplementedError

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        self.copied.append((source, target, num_tokens))
        self.memory.append(("copy", range(target, target + 1)))

    @property
    def kv_resident_bytes(self) -> int:
        raise NotImplementedError

    def commit(self, blocks: range) -> None:
        self.memory.append(("commit", blocks))

    def populate(self, blocks: range) -> None:
        self.memory.append(("populate", blocks))

    def release(self, blocks: range) -> None:
        self.memory.append(("release", blocks))

    def close(self) -> None:
        pass


PLAIN = SamplingParams(max_tokens=8)


def entry(name: str, prompt: Sequence[int], sampling: SamplingParams = PLAIN) -> SequenceEntry:
    return SequenceEntry(name, prompt, len(prompt), sampling)


def plan(
    step_id: int, *slices: SequenceSlice, entered: Sequence[SequenceEntry] = (), left: Sequence[str] = ()
) -> StepPlan:
    return StepPlan(step_id, tuple(left), tuple(entered), (), slices)


def decode(name: str, start: int, *new_blocks: int) -> SequenceSlice:
    return SequenceSlice(name, start, 1, True, new_blocks)


PROMPTS = {"a": [1, 2, 3], "b": [4, 5]}


def first(sampling: SamplingParams = PLAIN) -> StepPlan:
    slices = [SequenceSlice("a", 0, 3, True, (7,)), SequenceSlice("b", 0, 2, True, (8,))]
    return plan(1, *slices, entered=[entry(name, prompt, sampling) for name, prompt in PROMPTS.items()])


def test_steady_decode_moves_the_same_arrays_on() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    runner.run(first())
    for step_id in range(4):
        new_blocks = (20,) if step_id == 1 else ()
        result = runner.run(plan(2 + step_id, decode("a", 3 + step_id, *new_blocks), decode("b", 2 + step_id)))
        step, sampling = recorder.seen[-1]

        assert step.token_ids.tolist() == [100 + 10 * (step_id + 1), 101 + 10 * (step_id + 1)]  # what was drawn before
        assert step.starts.tolist() == [3 + step_id, 2 + step_id]
        assert sampling.position.tolist() == [4 + step_id, 3 + step_id]
        assert [token.token_id for token in result.sampled] == [100 + 10 * (step_id + 2), 101 + 10 * (step_id + 2)]
    assert recorder.seen[-1][0].block_tables[step.slots[0], :2].tolist() == [7, 20]
    assert all(step is recorder.steps[1] for step in recorder.steps[1:])  # kept, not rebuilt


@pytest.mark.parametrize(
    "change",
    [
        plan(3, decode("a", 4), left=["b"]),
        plan(3, decode("b", 3), decode("a", 4)),
        plan(3, decode("a", 4)),
        plan(3, decode("a", 4), SequenceSlice("b", 3, 1, is_sampled=False)),
        plan(3, decode("a", 4), decode("b", 3), SequenceSlice("c", 0, 2, True, (9,)), entered=[entry("c", [6, 7])]),
    ],
    ids=["one left", "another order", "one pauses", "one is not sampled", "one joins"],
)
def test_any_other_step_is_what_it_would_be_without_one_before(change: StepPlan) -> None:
    """The same as from a runner that forgets the arrays of the step before."""
    seen = []
    for keeps in (True, False):
        recorder = Recorder()
        runner = Runner(recorder, LIMITS, eos_ids=())
        runner.run(first())
        runner.run(plan(2, decode("a", 3), decode("b", 2)))
        if not keeps:
            runner._last = None
        runner.run(change)
        seen.append(recorder.seen[-1])

    for kept, anew in zip(*seen, strict=True):
        for one, other in zip(astuple(kept), astuple(anew), strict=True):
            np.testing.assert_array_equal(one, other)


def test_settings_that_look_at_what_was_generated_are_made_anew_each_step() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    runner.run(first(replace(PLAIN, frequency_penalty=0.5)))
    for step_id in range(2):
        runner.run(plan(2 + step_id, decode("a", 3 + step_id), decode("b", 2 + step_id)))

    assert recorder.seen[1][1].history_ids.tolist() == [1, 2, 3, 110, 4, 5, 111]
    assert recorder.seen[2][1].history_ids.tolist() == [1, 2, 3, 110, 120, 4, 5, 111, 121]


def test_log_probabilities_come_in_every_step_of_steady_decode() -> None:
    runner = Runner(Recorder(), LIMITS, eos_ids=())
    runner.run(first(replace(PLAIN, num_logprobs=0)))
    for step_id in range(2):
        result = runner.run(plan(2 + step_id, decode("a", 3 + step_id), decode("b", 2 + step_id)))

        assert [token.logprob for token in result.sampled] == [-0.5, -0.5]


def test_steady_decode_draws_with_the_same_rows_of_masks() -> None:
    recorder = Recorder()
    rows = {"b": 5}
    runner = Runner(recorder, LIMITS, eos_ids=(), mask_rows=rows)
    runner.run(first())
    for step_id in range(3):
        runner.run(plan(2 + step_id, decode("a", 3 + step_id), decode("b", 2 + step_id)))
    rows.clear()
    runner.run(plan(5, decode("a", 6), left=["b"]))

    for _, sampling in recorder.seen[:-1]:
        assert sampling.mask_rows is not None
        assert sampling.mask_rows.tolist() == [-1, 5]
    assert all(step is recorder.steps[1] for step in recorder.steps[1:-1])  # kept, not rebuilt
    assert recorder.seen[-1][1].mask_rows is None


def test_a_token_that_was_corrected_is_fed_and_remembered() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    runner.run(first())
    runner.run(plan(2, decode("a", 3), decode("b", 2)))
    runner.correct("b", 3, 77)  # drawn was 121
    runner.run(plan(3, decode("a", 4), decode("b", 3)))
    runner.run(plan(4, decode("a", 5), left=["b"]))
    runner.run(plan(5, SequenceSlice("b", 0, 4, True, (9,)), entered=[entry("b", [4, 5, 111, 77])]))

    assert recorder.seen[2][0].token_ids.tolist() == [120, 77]
    assert recorder.seen[2][0].starts.tolist() == [4, 3]
    assert recorder.seen[3][0].token_ids.tolist() == [130]


def test_a_move_within_steady_decode_is_seen_by_the_arrays_that_are_kept() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    runner.run(first())
    runner.run(plan(2, decode("a", 3), decode("b", 2)))
    runner.run(replace(plan(3, decode("a", 4, 5), decode("b", 3)), moves=(BlockMove(7, 2), BlockMove(8, 0))))

    step, _ = recorder.seen[-1]
    assert [step.block_tables[slot, 0] for slot in step.slots] == [2, 0]
    assert step.block_tables[step.slots[0], 1] == 5
    assert recorder.copied == [(7, 2, LIMITS.block_tokens), (8, 0, LIMITS.block_tokens)]
    assert recorder.steps[-1] is recorder.steps[-2]


def test_moves_without_a_step_are_made() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    assert runner.run(StepPlan(1, (), (), (), (), (BlockMove(3, 1),))).sampled == ()
    assert recorder.copied == [(3, 1, LIMITS.block_tokens)]


def test_memory_comes_before_copies_and_goes_after_them_and_before_the_step() -> None:
    recorder = Recorder()
    runner = Runner(recorder, LIMITS, eos_ids=())
    step = replace(
        first(), copies=(BlockCopy(7, 9, 2),), committed=(range(8, 10), range(20, 24)), released=(range(30, 32),)
    )
    runner.run(step)
    assert recorder.memory == [
        ("commit", range(8, 10)),
        ("populate", range(8, 10)),
        ("commit", range(20, 24)),
        ("populate", range(20, 22)),  # no more than a step can fill: four blocks of four tokens
        ("copy", range(9, 10)),
        ("release", range(30, 32)),
    ]


def test_a_plan_without_slices_changes_memory_and_computes_nothing() -> None:
    recorder = Recorder()
    result = Runner(recorder, LIMITS, eos_ids=()).run(replace(plan(5), released=(range(4),)))
    assert result == StepResult(5, ())
    assert recorder.memory == [("release", range(4))]
    assert not recorder.steps


def test_one_step_in_64_says_where_its_time_went() -> None:
    runner = Runner(Recorder(), replace(LIMITS, max_model_tokens=256), eos_ids=())
    results = [runner.run(first())]
    results += [runner.run(plan(2 + turn, decode("a", 3), decode("b", 2))) for turn in range(127)]

    assert [number for number, result in enumerate(results, start=1) if result.ops] == [64, 128]
    assert results[63].ops == (OpTime("linear", 0.25, 1e9, 2e9),)
    assert len(results[63].sampled) == 2
