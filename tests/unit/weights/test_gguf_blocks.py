"""Block types against the gguf package's own decoders, bit for bit where nothing is requantised."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from gguf.quants import dequantize
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.model_files import TINY, GgmlType, random_blocks, write_gguf

NAME = "layers.1.gate"
EXACT: dict[GgmlType, WeightFormat] = {
    GgmlType.F32: "f32",
    GgmlType.F16: "f16",
    GgmlType.BF16: "bf16",
    GgmlType.Q4_0: "q4",
    GgmlType.Q4_1: "q4",
    GgmlType.Q8_0: "q8",
}
SMALL_BLOCKS = ["Q5_0", "Q5_1", "IQ4_NL", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0"]
K_BLOCKS = ["Q2_K", "Q3_K", "Q5_K", "Q6_K"]
IQ_BLOCKS = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"]
WIDE = dataclasses.replace(TINY, hidden_size=256, head_dim=64)


def golden(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def written(path: Path, kind: GgmlType, *, config: ModelConfig = TINY) -> tuple[PackedTensor, NDArray[np.float32]]:
    """The tensor NAME of a file that stores it as `kind`, and its true values."""
    values = write_gguf(path, config, kinds={NAME: kind})
    return open_gguf(path).tensors[NAME], values[NAME]


def written_raw(path: Path, kind: GgmlType) -> tuple[Checkpoint, NDArray[np.float32]]:
    blocks = random_blocks(kind, WIDE.intermediate_size, WIDE.hidden_size)
    values = write_gguf(path, WIDE, kinds={NAME: kind}, raw={NAME: blocks})
    return open_gguf(path), values[NAME]


@pytest.mark.parametrize("kind", EXACT)
def test_our_formats_hold_the_stored_values_bit_for_bit(tmp_path: Path, kind: GgmlType) -> None:
    packed, values = written(tmp_path / "m.gguf", kind)
    assert packed.format == EXACT[kind]
    assert packed.shape == (96, 64)
    np.testing.assert_array_equal(packed.dequantize(), values)


@pytest.mark.parametrize("kind", EXACT)
def test_random_blocks_are_decoded_bit_for_bit(tmp_path: Path, kind: GgmlType) -> None:
    checkpoint, values = written_raw(tmp_path / "m.gguf", kind)
    np.testing.assert_array_equal(checkpoint.tensors[NAME].dequantize(), values)


@pytest.mark.parametrize("kind", EXACT)
def test_one_row_and_one_block_are_enough(tmp_path: Path, kind: GgmlType) -> None:
    config = dataclasses.replace(TINY, hidden_size=32, intermediate_size=1, head_dim=8)
    packed, values = written(tmp_path / "m.gguf", kind, config=config)
    assert packed.shape == (1, 32)
    np.testing.assert_array_equal(packed.dequantize(), values)


@pytest.mark.parametrize("kind", EXACT)
def test_nothing_is_copied_out_of_the_file(tmp_path: Path, kind: GgmlType) -> None:
    packed, _ = written(tmp_path / "m.gguf", kind)
    arrays = [packed.values, packed.scales, None if kind == GgmlType.Q4_0 else packed.offsets]
    for array in arrays:
        assert array is None or not (array.flags.owndata or array.flags.writeable)
    assert packed.format not in ("q4", "q8") or not packed.values.flags.c_contiguous


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        (GgmlType.Q4_0, "0030809191a2a2b3b3c4c4d5d5e6e6f7f7f8"),
        (GgmlType.Q4_1, "443000bc80809191a2a2b3b3c4c4d5d5e6e6f7f7"),
        (GgmlType.Q8_0, "08208189919aa2aab2bac3cbd3dbe3ecf4fc040c141d252d353d464e565e666f777f"),
    ],
)
def test_known_blocks_decode_to_a_ramp(tmp_path: Path, kind: GgmlType, block: str) -> None:
    config = dataclasses.replace(TINY, hidden_size=32, head_dim=8)
    rows = np.tile(golden(block), (config.intermediate_size, 1))
    write_gguf(tmp_path / "m.gguf", config, kinds={NAME: kind}, raw={NAME: rows})
    row = open_gguf(tmp_path / "m.gguf").tensors[NAME].rows(np.array([7]))[0]
    step = 0.008 if kind == GgmlType.Q8_0 else 0.14
    np.testing.assert_allclose(row, np.linspace(-1, 1, 32), atol=step)


def test_four_bit_k_blocks_need_no_requantising(tmp_path: Path) -> None:
    checkpoint, values = written_raw(tmp_path / "m.gguf", GgmlType.Q4_K)
    packed = checkpoint.tensors[NAME]
    assert packed.format == "q4"
    np.testing.assert_array_equal(packed.dequantize(), values)
    assert checkpoint.requantize_errors == {}


@pytest.mark.parametrize("kind", SMALL_BLOCKS + K_BLOCKS + IQ_BLOCKS)
def test_other_blocks_become_int8_and_say_what_that_cost(tmp_path: Path, kind: str) -> None:
    checkpoint, values = written_raw(tmp_path / "m.gguf", GgmlType[kind])
    packed = checkpoint.tensors[NAME]
    assert packed.format == "q8"
    assert checkpoint.stored_formats[NAME] == kind
    measured = np.linalg.norm(packed.dequantize() - values) / np.linalg.norm(values)
    assert checkpoint.requantize_errors == {NAME: pytest.approx(measured, rel=1e-3, abs=1e-7)}
    assert measured < 0.02


def test_a_matrix_that_no_group_fits_stays_float(tmp_path: Path) -> None:
    config = dataclasses.replace(TINY, hidden_size=40, head_dim=10)
    packed, values = written(tmp_path / "m.gguf", GgmlType.F16, config=config)
    assert packed.format == "f16"
    np.testing.assert_array_equal(packed.dequantize(), values)


def test_a_quantised_vector_becomes_float(tmp_path: Path) -> None:
    values = write_gguf(tmp_path / "m.gguf", kinds={"norm": GgmlType.Q8_0})
    packed = open_gguf(tmp_path / "m.gguf").tensors["norm"]
    assert packed.format == "f32"
    np.testing.assert_array_equal(packed.dequantize(), values["norm"])


def test_integers_are_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    raw = np.zeros((96, 64), np.int8)
    write_gguf(path, kinds={NAME: GgmlType.F32}, raw={NAME: raw.astype(np.float32)})
    content = bytearray(path.read_bytes())
    place = content.index(b"blk.1.ffn_gate.weight") + len(b"blk.1.ffn_gate.weight") + 4 + 2 * 8
    content[place : place + 4] = int(GgmlType.I8).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UnsupportedModel, match=r"'blk\.1\.ffn_gate\.weight' has type I8"):
        open_gguf(path)


@pytest.mark.parametrize("scale", ["007e", "017d", "007c"], ids=["quiet", "signalling", "infinite"])
@pytest.mark.parametrize("kind", [GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.Q6_K])
def test_a_block_whose_scale_is_no_number_is_refused(tmp_path: Path, kind: GgmlType, scale: str) -> None:
    path = tmp_path / "m.gguf"
    blocks = random_blocks(kind, WIDE.intermediate_size, WIDE.hidden_size)
    scale_at = 208 if kind == GgmlType.Q6_K else 0
    blocks[50, scale_at : scale_at + 2] = golden(scale)
    write_gguf(path, WIDE, kinds={NAME: kind}, raw={NAME: blocks})
    with pytest.raises(CheckpointError, match=r"m\.gguf: tensor 'blk\.1\.ffn_gate\.weight' holds values .* not finite"):
        open_gguf(path).tensors[NAME]


def test_the_packages_decoder_agrees_with_the_stored_bytes() -> None:
    """The oracle itself: a block made by hand."""
    block = np.concatenate([golden("003c003e"), np.full(16, 0x21, np.uint8)])
    assert dequantize(block[None], GgmlType.Q4_1).tolist() == [[1.0 * 1 + 1.5] * 16 + [1.0 * 2 + 1.5] * 16]
