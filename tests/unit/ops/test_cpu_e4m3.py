"""Keys and values as floats of 8 bits: each code and each tie between two, stored and read by every instruction set.

Values are encoded as they are, keys after a Hadamard transform.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.ops.api import Executable, Limits
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.packed import from_float32
from tailrace.ops.program import Program, RopeSpec, Weight
from tests.support import e4m3
from tests.support.steps import Part, block_tables, limits, step

HEAD_DIM, GROUP = 64, 16
LIMITS: Limits = limits(max_tokens=160, max_sequences=1, max_model_tokens=160, block_tokens=GROUP)
NO_TURN = RopeSpec(inv_freq=(0.0,))

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the cache holds of some positions: codes [positions, HEAD_DIM] and scales [positions]."""

    keys: Codes
    key_scales: Floats
    values: Codes
    value_scales: Floats


def program(num_tokens: int) -> Program:
    """Its embedding is a query, a key and a value for each token, which attends to its own position alone."""
    build = ProgramBuilder()
    cache = build.kv_cache(1, HEAD_DIM)
    qkv = build.embed(Weight("qkv", (num_tokens, 3 * HEAD_DIM)))
    q = build.rope_and_store(qkv, cache, 1, NO_TURN)
    return build.finish(build.gather_rows(build.paged_attention(q, cache, 1, HEAD_DIM**-0.5, 1)))


def run(isa: str, rows: Floats) -> tuple[Executable, Floats]:
    """Stores rows [positions, HEAD_DIM] as keys and, in other order, as values. Returns what attention reads."""
    qkv = np.concatenate([np.ones_like(rows), rows, rows[:, ::-1]], axis=1)
    executable = CpuBackend(isa, "fp8_e4m3").load(program(len(rows)), {"qkv": from_float32(qkv)}, LIMITS)
    read = executable.logits(step(LIMITS, Part(0, 0, range(len(rows)))))
    return executable, read[:, ::-1].copy()


