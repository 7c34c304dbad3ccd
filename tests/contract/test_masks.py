"""Token masks in every back end: only what a row of bits allows is drawn, and who has no mask is drawn as without."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.errors import EngineError
from tailrace.ops.api import NO_TOKEN, Backend, Executable, SampleOutputs, SamplingInputs
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.packed import from_float32
from tailrace.ops.program import Weight
from tailrace.ops.reference import ReferenceBackend
from tailrace.ops.reference_sampling import sample
from tests.support.steps import Part, limits, sampling, step

NUM_ROWS, VOCAB = 8, 203  # no multiple of 32
LIMITS = replace(limits(max_tokens=NUM_ROWS, max_sequences=NUM_ROWS, block_tokens=16), num_threads=2)
LOGITS = np.random.default_rng(4).normal(scale=2, size=(NUM_ROWS, VOCAB)).astype(np.float32)
LOGITS[::3, 40:60] = LOGITS[::3].max(axis=1, keepdims=True)  # ties at the top

BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": ReferenceBackend,
    **{isa: partial(CpuBackend, isa) for isa in supported_isas()},
}
# Ways to draw, of which each keeps other parts of a row.
CASES = {
    "greedy": sampling(NUM_ROWS, temperature=0.0),
    "greedy, with logprobs": sampling(NUM_ROWS, temperature=0.0, num_logprobs=4),
    "plain": sampling(NUM_ROWS, seed=5, temperature=2.0),
    "filtered": sampling(NUM_ROWS, seed=6, temperature=1.5, min_p=0.01, top_k=30, top_p=0.9),
    "penalties": sampling(
        NUM_ROWS, temperature=0.0, repetition_penalty=1.3, presence_penalty=0.4, prompt_ids=[3, 45], output_ids=[45, 50]
    ),
    "biases": sampling(NUM_ROWS, seed=7, bias=[(3, 9.0), (45, -np.inf), (202, 8.0)]),
}


def load(backend: Backend, logits: NDArray[np.float32] = LOGITS) -> Executable:
    """A program whose logits are the rows of its embedding."""
    build = ProgramBuilder()
    program = build.finish(build.gather_rows(build.embed(Weight("rows", logits.shape))))
    return backend.load(program, {"rows": from_float32(logits)}, LIMITS)


@pytest.fixture(scope="module", params=BACKENDS)
def executable(request: pytest.FixtureRequest) -> Executable:
    return load(BACKENDS[request.param]())


def write(executable: Executable, row: int, allowed: NDArray[np.bool_], position: int) -> None:
    """Bit by bit, as the words of `TokenMasks.rows` are defined."""
    words = [0] * executable.masks.rows.shape[1]
    for token_id in np.flatnonzero(allowed).tolist():
        words[token_id // 32] |= 1 << token_id % 32
    executable.masks.rows[row] = words
    executable.masks.tell(row, position)


def guided(inputs: SamplingInputs, mask_rows: Sequence[int]) -> SamplingInputs:
    return replace(inputs, mask_rows=np.array(mask_rows, np.int32))


def draw(executable: Executable, inputs: SamplingInputs) -> SampleOutputs:
    return executable.run(step(LIMITS, Part(0, 0, range(NUM_ROWS))), inputs)


def masks_of(allowed: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    return np.array([np.isin(np.arange(VOCAB), ids) for ids in allowed])


ALLOWED = st.one_of(
    st.sets(st.integers(0, VOCAB - 1), min_size=1, max_size=4).map(sorted),
    st.sets(st.integers(0, VOCAB - 1), min_size=1).map(lambda ids: sorted(set(range(VOCAB)) - ids)),
    st.sampled_from([range(VOCAB), range(32, 64), [45], [VOCAB - 1], []]),
)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(
    allowed=st.lists(ALLOWED, min_size=NUM_ROWS, max_size=NUM_ROWS),
    is_guided=st.lists(st.booleans(), min_size=NUM_ROWS, max_size=NUM_ROWS),
)
def test_draws_are_those_of_a_model_that_knows_only_what_is_allowed(
    executable: Executable, name: str, allowed: list[Sequence[int]], is_guided: list[bool]
) -> None:
    inputs, masks = CASES[name], masks_of(allowed)
    rows = np.arange(2 * NUM_ROWS)[::-1][:NUM_ROWS]  # of the masks: in no relation to those of the step
    for row, mask, position in zip(rows.tolist(), masks, inputs.position.tolist(), strict=True):
        write(executable, row, mask, position)
    drawn = draw(executable, guided(inputs, np.where(is_guided, rows, -1).tolist())).token_ids

    never = [token_id for token_id, value in zip(inputs.bias_ids, inputs.bias_values, strict=True) if value == -np.inf]
    can_be_drawn = masks & ~np.isin(np.arange(VOCAB), never)
    quiet = replace(inputs, num_logprobs=np.full(NUM_ROWS, -1, np.int32))
    alone = sample(np.where(masks, LOGITS, np.float32(-np.inf)), quiet).token_ids  # without a mask, of such logits
    guided_ids = np.where(can_be_drawn.any(axis=1), alone, NO_TOKEN)
    assert drawn.tolist() == np.where(is_guided, guided_ids, sample(LOGITS, inputs).token_ids).tolist()


def test_log_probabilities_are_those_of_the_model(executable: Executable) -> None:
    inputs = sampling(NUM_ROWS, temperature=0.0, num_logprobs=2)
    for row in range(NUM_ROWS):
        write(executable, row, masks_of([[7]] if row else [[]])[0], row)
    outputs = draw(executable, guided(inputs, range(NUM_ROWS)))

    logprobs = LOGITS - np.log(np.exp(LOGITS.astype(np.float64)).sum(axis=1, keepdims=True))
    assert outputs.token_ids.tolist() == [NO_TOKEN] + [7] * (NUM_ROWS - 1)
    assert outputs.logprobs[0] == -np.inf
    assert np.allclose(outputs.logprobs[1:], logprobs[1:, 7], atol=1e-5)
    assert np.array_equal(outputs.top_ids[:, 0], LOGITS.argmax(axis=1))  # allowed or not
    assert np.allclose(outputs.top_logprobs[:, 0], logprobs.max(axis=1), atol=1e-5)


def test_a_draw_waits_for_the_mask_of_its_position(executable: Executable) -> None:
    inputs = guided(sampling(NUM_ROWS, temperature=0.0, first_position=100), [-1, 3, *[-1] * (NUM_ROWS - 2)])
    results: list[list[int]] = []
    before_s, late_s = executable.masks.waited_s, 0.001
    while executable.masks.waited_s == before_s:  # the mask may have come before the step, whatever the clock says
        write(executable, 3, masks_of([[9]])[0], 100)  # of the token before
        drawing = threading.Thread(target=lambda: results.append(draw(executable, inputs).token_ids.tolist()))
        drawing.start()
        time.sleep(late_s)
        assert drawing.is_alive()
        write(executable, 3, masks_of([[11]])[0], 101)
        drawing.join()
        late_s *= 2

    for token_ids in results:
        assert token_ids == [11 if row == 1 else int(LOGITS[row].argmax()) for row in range(NUM_ROWS)]


def test_masks_outlive_the_executable() -> None:
    for make in BACKENDS.values():
        executable = load(make())
        masks = executable.masks
        executable.close()
        masks.rows[0] = 1
        masks.tell(0, 5)

        assert masks.rows[0, 0] == 1


@pytest.mark.parametrize("isa", supported_isas())
def test_a_row_that_there_is_not_is_refused(isa: str) -> None:
    executable = load(CpuBackend(isa))
    for mask_rows in ([2 * NUM_ROWS] * NUM_ROWS, [-1]):
        with pytest.raises(EngineError, match="mask"):
            draw(executable, guided(CASES["greedy"], mask_rows))
    with pytest.raises(ValueError, match="no such row"):
        executable.masks.tell(2 * NUM_ROWS, 0)
