"""What every back end must do: compute what the reference computes, and give a row the same bits in any company."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError
from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend, Executable, KvFormat, Limits
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, supported_isas
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int4, quantize_int8
from tailrace.ops.reference import ReferenceBackend
from tests.support.steps import Part, block_tables, limits, step, teacher_forced
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, Pack, bfloat16, float16, random_ids, random_weights

LIMITS = replace(limits(max_tokens=160, max_model_tokens=160, block_tokens=16), num_threads=2)
NUM_TOKENS = 150  # more than two key blocks of attention


def wide(weight: PackedTensor) -> PackedTensor:
    """The same with scales that float16 cannot hold."""
    return replace(
        weight,
        scales=None if weight.scales is None else weight.scales * np.float32(1.0001),
        offsets=None if weight.offsets is None else weight.offsets * np.float32(1.0001),
    )


PACKS: dict[str, Pack] = {
    "f32": from_float32,
    "f16": float16,
    "bf16": bfloat16,
    "int8": quantize_int8,
    "int4": quantize_int4,
    "int8 wide": lambda values: wide(quantize_int8(values)),
    "int4 wide": lambda values: wide(quantize_int4(values)),
}
# Of the root mean square of the logits. Quantised weights are multiplied with quantised activations.
# AMX keeps 16 bits of what bfloat16 weights are multiplied with: 2^-16 of each, or 1.5e-5 (csrc/kernels/gemm_amx.cpp).
TOLERANCE = {"f32": 1e-5, "f16": 1e-5, "bf16": 2e-5, "int8": 0.03, "int4": 0.03, "int8 wide": 0.03, "int4 wide": 0.03}
KV_TOLERANCE: dict[KvFormat, float] = {"bf16": 0.01, "int8": 0.025, "fp8_e4m3": 0.08}

LATENTS = {
    "latent": DEEPSEEK_CONFIGS["latent"],
    "latent, odd sizes": DEEPSEEK_CONFIGS["latent, odd sizes"],
    "latent, more heads than attend together": replace(DEEPSEEK_CONFIGS["latent"], num_heads=70),
}
MODELS = CONFIGS | LATENTS | {"latent, selected": replace(DEEPSEEK_CONFIGS["sparse"], mixture=None)}
# One for each kind of cache, and of attention to it.
ATTENDING = ("normed, three to a head", "windowed, half turned", "latent", "latent, selected")

BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": ReferenceBackend,
    **{f"cpu {isa}": partial(CpuBackend, isa, "f32") for isa in supported_isas()},
}
NARROW_BACKENDS: dict[str, Callable[[], Backend]] = {
    f"cpu {isa}, {kv_format} KV": partial(CpuBackend, isa, kv_format)
    for isa in supported_isas()
    for kv_format in KV_TOLERANCE
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


@pytest.fixture(params=BACKENDS | NARROW_BACKENDS)
def any_backend(request: pytest.FixtureRequest) -> Backend:
    return (BACKENDS | NARROW_BACKENDS)[request.param]()


def error(logits: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """The root mean square of the difference, as a share of that of the expected values."""
    return float(np.sqrt(np.square(logits - expected).mean() / np.square(expected).mean()))


@contextmanager
def loaded(
    backend: Backend, config: ModelConfig, pack: Pack = from_float32, of: Limits = LIMITS
) -> Iterator[Executable]:
    executable = backend.load(build_program(config), weights_of(config, pack), of)
    yield executable
    executable.close()


weights_of = cache(random_weights)  # of whoever only loads them


def logits_of(
    backend: Backend, config: ModelConfig, pack: Pack = from_float32, *, chunk_tokens: int = NUM_TOKENS
) -> NDArray[np.float32]:
    with loaded(backend, config, pack) as executable:
        return teacher_forced(executable, LIMITS, random_ids(config, NUM_TOKENS), chunk_tokens=chunk_tokens)


@cache
def reference_logits(config: ModelConfig, pack: Pack = from_float32) -> NDArray[np.float32]:
    """Once for all that are compared with them: the reference is slow."""
    logits = logits_of(ReferenceBackend(), config, pack).copy()
    logits.setflags(write=False)
    return logits


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_reference(backend: Backend, name: str) -> None:
    expected = reference_logits(MODELS[name])

    assert error(logits_of(backend, MODELS[name]), expected) < TOLERANCE["f32"]


@pytest.mark.parametrize("model", ["tied, interleaved", "latent"])
@pytest.mark.parametrize("name", PACKS)
def test_every_weight_format_is_multiplied(backend: Backend, name: str, model: str) -> None:
    expected = reference_logits(MODELS[model], PACKS[name])

    assert error(logits_of(backend, MODELS[model], PACKS[name]), expected) < TOLERANCE[name]


def test_formats_may_differ_within_one_linear(backend: Backend) -> None:
    config = CONFIGS["biased, odd sizes"]
    config = replace(config, hidden_size=64)
    weights = random_weights(config)
    mixed = weights | {
        name: pack(weight.values)
        for name, weight in weights.items()
        for part, pack in (("q", quantize_int4), ("k", quantize_int8), ("v", float16), ("up", quantize_int8))
        if name.endswith(f".{part}")
    }
    ids = random_ids(config, 40)
    results = [
        teacher_forced(each.load(build_program(config), mixed, LIMITS), LIMITS, ids, chunk_tokens=40)
        for each in (ReferenceBackend(), backend)
    ]

    assert error(results[1], results[0]) < TOLERANCE["int8"]


@pytest.mark.parametrize("model", ATTENDING[1:])
@pytest.mark.parametrize("name", ["f32", "int4", "int8"])
def test_chunks_do_not_change_a_bit(name: str, model: str) -> None:
    config = MODELS[model]
    ids = random_ids(config, NUM_TOKENS)
    with ExitStack() as stack:
        executables = [stack.enter_context(loaded(make(), config, PACKS[name])) for make in BACKENDS.values()]
        wholes = [teacher_forced(each, LIMITS, ids, chunk_tokens=NUM_TOKENS).copy() for each in executables]

        @settings(max_examples=6)
        @given(chunk_tokens=st.integers(1, 70))
        def check(chunk_tokens: int) -> None:
            for executable, whole in zip(executables, wholes, strict=True):
                chunked = teacher_forced(executable, LIMITS, ids, chunk_tokens=chunk_tokens, slot=2)
                assert np.array_equal(chunked, whole)

        check()


@pytest.mark.parametrize("name", ATTENDING)
def test_other_sequences_do_not_change_a_bit(any_backend: Backend, name: str) -> None:
    config = MODELS[name]
    ids, others = random_ids(config, 90), random_ids(config, 90, seed=2)
    with loaded(any_backend, config, quantize_int8) as executable:
        alone = teacher_forced(executable, LIMITS, ids, chunk_tokens=90, slot=3).copy()
        executable.logits(step(LIMITS, Part(0, 0, others[:33]), Part(1, 0, ids[:50])))
        mixed = executable.logits(
            step(LIMITS, Part(2, 0, others[:20]), Part(1, 50, ids[50:]), Part(0, 33, others[33:34]))
        )

        assert np.array_equal(mixed[20:60], alone[50:])


@pytest.mark.parametrize("name", ["latent", "latent, selected"])
@pytest.mark.parametrize("isa", supported_isas())
def test_the_number_of_threads_does_not_change_a_bit(isa: str, name: str) -> None:
    """How work is cut, by heads too, follows from it."""
    config, ids = MODELS[name], random_ids(MODELS[name], 140)
    results = []
    for num_threads in (1, 2, 5):
        with loaded(CpuBackend(isa), config, quantize_int8, replace(LIMITS, num_threads=num_threads)) as executable:
            executable.logits(step(LIMITS, Part(0, 0, ids[:130])))
            results.append(executable.logits(step(LIMITS, Part(0, 130, ids[130:131]), Part(1, 0, ids[:40]))).copy())

    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("name", ATTENDING)
def test_a_copied_block_continues_like_its_source(any_backend: Backend, name: str) -> None:
    config = MODELS[name]
    ids = random_ids(config, 30)
    with loaded(any_backend, config) as executable:
        whole = teacher_forced(executable, LIMITS, ids, chunk_tokens=30).copy()
        theirs, ours = step(LIMITS, Part(0, 0, [0])).block_tables[[0, 1]]
        executable.copy_block(int(theirs[0]), int(ours[0]), 16)
        executable.copy_block(int(theirs[1]), int(ours[1]), 5)
        continued = executable.logits(step(LIMITS, Part(1, 21, ids[21:])))

        assert np.array_equal(continued, whole[21:])


@pytest.mark.parametrize("name", ATTENDING)
def test_a_block_carried_elsewhere_as_bytes_continues_like_its_source(any_backend: Backend, name: str) -> None:
    config = MODELS[name]
    ids = random_ids(config, 40)
    with loaded(any_backend, config) as executable, loaded(any_backend, config) as another:
        whole = teacher_forced(executable, LIMITS, ids, chunk_tokens=30).copy()
        theirs, ours = step(LIMITS, Part(0, 0, [0])).block_tables[[0, 1]]
        assert executable.kv_pool.shape == (LIMITS.num_blocks, executable.kv_bytes_per_block)
        for source, target in zip(theirs[:2], ours[:2], strict=True):
            another.kv_pool[target] = np.frombuffer(executable.kv_pool[source].tobytes(), np.uint8)
        continued = another.logits(step(LIMITS, Part(1, 32, ids[32:])))

        assert np.array_equal(continued, whole[32:])


@pytest.mark.parametrize("name", ATTENDING)
def test_what_a_block_held_before_does_not_matter(any_backend: Backend, name: str) -> None:
    """Not even values that are no numbers: rows that were never written for this sequence add nothing."""
    config = MODELS[name]
    weights = random_weights(config)
    embed = weights["embed"].values.copy()
    embed[0] = np.nan
    program = build_program(replace(config, tie_word_embeddings=False))
    executable = any_backend.load(program, weights | {"embed": from_float32(embed)}, LIMITS)
    ids = [1 + token % 70 for token in random_ids(config, 70)]
    clean = teacher_forced(executable, LIMITS, ids, chunk_tokens=9, slot=1).copy()
    with np.errstate(invalid="ignore"):
        teacher_forced(executable, LIMITS, [0] * 150, chunk_tokens=150, slot=0)
    after = teacher_forced(executable, LIMITS, ids, chunk_tokens=9, slot=0)

    assert np.isfinite(clean).all()
    assert np.array_equal(after, clean)


@pytest.mark.parametrize("name", ATTENDING)
def test_blocks_that_gave_their_memory_back_are_as_good_as_new(any_backend: Backend, name: str) -> None:
    config = MODELS[name]
    ids = random_ids(config, 70)
    with loaded(any_backend, config) as executable:
        first = teacher_forced(executable, LIMITS, ids, chunk_tokens=30).copy()
        executable.release(range(LIMITS.num_blocks))
        executable.commit(range(LIMITS.num_blocks))
        executable.populate(range(1, LIMITS.num_blocks))  # the first gets its memory as it is touched
        assert np.array_equal(teacher_forced(executable, LIMITS, ids, chunk_tokens=30), first)


def test_committed_blocks_keep_what_they_hold_when_their_neighbours_go(any_backend: Backend) -> None:
    with loaded(any_backend, CONFIGS["plain"]) as executable:
        pool, kept = executable.kv_pool, [0, 2, 3, 7]
        executable.commit(range(8))
        pool[:8] = np.arange(8, dtype=np.uint8)[:, None]
        for blocks in (range(1, 2), range(4, 7)):
            executable.release(blocks)
        executable.commit(range(4, 5))
        executable.populate(range(3, 6))
        assert np.array_equal(pool[kept], np.broadcast_to(np.array(kept, np.uint8)[:, None], pool[kept].shape))


def test_a_missing_weight_is_named(backend: Backend) -> None:
    weights = random_weights(CONFIGS["plain"])
    del weights["layers.1.up"]

    with pytest.raises(CheckpointError, match=r"layers\.1\.up"):
        backend.load(build_program(CONFIGS["plain"]), weights, LIMITS)


def test_a_weight_of_another_shape_is_named(backend: Backend) -> None:
    weights = random_weights(CONFIGS["plain"])
    weights["layers.0.o"] = weights["layers.0.up"]

    with pytest.raises(CheckpointError, match=r"layers\.0\.o.*96"):
        backend.load(build_program(CONFIGS["plain"]), weights, LIMITS)


def test_a_step_beyond_the_limits_is_refused(backend: Backend) -> None:
    with loaded(backend, CONFIGS["plain"]) as executable, pytest.raises(EngineError, match="token"):
        executable.logits(step(LIMITS, Part(0, 0, [1] * 161)))


@pytest.mark.parametrize("kv_format", KV_TOLERANCE)
@pytest.mark.parametrize("name", CONFIGS | LATENTS)
def test_narrow_caches_stay_close(name: str, kv_format: KvFormat) -> None:
    expected = reference_logits(MODELS[name])

    for isa in supported_isas():
        assert error(logits_of(CpuBackend(isa, kv_format), MODELS[name]), expected) < KV_TOLERANCE[kv_format]


@pytest.mark.parametrize(
    "name", [name for name, config in MODELS.items() if config.num_heads < 64 and not config.sparse]
)
@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("kv_format", get_args(KvFormat))
def test_blocks_that_sequences_share_are_read_together_to_the_same_bits(
    kv_format: KvFormat, isa: str, name: str
) -> None:
    """Eight sequences decode behind two prefixes: once from the same blocks, once each from blocks of its own."""
    config, decoding = MODELS[name], (Family(96, 4), Family(130, 4))
    with loaded(CpuBackend(isa, kv_format), config, quantize_int8, SHARED_LIMITS) as executable:
        assert isinstance(executable, CpuExecutable)
        apart = decode_families(executable, config, decoding, is_shared=False)
        assert executable.shared_reads == 0
        together = decode_families(executable, config, decoding, is_shared=True)
        assert executable.shared_reads >= 2 * 64 + 2 * 128

    assert np.array_equal(together, apart)


@dataclass(frozen=True, slots=True)
class Family:
    """`num_members` sequences of other lengths that begin with the same `prefix_tokens` tokens."""

    prefix_tokens: int
    num_members: int


SHARED_LIMITS = limits(max_tokens=192, max_sequences=8, max_model_tokens=192, block_tokens=16)


def decode_families(
    executable: Executable, config: ModelConfig, families: Sequence[Family], *, is_shared: bool
) -> NDArray[np.float32]:
    """Logits of one step in which every member computes one token; with `is_shared` over the prefix's own blocks."""
    tables = block_tables(SHARED_LIMITS).copy()
    parts: list[Part] = []
    for family in families:
        prefix = random_ids(config, family.prefix_tokens, seed=family.prefix_tokens)
        first = len(parts)
        for slot in range(first, first + family.num_members):
            if is_shared:
                num_shared = family.prefix_tokens // SHARED_LIMITS.block_tokens
                tables[slot, :num_shared] = tables[first, :num_shared]
            ids = [*prefix, *random_ids(config, 3 + 7 * slot, seed=slot)]
            run = replace(step(SHARED_LIMITS, Part(slot, 0, ids[:-1]), sample_rows=[]), block_tables=tables)
            executable.logits(run)
            parts.append(Part(slot, len(ids) - 1, ids[-1:]))
    mixed = [parts[i] for i in np.random.default_rng(3).permutation(len(parts))]
    logits = executable.logits(replace(step(SHARED_LIMITS, *mixed), block_tables=tables))
    return logits[np.argsort([part.slot for part in mixed])]
