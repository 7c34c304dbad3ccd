"""Block types against the gguf package's own decoders, bit for bit where nothing is requantised."""

import dataclasses
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.narrow import widen
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf import read_gguf
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.stored import raw_parts
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
REPACKED: dict[GgmlType, WeightFormat] = {
    GgmlType.Q5_0: "q8",
    GgmlType.IQ4_NL: "q8",
    GgmlType.MXFP4: "q8",
    GgmlType.Q3_K: "q8",
    GgmlType.Q4_K: "q4",
    GgmlType.IQ4_XS: "q8",
    GgmlType.TQ1_0: "q4",
    GgmlType.TQ2_0: "q4",
    GgmlType.IQ1_S: "q8",
    GgmlType.IQ2_XXS: "q8",
    GgmlType.IQ3_XXS: "q8",
    GgmlType.IQ3_S: "q4",
}
REQUANTISED = [GgmlType[name] for name in ("Q5_1", "NVFP4", "Q2_K", "Q5_K", "Q6_K", "IQ1_M", "IQ2_XS", "IQ2_S")]
NATIVE = {"F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
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


def test_no_type_that_the_package_reads_is_forgotten() -> None:
    """Beside the types of floats that are not quantised."""
    ours = {*EXACT, *REPACKED, *REQUANTISED} - {GgmlType.F32, GgmlType.F16}
    assert ours == {kind for kind in GgmlType if hasattr(gguf.quants, kind.name)}


@pytest.mark.parametrize("kind", REPACKED)
def test_what_is_repacked_is_not_requantised(tmp_path: Path, kind: GgmlType) -> None:
    checkpoint, values = written_raw(tmp_path / "m.gguf", kind)
    packed = checkpoint.tensors[NAME]
    assert packed.format == REPACKED[kind]
    np.testing.assert_array_equal(packed.dequantize(), values)
    assert checkpoint.requantize_errors == {}


@pytest.mark.parametrize("kind", REPACKED)
def test_pieces_of_any_size_make_one_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: GgmlType) -> None:
    monkeypatch.setattr("tailrace.weights.gguf_blocks._PIECE_VALUES", 7 * WIDE.hidden_size)
    checkpoint, values = written_raw(tmp_path / "m.gguf", kind)
    np.testing.assert_array_equal(checkpoint.tensors[NAME].dequantize(), values)


@pytest.mark.parametrize("kind", [*EXACT, *REPACKED, *REQUANTISED])
def test_a_few_rows_are_those_of_the_whole(tmp_path: Path, kind: GgmlType) -> None:
    _, values = written_raw(tmp_path / "m.gguf", kind)
    tensor = GgufTensor(read_gguf(tmp_path / "m.gguf").tensors["blk.1.ffn_gate.weight"])
    for begin, end in ((0, 1), (3, 10), (95, 96), (0, 96)):
        np.testing.assert_array_equal(tensor.rows(begin, end), values[begin:end])


@pytest.mark.parametrize("kind", [GgmlType.Q3_K, GgmlType.IQ4_NL, GgmlType.Q4_K])
def test_repacking_takes_little_memory_beyond_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: GgmlType
) -> None:
    monkeypatch.setattr("tailrace.weights.gguf_blocks._MAX_THREADS", 2)
    config = dataclasses.replace(WIDE, intermediate_size=16384)
    rows = np.tile(random_blocks(kind, 64, config.hidden_size), (256, 1))
    write_gguf(tmp_path / "m.gguf", config, kinds={NAME: kind}, raw={NAME: rows})
    tensors = open_gguf(tmp_path / "m.gguf").tensors
    tracemalloc.start()
    packed = tensors[NAME]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < packed.num_bytes + 2 * (1 << 16) * 12, "of a piece in each of two threads, 12 bytes a value"


@pytest.mark.parametrize("kind", REQUANTISED)
def test_other_blocks_become_int8_and_say_what_that_cost(tmp_path: Path, kind: GgmlType) -> None:
    checkpoint, values = written_raw(tmp_path / "m.gguf", kind)
    packed = checkpoint.tensors[NAME]
    assert packed.format == "q8"
    assert checkpoint.stored_formats[NAME] == kind.name
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