def stored(executable: Executable, num_positions: int) -> Stored:
    """Blocks of one group of 16 positions each: see csrc/kernels/layout.h."""
    blocks = executable.kv_pool[block_tables(LIMITS)[0]]
    keys, values = np.split(blocks.reshape(len(blocks), 2, -1), 2, axis=1)
    codes_bytes = HEAD_DIM * GROUP

    def codes(tiles: Codes) -> Codes:
        return tiles[:, 0, :codes_bytes].reshape(len(blocks), -1, 4)

    def scales(tiles: Codes) -> Floats:
        return tiles[:, 0, codes_bytes:].copy().view(np.float32).reshape(-1)[:num_positions]

    of_keys = codes(keys).reshape(-1, HEAD_DIM // 4, GROUP, 4).transpose(0, 2, 1, 3)
    of_values = codes(values).reshape(-1, GROUP // 4, HEAD_DIM, 4).transpose(0, 1, 3, 2)
    by_position = (part.reshape(-1, HEAD_DIM)[:num_positions] for part in (of_keys, of_values))
    key_codes, value_codes = by_position
    return Stored(key_codes, scales(keys), value_codes[:, ::-1], scales(values))


def numbers() -> Floats:
    """All that codes mean, what lies half-way between two, and the floats beside that, of either sign."""
    ties = (e4m3.VALUES[1:] + e4m3.VALUES[:-1]) / 2
    exact = np.concatenate([e4m3.VALUES, ties]).astype(np.float32)
    beside = [np.nextafter(exact, np.float32(bound)) for bound in (0, 1e9)]
    drawn = np.exp2(np.random.default_rng(0).uniform(-14, 8.8, 500)).astype(np.float32)
    positive = np.minimum(np.concatenate([exact, *beside, drawn]), np.float32(e4m3.LARGEST))
    return np.concatenate([positive, -positive[positive > 0]])


def rows_of(numbers: Floats) -> Floats:
    """[positions, HEAD_DIM], the largest of each row being the largest code: it needs no scale."""
    width = HEAD_DIM - 1
    padded = np.resize(numbers, (-(-len(numbers) // width), width))
    return np.concatenate([padded, np.full((len(padded), 1), e4m3.LARGEST, np.float32)], axis=1)


@pytest.fixture(params=supported_isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def mixed(rows: Floats) -> NDArray[np.float64]:
    """Rows [positions, HEAD_DIM] times a Hadamard matrix, which keeps lengths and angles."""
    index = np.arange(HEAD_DIM)
    common = index[:, None] & index
    is_odd = sum(common >> bit for bit in range(6)) % 2 == 1
    signs = np.where(is_odd, -1.0, 1.0) / np.sqrt(HEAD_DIM)
    product: NDArray[np.float64] = rows.astype(np.float64) @ signs
    return product


@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 2.0**13])
def test_numbers_are_rounded_to_the_nearest_code_and_of_two_to_the_even_one(isa: str, scale: float) -> None:
    rows = rows_of(numbers())
    expected = e4m3.encode(rows)

    executable, read = run(isa, rows * np.float32(scale))
    found = stored(executable, len(rows))

    assert np.array_equal(found.values, expected)
    assert np.all(found.value_scales == scale)
    assert np.array_equal(read, (e4m3.decode(expected) * scale).astype(np.float32))


def test_all_codes_are_met() -> None:
    """By the test above."""
    assert set(np.unique(e4m3.encode(rows_of(numbers())))) == set(range(256)) - set(e4m3.NOT_NUMBERS)


def test_keys_are_mixed_and_then_rounded_alike(isa: str) -> None:
    """Of whole numbers, so that mixing is exact; with one dimension that stands out, as in some models."""
    rows = np.random.default_rng(3).integers(-40, 40, (150, HEAD_DIM)).astype(np.float32)
    rows[:, 11] = 900

    executable, _ = run(isa, rows)
    found = stored(executable, len(rows))

    assert np.array_equal(found.keys, e4m3.encode(mixed(rows) / found.key_scales[:, None]))


@pytest.mark.parametrize("name", ["keys", "values"])
def test_a_scale_is_the_least_power_of_two_that_brings_a_head_into_range(isa: str, name: str) -> None:
    random = np.random.default_rng(1)
    rows = np.ldexp(random.integers(1, 900, (150, HEAD_DIM)), random.integers(-80, 80, (150, 1))).astype(np.float32)

    executable, _ = run(isa, rows)
    found = stored(executable, len(rows))
    encoded, scales = (mixed(rows), found.key_scales) if name == "keys" else (rows, found.value_scales)
    tops = np.abs(encoded).max(axis=1)

    assert np.all(np.frexp(scales)[0] == 0.5)
    assert np.all(tops <= e4m3.LARGEST * scales)
    assert np.all(tops > e4m3.LARGEST / 2 * scales)


@pytest.mark.parametrize("top", [0.0, 1e-45, 1e-38, 3e38, np.inf, -np.inf, np.nan])
def test_whatever_a_head_holds_its_codes_are_numbers_and_its_scale_is_finite(isa: str, top: float) -> None:
    rows = np.full((3, HEAD_DIM), 0.5, np.float32)
    rows[1, 5] = top
    rows[2] = top

    executable, _ = run(isa, rows)
    found = stored(executable, len(rows))

    assert not np.isin(found.keys, e4m3.NOT_NUMBERS).any()
    assert not np.isin(found.values, e4m3.NOT_NUMBERS).any()
    for scales in (found.key_scales, found.value_scales):
        assert np.all(np.isfinite(scales * np.float32(e4m3.LARGEST)))
        assert np.all(scales > 0)


def test_the_reference_of_this_test_is_e4m3fn() -> None:
    assert e4m3.VALUES.max() == e4m3.LARGEST == 1.75 * 2**8
    assert e4m3.VALUES[:9].tolist() == [step * 2.0**-9 for step in range(9)]
    assert np.all(np.diff(e4m3.VALUES) > 0)
    assert e4m3.encode([17.0, 19.0, -17.0, 1e9, 2.0**-10, 3 * 2.0**-10]).tolist() == [0x58, 0x5A, 0xD8, 0x7E, 0, 2]
