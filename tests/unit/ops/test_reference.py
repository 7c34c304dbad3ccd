"""Running programs: paging, chunks, batches, windows, and what is refused."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError
from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Limits, StepInputs
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int8
from tailrace.ops.reference import ReferenceBackend, ReferenceExecutable
from tests.support.steps import Part, limits, sampling, step, teacher_forced

CONFIG = ModelConfig(
    architecture="qwen3",
    vocab_size=50,
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    max_model_tokens=64,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    qkv_bias=True,
    qk_norm=True,
)
LIMITS = limits(block_tokens=4)
IDS = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 38, 46, 26, 43, 38, 32, 7, 9]


def random_weights(config: ModelConfig) -> dict[str, PackedTensor]:
    rng = np.random.default_rng(0)
    return {
        name: from_float32(rng.normal(scale=0.3, size=weight.shape).astype(np.float32))
        for name, weight in build_program(config).weights.items()
    }


def load(config: ModelConfig = CONFIG, of: Limits = LIMITS) -> ReferenceExecutable:
    return ReferenceBackend().load(build_program(config), random_weights(config), of)


def whole(ids: Sequence[int], config: ModelConfig = CONFIG) -> NDArray[np.float32]:
    return teacher_forced(load(config), LIMITS, ids, chunk_tokens=len(ids))


def test_logits_have_a_row_for_each_sampled_row() -> None:
    logits = load().logits(step(LIMITS, Part(0, 0, IDS), sample_rows=[19, 3]))

    assert logits.shape == (2, 50)
    assert logits.dtype == np.float32
    assert np.array_equal(logits, whole(IDS)[[19, 3]])


@settings(max_examples=15)
@given(chunk_tokens=st.integers(1, 20), slot=st.integers(0, 3))
def test_chunks_and_places_do_not_change_a_bit(chunk_tokens: int, slot: int) -> None:
    chunked = teacher_forced(load(), LIMITS, IDS, chunk_tokens=chunk_tokens, slot=slot)

    assert np.array_equal(chunked, whole(IDS))


def test_other_sequences_of_the_step_do_not_change_a_bit() -> None:
    executable = load()
    executable.logits(step(LIMITS, Part(2, 0, IDS[:5]), Part(1, 0, IDS[::-1])))
    mixed = executable.logits(step(LIMITS, Part(0, 0, [1, 2, 3]), Part(2, 5, IDS[5:]), Part(1, 20, [4])))

    assert np.array_equal(mixed[3:18], whole(IDS)[5:])


def test_what_a_block_held_before_does_not_matter() -> None:
    executable = load()
    teacher_forced(executable, LIMITS, IDS[::-1], chunk_tokens=20)

    assert np.array_equal(teacher_forced(executable, LIMITS, IDS, chunk_tokens=7), whole(IDS))


def test_a_later_token_does_not_change_an_earlier_one() -> None:
    assert np.array_equal(whole([*IDS[:10], *[1] * 10])[:10], whole(IDS)[:10])


def test_a_sliding_window_hides_what_is_further_back() -> None:
    sliding = replace(CONFIG, num_layers=1, sliding_window=4)
    changed = [1, *IDS[1:]]
    before, after = whole(IDS, sliding), whole(changed, sliding)

    assert not np.array_equal(before[3], after[3])  # position 3 still sees position 0
    assert np.array_equal(before[4:], after[4:])


def test_layouts_of_pairs_agree_once_the_rows_of_q_and_k_are_permuted() -> None:
    config = replace(CONFIG, qk_norm=False, qkv_bias=False)
    weights = random_weights(config)
    interleaved = dict(weights)
    for layer in range(2):
        for part, heads in (("q", 4), ("k", 2)):
            rows = np.arange(heads * 8).reshape(heads, 2, 4).swapaxes(1, 2).reshape(-1)
            interleaved[f"layers.{layer}.{part}"] = from_float32(weights[f"layers.{layer}.{part}"].rows(rows))

    program = build_program(replace(config, rope_interleaved=True))
    executable = ReferenceBackend().load(program, interleaved, LIMITS)
    assert teacher_forced(executable, LIMITS, IDS, chunk_tokens=20) == pytest.approx(whole(IDS, config), abs=1e-5)


def test_a_copied_block_continues_like_the_original() -> None:
    executable = load()
    executable.logits(step(LIMITS, Part(0, 0, IDS[:6])))
    tables = step(LIMITS, Part(0, 0, [0])).block_tables
    executable.copy_block(tables[0, 0], tables[1, 0], 4)
    executable.copy_block(tables[0, 1], tables[1, 1], 2)

    assert np.array_equal(executable.logits(step(LIMITS, Part(1, 6, IDS[6:]))), whole(IDS)[6:])


def test_copy_block_copies_the_first_rows_alone() -> None:
    shallow = replace(CONFIG, num_layers=1)  # what one layer caches of a token depends on that token alone
    executable = load(shallow)
    tables = step(LIMITS, Part(0, 0, [0])).block_tables
    executable.logits(step(LIMITS, Part(0, 0, [1] * 4), Part(1, 0, IDS[:4])))
    executable.copy_block(tables[0, 0], tables[1, 0], 1)

    continued = executable.logits(step(LIMITS, Part(1, 4, [IDS[4]])))
    assert np.array_equal(continued, whole([1, *IDS[1:5]], shallow)[4:])


def test_run_draws_from_the_logits() -> None:
    out = load().run(step(LIMITS, Part(0, 0, IDS)), sampling(len(IDS), temperature=0.0, num_logprobs=1))

    assert out.token_ids.tolist() == whole(IDS).argmax(axis=1).tolist()
    assert out.top_ids[:, 0].tolist() == out.token_ids.tolist()


def test_a_step_without_samples_only_fills_the_cache() -> None:
    executable = load()
    out = executable.run(step(LIMITS, Part(0, 0, IDS[:12]), sample_rows=[]), sampling(0))

    assert out.token_ids.shape == (0,)
    assert np.array_equal(executable.logits(step(LIMITS, Part(0, 12, IDS[12:]))), whole(IDS)[12:])


def test_quantised_weights_act_as_the_values_they_stand_for() -> None:
    weights = random_weights(CONFIG)
    packed = {
        name: quantize_int8(tensor.dequantize()) if len(tensor.shape) == 2 else tensor
        for name, tensor in weights.items()
    }
    plain = {name: from_float32(tensor.dequantize()) for name, tensor in packed.items()}
    backend, program = ReferenceBackend(), build_program(CONFIG)

    first, second = (
        teacher_forced(backend.load(program, tensors, LIMITS), LIMITS, IDS, chunk_tokens=20)
        for tensors in (packed, plain)
    )
    assert np.array_equal(first, second)


def test_sizes_are_told_in_bytes() -> None:
    executable = load()

    assert executable.kv_bytes_per_block == 4 * 2 * 2 * 2 * 8 * 4  # tokens, layers, k and v, heads, head_dim, float32
    assert executable.weight_bytes == 4 * sum(t.dequantize().size for t in random_weights(CONFIG).values())


def test_a_missing_weight_is_refused_by_name() -> None:
    weights = random_weights(CONFIG)
    del weights["layers.1.up"]

    with pytest.raises(CheckpointError, match=r"no tensor 'layers\.1\.up'"):
        ReferenceBackend().load(build_program(CONFIG), weights, LIMITS)


def test_a_weight_of_another_shape_is_refused_with_both_shapes() -> None:
    weights = random_weights(CONFIG) | {"norm": from_float32(np.ones(31, np.float32))}

    with pytest.raises(CheckpointError, match=r"'norm' has shape \(31,\), the model needs \(32,\)"):
        ReferenceBackend().load(build_program(CONFIG), weights, LIMITS)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([Part(0, 0, [1] * 64), Part(1, 0, [1])], "65 tokens, the limit is 64"),
        ([Part(slot, 0, [1]) for slot in (0, 1, 2, 3, 3)], "5 sequences, the limit is 4"),
        ([Part(0, 60, [1] * 5)], "a position beyond 64"),
    ],
)
def test_a_step_beyond_the_limits_is_refused(parts: list[Part], complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        load().logits(step(LIMITS, *parts))


@pytest.mark.parametrize(
    ("breaking", "complaint"),
    [
        (lambda good: replace(good, sample_rows=np.array([0, 5], np.int32)), "a sampled row beyond the 2 tokens"),
        (lambda good: replace(good, row_starts=np.array([0, 1], np.int32)), "row_starts cover 1 of 2 tokens"),
        (lambda good: replace(good, sample_rows=np.zeros(65, np.int32)), "65 samples, the limit is 64"),
    ],
    ids=["row out of range", "rows of nobody", "too many samples"],
)
def test_arrays_that_do_not_fit_together_are_refused(
    breaking: Callable[[StepInputs], StepInputs], complaint: str
) -> None:
    with pytest.raises(EngineError, match=complaint):
        load().logits(breaking(step(LIMITS, Part(0, 0, [1, 2]))))
