"""What every back end must do with DeepSeek's sparse attention, beyond what all attention must (test_backends.py)."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend, KvFormat
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, supported_isas
from tailrace.ops.packed import quantize_int8
from tailrace.ops.reference import ReferenceBackend
from tests.contract.test_backends import (
    BACKENDS,
    KV_TOLERANCE,
    LIMITS,
    NARROW_BACKENDS,
    NUM_TOKENS,
    SHARED_LIMITS,
    Family,
    decode_families,
    error,
    loaded,
    logits_of,
    reference_logits,
)
from tests.support.mixtures import MIXTURES
from tests.support.steps import teacher_forced
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, random_ids, random_weights

SPARSE = DEEPSEEK_CONFIGS["sparse"]
ALL = CONFIGS | DEEPSEEK_CONFIGS | MIXTURES


@pytest.fixture(params=BACKENDS | NARROW_BACKENDS)
def any_backend(request: pytest.FixtureRequest) -> Backend:
    return (BACKENDS | NARROW_BACKENDS)[request.param]()


def selecting(top_k: int) -> ModelConfig:
    assert SPARSE.sparse is not None
    return replace(SPARSE, sparse=replace(SPARSE.sparse, top_k=top_k))


def test_where_everything_is_selected_nothing_changes_by_a_bit(any_backend: Backend) -> None:
    """Up to as many positions as are selected, and no longer."""
    weights, ids = random_weights(SPARSE, quantize_int8), random_ids(SPARSE, NUM_TOKENS)
    dense, sparse = (
        teacher_forced(any_backend.load(build_program(config), weights, LIMITS), LIMITS, ids, chunk_tokens=61)
        for config in (replace(SPARSE, sparse=None), selecting(100))
    )

    assert np.array_equal(sparse[:100], dense[:100])
    assert not np.array_equal(sparse[100:], dense[100:])


@pytest.mark.parametrize(("top_k", "is_together"), [(20, False), (190, True)])
@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("kv_format", get_args(KvFormat))
def test_sequences_that_share_blocks_read_together_what_is_not_selected(
    kv_format: KvFormat, isa: str, top_k: int, is_together: bool
) -> None:
    config, decoding = replace(selecting(top_k), mixture=None), (Family(96, 4), Family(130, 4))
    with loaded(CpuBackend(isa, kv_format), config, quantize_int8, SHARED_LIMITS) as executable:
        assert isinstance(executable, CpuExecutable)
        apart = decode_families(executable, config, decoding, is_shared=False)
        together = decode_families(executable, config, decoding, is_shared=True)
        assert (executable.shared_reads > 0) == is_together

    assert np.array_equal(together, apart)


@pytest.mark.parametrize("kv_format", KV_TOLERANCE)
@pytest.mark.parametrize("isa", supported_isas())
def test_narrow_caches_stay_close_in_most_rows(isa: str, kv_format: KvFormat) -> None:
    """In the others, positions that score almost alike have changed places: in one layer, those are few."""
    config = replace(SPARSE, mixture=None, num_layers=1)
    computed, expected = logits_of(CpuBackend(isa, kv_format), config), reference_logits(config)
    errors = [error(row, wanted) for row, wanted in zip(computed, expected, strict=True)]

    assert np.median(errors) < KV_TOLERANCE[kv_format]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kv_format", get_args(KvFormat))
def test_blocks_take_what_they_are_said_to_take(kv_format: KvFormat, name: str) -> None:
    """The keys of an index, and latents, have no values beside them."""
    program = build_program(ALL[name])
    for backend in (CpuBackend(kv_format=kv_format), ReferenceBackend()):
        executable = backend.load(program, random_weights(ALL[name]), LIMITS)
        assert executable.kv_bytes_per_block == backend.kv_bytes_per_block(program, LIMITS.block_tokens)
