from dataclasses import replace

import numpy as np

from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.steps import CONTEXT_TOKENS, Case, fill_context, limits, step
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend
from tests.support.tiny import CONFIGS

CONFIG = replace(CONFIGS["plain"], max_model_tokens=1024)
IDS = [number * 7 % CONFIG.vocab_size for number in range(CONTEXT_TOKENS)]


def test_every_sequence_sees_the_same_context() -> None:
    case = Case("decode 3", 3, 1, CONTEXT_TOKENS)
    bounds = limits([case], num_threads=1)
    program = build_program(CONFIG)
    executable = CpuBackend().load(program, random_weights(program), bounds)
    fill_context(executable, bounds, IDS)

    inputs = step(case, bounds, IDS)
    alike = replace(inputs, token_ids=np.full(3, 5, np.int32))
    first, *others = executable.logits(alike).copy()
    assert all(np.array_equal(first, other) for other in others)

    empty = CpuBackend().load(program, random_weights(program), bounds)
    assert not np.array_equal(first, empty.logits(alike)[0])


def test_a_context_longer_than_the_computed_one_repeats_it() -> None:
    case = Case("decode at 600", 1, 1, 600)
    bounds = limits([case], num_threads=1)
    program = build_program(CONFIG)
    executable = CpuBackend().load(program, random_weights(program), bounds)
    fill_context(executable, bounds, IDS)

    assert np.isfinite(executable.logits(step(case, bounds, IDS))).all()
    assert bounds.max_model_tokens >= 601


def test_no_two_sequences_compute_the_same_tokens() -> None:
    case = Case("decode 4", 4, 1, 16)
    inputs = step(case, limits([case], num_threads=1), range(1000))

    assert inputs.token_ids.tolist() == [16, 17, 18, 19]
    assert inputs.sample_rows.tolist() == [0, 1, 2, 3]
    assert inputs.starts.tolist() == [16] * 4
