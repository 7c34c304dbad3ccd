"""Tensors made of others: whole or a few rows at a time, in the format they have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.ops.narrow import widen
from tailrace.ops.packed import PackedTensor, WeightFormat, from_float32, quantize_int4, quantize_int8
from tailrace.ops.raw import FloatForm, RawMatrix, RawParts
from tailrace.weights.composed import Bands, Cut, Stacked, Turned, cut
from tailrace.weights.stored import Shape, StoredTensor, raw_parts
from tests.support.tiny import bfloat16, float16


@dataclass(frozen=True)
class InMemory:
    """A stored tensor without a file."""

    tensor: PackedTensor
    where: str = "somewhere"

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def stored_format(self) -> str:
        return self.tensor.format.upper()

    @property
    def format(self) -> WeightFormat | None:
        return self.tensor.format

    @property
    def has_half_scales(self) -> bool:
        return True

    def packed(self) -> PackedTensor:
        return self.tensor

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.tensor.rows(np.arange(begin, end))

    def release(self) -> None:
        pass


Pack = Callable[[NDArray[np.float32]], PackedTensor]
FLOATS: dict[str, Pack] = {"f32": from_float32, "f16": float16, "bf16": bfloat16}
PACKS: dict[str, Pack] = FLOATS | {"q8": quantize_int8, "q4": quantize_int4}


def values(rows: int, cols: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(rows, cols)).astype(np.float32)


def assert_reads_alike(tensor: StoredTensor) -> NDArray[np.float32]:
    """The whole, and every range of rows, are the same values; returns them."""
    whole = tensor.packed().dequantize()
    assert whole.shape == tensor.shape
    for begin in range(0, tensor.shape[0], 5):
        for end in range(begin + 1, tensor.shape[0] + 1, 3):
            np.testing.assert_array_equal(tensor.rows(begin, end), whole[begin:end])
            part = cut(tensor, begin, end)
            assert part.shape == (end - begin, *tensor.shape[1:])
            np.testing.assert_array_equal(part.packed().dequantize(), whole[begin:end])
            np.testing.assert_array_equal(part.rows(0, end - begin), whole[begin:end])
    return whole


@pytest.mark.parametrize("name", PACKS)
def test_parts_lie_one_below_the_other(name: str) -> None:
    parts = [InMemory(PACKS[name](values(6, 64, seed))) for seed in range(4)]
    stacked = Stacked(parts)
    assert (stacked.format, stacked.packed().format, stacked.stored_format) == (name, name, name.upper())
    expected = np.concatenate([part.tensor.dequantize() for part in parts])
    np.testing.assert_array_equal(assert_reads_alike(stacked), expected)


def test_parts_of_several_formats_become_what_holds_them_all() -> None:
    parts = [InMemory(pack(values(6, 8, seed))) for seed, pack in enumerate(FLOATS.values())]
    stacked = Stacked(parts)
    assert (stacked.format, stacked.packed().format, stacked.stored_format) == ("f32", "f32", "BF16/F16/F32")
    expected = np.concatenate([part.tensor.dequantize() for part in parts])
    np.testing.assert_array_equal(assert_reads_alike(stacked), expected)


def test_parts_that_no_one_format_holds_are_quantised_again() -> None:
    """As a whole in float32 they would be the largest tensors of a model."""
    stacked = Stacked([InMemory(pack(values(6, 32))) for pack in (quantize_int8, float16, quantize_int4)])
    assert (stacked.format, stacked.packed().format, stacked.stored_format) == (None, "f32", "F16/Q4/Q8")
    assert_reads_alike(stacked)


@pytest.mark.parametrize("name", PACKS)
def test_bands_keep_their_format(name: str) -> None:
    whole = InMemory(PACKS[name](values(4 * 9, 64)))
    bands = Bands(whole, stride=9, offset=2, height=5)
    assert (bands.format, bands.packed().format, bands.stored_format) == (name, name, name.upper())
    expected = whole.tensor.dequantize().reshape(4, 9, 64)[:, 2:7].reshape(20, 64)
    np.testing.assert_array_equal(assert_reads_alike(bands), expected)


@pytest.mark.parametrize("name", PACKS)
def test_turning_keeps_floats_as_they_are(name: str) -> None:
    whole = InMemory(PACKS[name](values(3 * 6, 32)))
    turned = Turned(whole, height=6)
    is_float = name in FLOATS
    assert (turned.format, turned.packed().format) == ((name, name) if is_float else (None, "f32"))
    expected = whole.tensor.dequantize().reshape(3, 6, 32).transpose(0, 2, 1).reshape(96, 6)
    np.testing.assert_array_equal(assert_reads_alike(turned), expected)


def test_one_turned_block_has_the_values_of_a_row_side_by_side() -> None:
    block = Turned(InMemory(from_float32(values(18, 32))), height=6).cut(32, 64)
    assert block.shape == (32, 6)
    assert block.packed().values.flags.c_contiguous
    np.testing.assert_array_equal(block.packed().values, values(18, 32)[6:12].T)


def test_complaints_name_the_first_part() -> None:
    parts: list[Any] = [InMemory(from_float32(values(2, 2)), where=f"part {number}") for number in range(3)]
    assert Stacked(parts).where == "part 0, or one of the 2 beside it,"
    assert Turned(Bands(parts[1], 2, 0, 1), 1).where == "part 1"


@pytest.mark.parametrize(
    ("tensor", "begin", "end"),
    [
        (Stacked([InMemory(from_float32(values(6, 8, seed))) for seed in range(4)]), 6, 12),
        (Bands(InMemory(from_float32(values(36, 8))), stride=9, offset=2, height=5), 5, 15),
        (Turned(InMemory(from_float32(values(18, 32))), height=6), 32, 64),
    ],
    ids=["stacked", "bands", "turned"],
)
def test_a_head_or_an_expert_is_cut_out_without_unpacking_the_others(
    tensor: StoredTensor, begin: int, end: int
) -> None:
    part = cut(tensor, begin, end)
    assert not isinstance(part, Cut)
    np.testing.assert_array_equal(part.packed().dequantize(), tensor.packed().dequantize()[begin:end])


@dataclass(frozen=True)
class InFile(InMemory):
    """One that native code may read; `seam` tells where another part of it begins."""

    form: FloatForm = "f32"
    seam: int | None = None

    def raw(self) -> RawParts | None:
        whole = RawMatrix.of_floats(self.form, self.tensor.values)
        return [whole] if self.seam is None else [whole.rows(0, self.seam), whole.rows(self.seam, whole.num_rows)]


def read_raw(tensor: StoredTensor) -> NDArray[np.float32]:
    parts = [widen(part) for part in raw_parts(tensor) or ()]
    return np.concatenate([part for part in parts if part is not None])


@pytest.mark.parametrize("form", ["f32", "f16", "bf16"])
def test_native_code_reads_what_is_composed_of_whole_rows(form: FloatForm) -> None:
    parts = [InFile(FLOATS[form](values(6, 64, seed)), form=form) for seed in range(4)]
    stacked = Stacked([Bands(part, 3, 1, 2) for part in parts])
    for tensor in (
        cut(stacked, 1, 4),
        cut(stacked, 4, 5),
        Cut(stacked, 3, 9),
        Cut(InFile(parts[3].tensor, form=form, seam=2), 1, 5),
        parts[1],
        Stacked(parts),
        stacked,
        Bands(parts[1], 3, 1, 2),
        Bands(parts[2], 6, 4, 2),
        Stacked(parts[:1]),
    ):
        np.testing.assert_array_equal(read_raw(tensor), tensor.rows(0, tensor.shape[0]))


def test_native_code_reads_neither_what_is_turned_nor_what_has_no_file() -> None:
    part, two = InFile(from_float32(values(6, 64))), InFile(from_float32(values(6, 64)), seam=2)
    unknown = InMemory(from_float32(values(6, 64)))
    np.testing.assert_array_equal(read_raw(two), two.tensor.values)
    for tensor in (unknown, Turned(part, 6), Stacked([part, unknown]), Bands(unknown, 6, 0, 2), Bands(two, 6, 0, 2)):
        assert raw_parts(tensor) is None
