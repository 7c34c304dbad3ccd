"""Experts that come and go give the same bits as experts that stay: any cap, any steps, storms of evictions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.models.registry import build_program
from tailrace.ops.api import Executable, Limits
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.cpu.lowering import expert_weights
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int4, quantize_int8
from tailrace.ops.program import Program
from tests.support.mixtures import MIXTURES
from tests.support.steps import Part, limits, step
from tests.support.tiny import DEEPSEEK_CONFIGS, Pack, bfloat16, random_ids, random_weights

LIMITS = replace(limits(max_tokens=160, max_model_tokens=160, block_tokens=16), num_threads=2)
MODELS = MIXTURES | {name: config for name, config in DEEPSEEK_CONFIGS.items() if config.mixture is not None}
PACKS: dict[str, Pack] = {"f32": from_float32, "bf16": bfloat16, "int8": quantize_int8, "int4": quantize_int4}


@st.composite
def steps_of(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Of each step, how many tokens of which sequences it computes."""
    counts = st.one_of(st.integers(1, 3), st.integers(1, 30))
    one = st.dictionaries(st.integers(0, LIMITS.max_sequences - 1), counts, min_size=1, max_size=LIMITS.max_sequences)
    return [sorted(each.items()) for each in draw(st.lists(one, min_size=3, max_size=6))]


def logits_of(executable: Executable, steps: list[list[tuple[int, int]]], ids: list[int]) -> list[bytes]:
    starts = [0] * LIMITS.max_sequences
    computed = []
    for parts in steps:
        begun = [Part(slot, starts[slot], ids[slot * 7 + starts[slot] :][:count]) for slot, count in parts]
        computed.append(executable.logits(step(LIMITS, *begun)).tobytes())
        for slot, count in parts:
            starts[slot] += count
    return computed


def expert_bytes(program: Program, weights: dict[str, PackedTensor]) -> int:
    """What all experts take, or a little less."""
    arrays = [weights[weight.name] for weight in expert_weights(program)]
    return sum(
        array.nbytes for each in arrays for array in (each.values, each.scales, each.offsets) if array is not None
    )


@settings(max_examples=60)
@given(
    model=st.sampled_from(sorted(MODELS)),
    pack=st.sampled_from(sorted(PACKS)),
    share=st.floats(0.0, 1.2),
    threads=st.integers(1, 3),
    steps=steps_of(),
)
def test_bits_are_those_of_experts_that_stay(
    model: str, pack: str, share: float, threads: int, steps: list[list[tuple[int, int]]]
) -> None:
    config = MODELS[model]
    program, weights = build_program(config), random_weights(config, PACKS[pack])
    ids = random_ids(config, 400)
    bounds: Limits = replace(LIMITS, num_threads=threads)
    with_all = CpuBackend(kv_format="f32").load(program, weights, bounds)
    expected = logits_of(with_all, steps, ids)
    with_all.close()

    max_bytes = 1 + int(share * expert_bytes(program, weights))
    lazy = CpuBackend(kv_format="f32").load(program, weights, replace(bounds, expert_bytes=max_bytes))
    computed = logits_of(lazy, steps, ids)
    assert lazy.resident_experts is not None
    counts = lazy.resident_experts.counts()
    lazy.close()

    assert computed == expected
    assert counts.misses > 0


@pytest.mark.parametrize("model", ["experts, grouped, odd sizes", "latent and experts"])
def test_a_cap_of_a_byte_has_every_expert_come_anew(model: str) -> None:
    """What one mixture has chosen is there at once, and gone with the next."""
    config = DEEPSEEK_CONFIGS[model]
    program, weights = build_program(config), random_weights(config, quantize_int4)
    lazy = CpuBackend(kv_format="f32").load(program, weights, replace(LIMITS, expert_bytes=1))
    assert lazy.resident_experts is not None
    ids = random_ids(config, 40)
    first = lazy.logits(step(LIMITS, Part(0, 0, ids))).copy()
    again = lazy.logits(step(LIMITS, Part(1, 0, ids))).copy()
    counts = lazy.resident_experts.counts()
    lazy.close()

    assert np.array_equal(first, again)
    assert counts.evictions > 0
    if config.mixture is not None:
        assert counts.num_resident <= config.mixture.routing.num_experts
