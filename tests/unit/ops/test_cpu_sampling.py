"""Native sampling against its specification in numpy, on rows of logits made by hand."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import EngineError
from tailrace.ops import _native
from tailrace.ops.api import MAX_TOP_LOGPROBS, SampleOutputs, SamplingInputs
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, supported_isas
from tailrace.ops.packed import from_float32
from tailrace.ops.program import Weight
from tailrace.ops.reference_sampling import sample, uniform
from tests.support.steps import Part, limits, sampling, step

NUM_ROWS, VOCAB = 96, 501  # no multiple of 16
LIMITS = replace(limits(max_tokens=NUM_ROWS, max_model_tokens=NUM_ROWS, block_tokens=16), num_threads=2)
LOGITS = np.random.default_rng(3).normal(scale=3, size=(NUM_ROWS, VOCAB)).astype(np.float32)
LOGITS[::7, 40:60] = LOGITS[::7].max(axis=1, keepdims=True)  # ties at the top


def executable_with(logits: NDArray[np.float32], isa: str | None = None) -> CpuExecutable:
    """A program whose logits are the rows of its embedding."""
    build = ProgramBuilder()
    program = build.finish(build.gather_rows(build.embed(Weight("rows", logits.shape))))
    return CpuBackend(isa).load(program, {"rows": from_float32(logits)}, LIMITS)


def run(inputs: SamplingInputs, logits: NDArray[np.float32] = LOGITS, isa: str | None = None) -> SampleOutputs:
    return executable_with(logits, isa).run(step(LIMITS, Part(0, 0, range(len(logits)))), inputs)


CASES = {
    "greedy": sampling(NUM_ROWS, temperature=0.0),
    "plain": sampling(NUM_ROWS, seed=5),
    "cold": sampling(NUM_ROWS, temperature=0.1, seed=6),
    "hot": sampling(NUM_ROWS, temperature=9.0, seed=6),
    "nearly greedy": sampling(NUM_ROWS, temperature=1e-6),
    "top k": sampling(NUM_ROWS, top_k=5, temperature=2.0, seed=7),
    "top k of one": sampling(NUM_ROWS, top_k=1),
    "top k beyond the vocabulary": sampling(NUM_ROWS, top_k=10_000, seed=8),
    "top p": sampling(NUM_ROWS, top_p=0.7, temperature=2.0, seed=9),
    "top p of nothing": sampling(NUM_ROWS, top_p=0.0, seed=9),
    "min p": sampling(NUM_ROWS, min_p=0.1, temperature=3.0, seed=10),
    "all filters": sampling(NUM_ROWS, min_p=0.01, top_k=40, top_p=0.9, temperature=1.5, seed=11),
    "large seed": sampling(NUM_ROWS, seed=2**64 - 3, first_position=2**40),
    "penalties": sampling(
        NUM_ROWS,
        temperature=0.0,
        repetition_penalty=1.3,
        frequency_penalty=0.7,
        presence_penalty=-1.2,
        prompt_ids=[1, 2, 2, 45],
        output_ids=[45, 45, 46, 300],
    ),
    "biases": sampling(NUM_ROWS, seed=12, bias=[(3, 9.0), (3, 0.5), (45, -np.inf), (500, 8.0)]),
}


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("name", CASES)
def test_tokens_are_those_of_the_specification(name: str, isa: str) -> None:
    expected = sample(LOGITS, CASES[name])

    assert run(CASES[name], isa=isa).token_ids.tolist() == expected.token_ids.tolist()


def executable_with_head(logits: NDArray[np.float32], isa: str) -> CpuExecutable:
    """A program that multiplies a row of the identity with a head whose columns are the logits."""
    rows, vocab = logits.shape
    build = ProgramBuilder()
    x = build.gather_rows(build.embed(Weight("rows", (rows, rows))))
    program = build.finish(build.linear(x, Weight("head", (vocab, rows))))
    weights = {"rows": np.eye(rows, dtype=np.float32), "head": np.ascontiguousarray(logits.T)}
    return CpuBackend(isa).load(program, {name: from_float32(values) for name, values in weights.items()}, LIMITS)


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("num_rows", [1, 4, 5, NUM_ROWS])
def test_a_head_that_picks_the_best_token_picks_that_of_the_logits(num_rows: int, isa: str) -> None:
    logits = LOGITS.copy()
    logits[3, :] = -0.0
    logits[3, 250:] = 0.0  # equal to the others: the lowest id is the best
    executable = executable_with_head(logits, isa)
    work = step(LIMITS, Part(0, 0, range(num_rows)))
    expected = executable.logits(work).argmax(axis=1).tolist()

    alone = executable.run(work, sampling(num_rows, temperature=0.0)).token_ids.tolist()
    with_logits = executable.run(work, sampling(num_rows, temperature=0.0, num_logprobs=0)).token_ids.tolist()

    assert alone == expected == with_logits


def test_the_best_token_is_the_same_beside_a_row_that_is_drawn() -> None:
    executable = executable_with_head(LOGITS, supported_isas()[0])
    work = step(LIMITS, Part(0, 0, range(NUM_ROWS)))
    mixed = sampling(NUM_ROWS, temperature=0.0)
    mixed.temperature[5] = 1.0
    expected = executable.logits(work).argmax(axis=1).tolist()

    drawn = executable.run(work, mixed).token_ids.tolist()

    assert drawn[:5] + drawn[6:] == expected[:5] + expected[6:]


@pytest.mark.parametrize("count", [0, 1, 5, MAX_TOP_LOGPROBS])
def test_logprobs_are_those_of_the_model_before_penalties(count: int) -> None:
    inputs = sampling(NUM_ROWS, num_logprobs=count, temperature=1.5, bias=[(7, 20.0)], output_ids=[9])
    expected, drawn = sample(LOGITS, inputs), run(inputs)

    assert np.allclose(drawn.logprobs, expected.logprobs, atol=1e-5)
    assert np.array_equal(drawn.top_ids[:, :count], expected.top_ids[:, :count])
    assert np.allclose(drawn.top_logprobs[:, :count], expected.top_logprobs[:, :count], atol=1e-5)


def test_every_token_forbidden_is_the_lowest_id() -> None:
    forbidden = [(token, -np.inf) for token in range(VOCAB)]

    assert set(run(sampling(NUM_ROWS, bias=forbidden)).token_ids.tolist()) == {0}


def test_draws_follow_the_distribution() -> None:
    row = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    logits = np.tile(row, (NUM_ROWS, 1))
    drawn = np.concatenate(
        [run(sampling(NUM_ROWS, seed=seed), logits).token_ids.copy() for seed in range(20)]  # 1,920 draws
    )

    assert np.abs(np.bincount(drawn) / len(drawn) - [0.5, 0.3, 0.15, 0.05]).max() < 0.04


def test_the_generator_is_the_one_of_the_specification() -> None:
    for seed, position in ((0, 0), (1, 2), (2**63 + 5, 2**33 + 7)):
        assert _native.uniform(seed, position) == uniform(seed, position)


def test_rows_do_not_disturb_each_other() -> None:
    """Penalties of one row leave no trace in the next."""
    mixed = CASES["penalties"]
    starts = mixed.history_starts.copy()
    starts[1:] = starts[1]  # only the first row has a history
    inputs = replace(mixed, history_starts=starts, history_ids=mixed.history_ids[: starts[1]])

    assert run(inputs).token_ids[1:].tolist() == run(CASES["greedy"]).token_ids[1:].tolist()


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"history_ids": np.full(2 * NUM_ROWS, VOCAB, np.int32)}, "history token"),
        ({"bias_ids": np.full(NUM_ROWS, -1, np.int32)}, "biased token"),
        ({"bias_values": np.zeros(3, np.float32)}, "ragged"),
        ({"history_prompt_tokens": np.full(NUM_ROWS, 3, np.int32)}, "prompt tokens"),
        ({"temperature": np.ones(3, np.float32)}, "number of rows"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(broken: dict[str, NDArray[np.generic]], complaint: str) -> None:
    inputs = sampling(NUM_ROWS, output_ids=[1, 2], bias=[(1, 1.0)])
    values = {field.name: getattr(inputs, field.name) for field in fields(inputs)}

    with pytest.raises(EngineError, match=complaint):
        run(SamplingInputs(**(values | broken)))


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("name", CASES)
def test_logits_that_are_no_numbers_draw_a_token_all_the_same(name: str, isa: str) -> None:
    """What a broken model says is up to it; an id that it has no row for would end the engine."""
    logits = LOGITS.copy()
    logits[::2] = logits[1::2, ::3] = np.nan
    drawn = run(CASES[name], logits, isa)
    assert drawn.token_ids.min() >= 0
    assert drawn.token_ids.max() < VOCAB
