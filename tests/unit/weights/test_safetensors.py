"""The safetensors container: read through a map, with no claim believed."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.ops.narrow import widen
from tailrace.weights.safetensors import read_safetensors
from tailrace.weights.stored import raw_parts
from tests.unit.weights.model_files import Array, to_bf16


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def write(path: Path, entries: Any, data: bytes = b"") -> None:
    head = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_are_views_of_the_file(path: Path, dtype: str) -> None:
    values = np.random.default_rng(0).normal(size=(7, 5)).astype(dtype)
    save_file({"w": values, "v": values[0].copy()}, path, metadata={"format": "pt"})
    tensors = read_safetensors(path)
    packed = tensors["w"].packed()
    assert packed.format == {"float32": "f32", "float16": "f16"}[dtype]
    assert not packed.values.flags.owndata
    np.testing.assert_array_equal(packed.values, values)
    np.testing.assert_array_equal(tensors["w"].rows(2, 4), values[2:4].astype(np.float32))
    np.testing.assert_array_equal(tensors["v"].packed().dequantize(), values[0].astype(np.float32))


def test_bf16_is_the_upper_half_of_float32(path: Path) -> None:
    values = to_bf16(np.array([[1.0, -2.5], [3.0, 0.1]], np.float32))
    write(path, {"w": entry("BF16", [2, 2], 0, 8)}, values.tobytes())
    packed = read_safetensors(path)["w"].packed()
    assert packed.format == "bf16"
    np.testing.assert_allclose(packed.dequantize(), [[1.0, -2.5], [3.0, 0.1]], rtol=2**-7)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_native_code_reads_matrices_at_any_address(path: Path, dtype: str) -> None:
    values = np.array([[1, -2] * 16, [0.5, 3] * 16], np.float32)
    dtypes: dict[str, Array] = {"F32": values, "F16": values.astype(np.float16), "BF16": to_bf16(values)}
    stored = dtypes[dtype]
    head = json.dumps({"w": entry(dtype, [2, 32], 0, stored.nbytes), "v": entry(dtype, [0], 0, 0)}).encode()
    write(path, head + b" " * (1 - len(head) % 2), stored.tobytes())
    tensors = read_safetensors(path)
    assert raw_parts(tensors["v"]) is None
    (part,) = raw_parts(tensors["w"]) or ()
    np.testing.assert_array_equal(widen(part), values)


def test_data_at_odd_addresses_is_read(path: Path) -> None:
    head = json.dumps({"w": entry("F32", [3], 0, 12)}).encode()
    head += b" " * (1 - len(head) % 2)
    write(path, head, np.array([1, 2, 3], np.float32).tobytes())
    assert read_safetensors(path)["w"].packed().dequantize().tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I64", "F64"])
def test_other_dtypes_are_refused_where_a_weight_has_them(path: Path, dtype: str) -> None:
    write(path, {"w": entry(dtype, [0], 0, 0)})
    with pytest.raises(UnsupportedModel, match=f"tensor 'w' has dtype {dtype}; supported: F32, F16, BF16"):
        read_safetensors(path)["w"].check()


@pytest.mark.parametrize("size", [15, 17, 0])
def test_a_size_that_is_not_the_shapes_is_refused(path: Path, size: int) -> None:
    write(path, {"w": entry("F32", [2, 2], 0, size)}, bytes(32))
    with pytest.raises(CheckpointError, match=f"tensor 'w' has {size} bytes, its shape needs 16"):
        read_safetensors(path)["w"].check()


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (b"{", "its head is not what it must be"),
        (b"[1]", "its head is not what it must be"),
        (b'{"w": "\xff\xfe"}', "its head is not what it must be"),
        (b"[" * 100_000, "its head is not what it must be"),
        ({"w": 3}, "its head is not what it must be"),
        ({"w": {"dtype": "F32", "shape": [1]}}, "data_offsets"),
        ({"w": {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}}, "its head is not what it must be"),
        ({"w": entry("F32", [-1], 0, 4)}, "tensor 'w' cannot have offsets"),
        ({"w": entry("F32", [1], -8, -4)}, "tensor 'w' cannot have offsets"),
        ({"w": entry("F32", [1], 4, 0)}, "tensor 'w' cannot have offsets"),
        ({"w": entry("F32", [1] * 9, 0, 4)}, "tensor 'w' cannot have offsets"),
        ({"w": entry("F32", [1 << 40], 0, 1 << 42)}, "the file ends at byte .*, tensor 'w' at .*truncated; fetch it"),
        ({"w": entry("F32", [2], 0, 8), "u": entry("F32", [2], 4, 12)}, "tensors 'w' and 'u' overlap"),
    ],
)
def test_a_head_that_cannot_be_true_is_refused(path: Path, entries: Any, reason: str) -> None:
    write(path, entries, bytes(16))
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: .*{reason}"):
        read_safetensors(path)


@pytest.mark.parametrize("content", [b"abc", b"PK\3\4" + b"\xff" * 60, struct.pack("<Q", 1 << 62)])
def test_another_kind_of_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_safetensors(path)


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    save_file({"w": np.ones((4, 4), np.float32), "v": np.ones(4, np.float32)}, path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            read_safetensors(path)


@given(places=st.lists(st.tuples(st.integers(0, 160), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=150)
def test_damage_ends_in_an_error_of_ours_or_in_tensors(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    save_file({"w": np.ones((4, 4), np.float32), "v": np.ones(4, np.float16)}, path)
    content = bytearray(path.read_bytes())
    for place, value in places:
        content[place] = value
    path.write_bytes(content)
    with contextlib.suppress(ModelError):
        for tensor in read_safetensors(path).values():
            tensor.check()
            assert tensor.packed().dequantize().shape == tensor.shape