# Where a block has its float16, for those that do not begin with it, and where the second of those that have two.
SCALE_AT = {GgmlType.Q6_K: 208, GgmlType.Q2_K: 80, GgmlType.Q3_K: 108, GgmlType.TQ1_0: 52, GgmlType.TQ2_0: 64}
OFFSET_AT = dict.fromkeys((GgmlType.Q4_1, GgmlType.Q5_1, GgmlType.Q4_K, GgmlType.Q5_K), 2) | {GgmlType.Q2_K: 82}
IN_PIECES = (GgmlType.IQ1_M, GgmlType.NVFP4, GgmlType.MXFP4)  # whose scale is no float16 in one piece
HALF_SCALED = [kind for kind in (*EXACT, *REPACKED, *REQUANTISED) if kind.name[0] in "QIT" and kind not in IN_PIECES]
PLACES = [(kind, SCALE_AT.get(kind, 0)) for kind in HALF_SCALED] + list(OFFSET_AT.items())


@pytest.mark.parametrize("scale", ["007e", "017d", "007c"], ids=["quiet", "signalling", "infinite"])
@pytest.mark.parametrize(("kind", "scale_at"), PLACES)
def test_a_block_whose_scale_is_no_number_is_refused(tmp_path: Path, kind: GgmlType, scale_at: int, scale: str) -> None:
    blocks = random_blocks(kind, WIDE.intermediate_size, WIDE.hidden_size)
    blocks[50, scale_at : scale_at + 2] = golden(scale)
    refused(tmp_path / "m.gguf", kind, blocks)


def test_a_scale_in_four_pieces_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """IQ1_M has the bits of its float16 four at a time, in the upper ends of the last four pairs of bytes."""
    blocks = random_blocks(GgmlType.IQ1_M, WIDE.intermediate_size, WIDE.hidden_size)
    blocks[50, 49::2] = blocks[50, 49::2] & 15 | np.array([0x0, 0x0, 0xE, 0x7], np.uint8) << 4
    refused(tmp_path / "m.gguf", GgmlType.IQ1_M, blocks)


def refused(path: Path, kind: GgmlType, blocks: NDArray[np.uint8]) -> None:
    write_gguf(path, WIDE, kinds={NAME: kind}, raw={NAME: blocks})
    with pytest.raises(CheckpointError, match=r"m\.gguf: tensor 'blk\.1\.ffn_gate\.weight' holds values .* not finite"):
        open_gguf(path).tensors[NAME]


def test_the_packages_decoder_agrees_with_the_stored_bytes() -> None:
    """The oracle itself: a block made by hand."""
    block = np.concatenate([golden("003c003e"), np.full(16, 0x21, np.uint8)])
    assert dequantize(block[None], GgmlType.Q4_1).tolist() == [[1.0 * 1 + 1.5] * 16 + [1.0 * 2 + 1.5] * 16]


@pytest.mark.parametrize("kind", [*EXACT, *REPACKED, *REQUANTISED])
def test_native_code_reads_the_same_values_where_it_knows_the_type(tmp_path: Path, kind: GgmlType) -> None:
    _, values = written_raw(tmp_path / "m.gguf", kind)
    parts = raw_parts(GgufTensor(read_gguf(tmp_path / "m.gguf").tensors["blk.1.ffn_gate.weight"]))
    assert (parts is not None) == (kind.name in NATIVE)
    for part in parts or ():
        np.testing.assert_array_equal(widen(part), values)


@pytest.mark.parametrize("kind", REQUANTISED)
def test_the_same_values_are_read_without_native_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: GgmlType
) -> None:
    monkeypatch.setattr("tailrace.ops.narrow._conversion", lambda: None)
    _, values = written_raw(tmp_path / "m.gguf", kind)
    tensor = GgufTensor(read_gguf(tmp_path / "m.gguf").tensors["blk.1.ffn_gate.weight"])
    np.testing.assert_array_equal(tensor.rows(3, 10), values[3:10])
