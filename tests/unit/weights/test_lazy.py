"""Tensors on the way in: quantised where asked, checked, and not kept."""

import dataclasses
import gc
import mmap
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest
from gguf.quants import quantize

from tailrace.errors import CheckpointError, SetupError
from tailrace.models.config import MixtureConfig
from tailrace.ops.packed import quantize_int4, quantize_int8
from tailrace.ops.program import Routing
from tailrace.ops.source import ReadsAhead, WeightForm, source_of
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.mapped import MappedFile
from tailrace.weights.names import tensor_class
from tailrace.weights.precision import Quantize
from tailrace.weights.tiny_deepseek import tiny_deepseek_path
from tests.support.resident import resident_kib
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek
from tests.unit.weights.model_files import GgmlType, write_directory, write_gguf

MATRICES = {"q", "k", "v", "o", "gate", "up", "down"}


def formats(checkpoint: Checkpoint) -> dict[str, set[str]]:
    """Tensor class -> formats."""
    found: dict[str, set[str]] = {}
    for name, tensor in checkpoint.tensors.items():
        found.setdefault(tensor_class(name), set()).add(tensor.format)
    return found


@pytest.mark.parametrize(("mode", "matrices"), [(None, "f16"), ("int8", "q8"), ("int4", "q4")])
def test_matrices_are_quantised_as_asked_and_the_vocabulary_to_int8(
    tmp_path: Path, mode: Quantize | None, matrices: str
) -> None:
    write_directory(tmp_path, dtype="float16")
    found = formats(open_directory(tmp_path, mode))
    vocabulary = "q8" if mode else "f16"
    assert found.pop("embed") == found.pop("head") == {vocabulary}
    assert {name: found.pop(name) for name in MATRICES} == {name: {matrices} for name in MATRICES}
    assert set.union(*found.values()) == {"f16"}


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_what_chooses_is_never_quantised(tmp_path: Path, mode: Quantize) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3.2"], dtype="float16")
    found = formats(open_directory(tmp_path, mode))
    assert found["router"] == found["router.bias"] == found["index.weights"] == {"f16"}
    narrow = {"q8" if mode == "int8" else "q4"}
    for name in ("experts.gate", "experts.down", "shared.up", "q_a", "kv_a", "v_b", "index.k"):
        assert found[name] == narrow, name


def test_each_class_is_kept_as_wide_as_it_was_asked_for(tmp_path: Path) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3.2"], dtype="float16")
    found = formats(open_directory(tmp_path, "int8,experts=int4,shared=float,index=float,head=int4,embed=float"))
    wide = {"f16"}
    for name in ("shared.gate", "shared.down", "index.q", "index.k", "embed", "router", "norm", "index.weights"):
        assert found[name] == wide, name
    for name in ("experts.gate", "experts.up", "experts.down", "head"):
        assert found[name] == {"q4"}, name
    for name in ("q_a", "kv_a", "v_b", "gate", "down"):
        assert found[name] == {"q8"}, name


def test_float_is_what_the_file_holds_exactly_whatever_its_codes(tmp_path: Path) -> None:
    kinds = {"layers.0.up": GgmlType.Q5_1, "layers.0.gate": GgmlType.Q8_0, "layers.0.q": GgmlType.BF16}
    values = write_gguf(tmp_path / "m.gguf", kinds=kinds)
    checkpoint = open_gguf(tmp_path / "m.gguf", "float")
    for name, expected in values.items():
        np.testing.assert_array_equal(checkpoint.tensors[name].dequantize(), expected, err_msg=name)
    kept = {name: checkpoint.tensors[name].format for name in kinds}
    assert kept == {"layers.0.up": "f32", "layers.0.gate": "q8", "layers.0.q": "bf16"}
    assert checkpoint.requantize_errors == {}
    assert checkpoint.float_matrices["layers.0.up"] == "f32"


def test_a_class_that_the_model_lacks_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    with pytest.raises(SetupError, match=r"m\.gguf: quantize names experts, and .*has no experts; it has atten"):
        open_gguf(tmp_path / "m.gguf", "int8,experts=int4")


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_experts_and_heads_are_quantised_like_whole_matrices(tmp_path: Path, mode: Quantize) -> None:
    config = DEEPSEEK["V3"]
    assert config.latent is not None
    wide = dataclasses.replace(config, latent=dataclasses.replace(config.latent, plain_dim=32), head_dim=40)
    values = write_deepseek(tmp_path, wide)
    tensors = open_directory(tmp_path, mode).tensors
    whole = quantize_int8 if mode == "int8" else quantize_int4
    for name in ("layers.1.experts.gate", "layers.2.experts.down", "layers.0.k_b", "layers.0.v_b"):
        np.testing.assert_array_equal(tensors[name].dequantize(), whole(values[name]).dequantize())


@pytest.mark.parametrize("chunk_rows", [1, 7, 33])
def test_experts_and_heads_are_read_in_chunks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    values = write_deepseek(tmp_path, DEEPSEEK["V3"])
    tensors = open_directory(tmp_path, "int4").tensors
    for name in ("layers.1.experts.up", "layers.0.v_b"):
        for chunk in ("_CHUNK_VALUES", "_RAW_CHUNK_VALUES"):
            monkeypatch.setattr(f"tailrace.weights.quantize.{chunk}", chunk_rows * values[name].shape[1])
        np.testing.assert_array_equal(tensors[name].dequantize(), quantize_int4(values[name]).dequantize())


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantised_values_are_those_of_the_whole_matrix_and_the_loss_is_measured(
    tmp_path: Path, mode: Quantize
) -> None:
    values = write_directory(tmp_path)
    checkpoint = open_directory(tmp_path, mode)
    for name in ("embed", "layers.1.down"):
        whole = quantize_int4 if mode == "int4" and name != "embed" else quantize_int8
        expected = whole(values[name]).dequantize()
        np.testing.assert_array_equal(checkpoint.tensors[name].dequantize(), expected)
        loss = np.linalg.norm(expected - values[name]) / np.linalg.norm(values[name])
        assert checkpoint.requantize_errors[name] == pytest.approx(loss, rel=1e-4)
    assert checkpoint.requantize_errors.keys() == {"embed", "layers.1.down"}


def test_a_matrix_of_many_chunks_is_quantised_like_one_of_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = write_directory(tmp_path)["layers.0.down"]
    monkeypatch.setattr("tailrace.weights.quantize._RAW_CHUNK_VALUES", 7 * values.shape[1])
    packed = open_directory(tmp_path, "int4").tensors["layers.0.down"]
    np.testing.assert_array_equal(packed.dequantize(), quantize_int4(values).dequantize())


@pytest.mark.parametrize(
    ("stored", "mode", "loaded"),
    [
        (GgmlType.Q8_0, "int8", "q8"),
        (GgmlType.Q8_0, "int4", "q4"),
        (GgmlType.Q4_1, "int8", "q4"),
        (GgmlType.Q4_1, "int4", "q4"),
        (GgmlType.Q5_0, "int8", "q8"),
        (GgmlType.Q5_0, "int4", "q4"),
        (GgmlType.Q5_1, "int8", "q8"),
        (GgmlType.BF16, "int8", "q8"),
    ],
)
def test_only_what_is_wider_is_quantised(tmp_path: Path, stored: GgmlType, mode: Quantize, loaded: str) -> None:
    write_gguf(tmp_path / "m.gguf", kinds={"layers.0.up": stored})
    checkpoint = open_gguf(tmp_path / "m.gguf", mode)
    assert checkpoint.tensors["layers.0.up"].format == loaded
    is_lossy = stored in (GgmlType.Q5_1, GgmlType.BF16) or (loaded == "q4" and stored != GgmlType.Q4_1)
    assert ("layers.0.up" in checkpoint.requantize_errors) is is_lossy


def test_zeros_are_quantised_without_loss(tmp_path: Path) -> None:
    values = write_gguf(tmp_path / "m.gguf", raw={"layers.0.up": np.zeros((96, 64), np.float32)})
    checkpoint = open_gguf(tmp_path / "m.gguf", "int8")
    np.testing.assert_array_equal(checkpoint.tensors["layers.0.up"].dequantize(), values["layers.0.up"])
    assert checkpoint.requantize_errors["layers.0.up"] == 0


@pytest.mark.parametrize(
    ("value", "mode", "reason"),
    [
        (np.nan, "int8", "values that are not finite"),
        (np.inf, "int4", "values that are not finite"),
        (1e30, "int8", "values too large for int8"),
        (1e30, "int4", "values too large for int4"),
    ],
)
def test_values_that_cannot_be_quantised_are_refused(tmp_path: Path, value: float, mode: Quantize, reason: str) -> None:
    matrix = np.ones((96, 64), np.float32)
    matrix[95, 63] = value
    write_gguf(tmp_path / "m.gguf", raw={"layers.0.up": matrix})
    with pytest.raises(CheckpointError, match=rf"m\.gguf: tensor 'blk\.0\.ffn_up\.weight' holds {reason}"):
        open_gguf(tmp_path / "m.gguf", mode).tensors["layers.0.up"]


@pytest.mark.parametrize("kind", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
def test_a_norm_that_is_not_finite_is_refused(tmp_path: Path, kind: GgmlType) -> None:
    weights = quantize(np.full(64, np.inf, np.float32), kind)
    write_gguf(tmp_path / "m.gguf", kinds={"norm": kind}, raw={"norm": weights})
    with pytest.raises(CheckpointError, match=r"tensor 'output_norm\.weight' holds values that are not finite"):
        open_gguf(tmp_path / "m.gguf").tensors["norm"]


@pytest.mark.parametrize("kind", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_float_matrix_that_is_not_finite_is_refused_by_name(tmp_path: Path, kind: GgmlType, bad: float) -> None:
    matrix = np.ones((96, 64), np.float32)
    matrix[95, 63] = bad
    write_gguf(tmp_path / "m.gguf", kinds={"layers.0.up": kind}, raw={"layers.0.up": quantize(matrix, kind)})
    tensors = open_gguf(tmp_path / "m.gguf").tensors
    assert tensors["layers.1.up"].shape == (96, 64)
    with pytest.raises(CheckpointError, match=r"m\.gguf: tensor 'blk\.0\.ffn_up\.weight' holds values .* not finite"):
        tensors["layers.0.up"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_of_many_experts_the_one_that_is_not_finite_is_named(tmp_path: Path, dtype: str) -> None:
    name = "model.layers.1.mlp.experts.5.up_proj.weight"
    bad = np.full((32, 64), np.nan, dtype)
    write_deepseek(tmp_path, DEEPSEEK["V3"], dtype=dtype, extra={name: bad})
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: tensor '{name}' holds values that are not finite"):
        open_directory(tmp_path).tensors["layers.1.experts.up"]


def test_powers_of_two_that_make_infinity_are_refused(tmp_path: Path) -> None:
    """MXFP4 has scales up to 2 ** 127, and codes up to 12."""
    rows = np.tile(np.array([254, *[0x77] * 16], np.uint8), (96, 2))
    write_gguf(tmp_path / "m.gguf", kinds={"layers.0.up": GgmlType.MXFP4}, raw={"layers.0.up": rows})
    with pytest.raises(CheckpointError, match=r"tensor 'blk\.0\.ffn_up\.weight' holds values that are not finite"):
        open_gguf(tmp_path / "m.gguf").tensors["layers.0.up"]


def test_experts_are_converted_without_a_wider_copy_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.weights.quantize._MAX_THREADS", 2)
    monkeypatch.setattr("tailrace.weights.quantize._CHUNK_VALUES", 1 << 12)
    routing = Routing(num_experts=16, top_k=2, scoring="softmax")
    wide = dataclasses.replace(
        DEEPSEEK["MoE-16B"], num_layers=2, mixture=MixtureConfig(routing, expert_size=512, first_layer=1)
    )
    write_deepseek(tmp_path, wide, dtype="float16")
    tensors = open_directory(tmp_path, "int4").tensors
    tracemalloc.start()
    packed = tensors["layers.1.experts.gate"]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < packed.num_bytes + (1 << 19), "as float32 they are 2 MiB, as float16 one"


@pytest.mark.parametrize("mode", [None, "int4"])
def test_what_was_converted_leaves_memory(tmp_path: Path, mode: Quantize | None) -> None:
    routing = Routing(num_experts=16, top_k=2, scoring="softmax")
    wide = dataclasses.replace(DEEPSEEK["MoE-16B"], mixture=MixtureConfig(routing, expert_size=512))
    write_deepseek(tmp_path, wide, dtype="float16")
    tensors = open_directory(tmp_path, mode).tensors
    before = resident_kib(tmp_path / "model.safetensors")
    assert tensors["layers.1.experts.gate"].shape == (16 * 512, 64)
    pages_at_the_ends = 2 * 16 * mmap.PAGESIZE // 1024
    assert resident_kib(tmp_path / "model.safetensors") < before - 16 * 512 * 64 * 2 // 1024 + pages_at_the_ends


def test_to_be_asked_whether_a_tensor_is_there_reads_nothing(tmp_path: Path) -> None:
    write_directory(tmp_path)
    checkpoint = open_directory(tmp_path, "int8")
    assert "layers.0.q" in checkpoint.tensors
    assert "layers.9.q" not in checkpoint.tensors
    assert checkpoint.requantize_errors == {}


def test_a_converted_tensor_is_not_kept(tmp_path: Path) -> None:
    write_directory(tmp_path)
    tensors = open_directory(tmp_path, "int8").tensors
    alive = weakref.ref(tensors["layers.0.q"].values)
    gc.collect()
    assert alive() is None


def test_a_file_is_unmapped_when_nothing_views_it(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    checkpoint: Checkpoint | None = open_gguf(tmp_path / "m.gguf")
    assert checkpoint is not None
    vocabulary = checkpoint.tokenizer
    assert "m.gguf" in Path("/proc/self/maps").read_text(encoding="utf-8")
    checkpoint = None
    gc.collect()
    assert vocabulary is not None
    assert str(tmp_path / "m.gguf") not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_a_tensor_the_model_does_not_have_is_a_key_error(tmp_path: Path) -> None:
    write_directory(tmp_path)
    with pytest.raises(KeyError):
        open_directory(tmp_path).tensors["layers.9.q"]


def test_whether_a_tensor_is_there_and_how_it_is_kept_is_known_without_converting_it(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    checkpoint = open_gguf(tmp_path / "m.gguf", "int4")
    source = source_of(checkpoint.tensors)
    assert "layers.0.q" in source
    assert "layers.9.q" not in source
    assert source.form("layers.0.q") == WeightForm((64, 64), "q4", is_narrowed=True)
    assert checkpoint.requantize_errors == {}, "what is converted leaves its error there"


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
def test_parts_are_those_of_the_whole_and_of_the_form_that_was_said(tmp_path: Path, mode: Quantize | None) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3.2"], dtype="float16")
    tensors = open_directory(tmp_path, mode).tensors
    source = source_of(tensors)
    for name, whole in tensors.items():
        form = source.form(name)
        assert (form.shape, form.format) == (whole.shape, whole.format), name
        rows = whole.shape[0]
        begin, end = (rows // 3, rows - rows // 4) if len(whole.shape) == 2 else (0, rows)
        part = source.part(name, begin, end)
        assert part.format == form.format
        np.testing.assert_array_equal(part.dequantize(), whole.dequantize()[begin:end])


@pytest.fixture
def read_ahead(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The bytes that were asked for."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(MappedFile, "read_ahead", lambda _file, span: asked.append(span))
    return asked


def test_the_rows_of_an_expert_are_read_ahead_where_they_lie(read_ahead: list[tuple[int, int]]) -> None:
    tensors = open_gguf(tiny_deepseek_path()).tensors
    assert isinstance(tensors, ReadsAhead)
    tensors.read_ahead("layers.1.experts.gate", 3 * 64, 4 * 64)
    tensors.read_ahead("layers.1.experts.gate", 4 * 64, 5 * 64)

    (begin, end), (next_begin, next_end) = read_ahead
    assert end == next_begin
    assert end - begin == next_end - next_begin == 64 * 256 // 32 * 34  # Q8_0


def test_experts_that_are_tensors_of_their_own_are_read_ahead_each(
    tmp_path: Path, read_ahead: list[tuple[int, int]]
) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3"], dtype="float16")
    tensors = open_directory(tmp_path).tensors
    assert isinstance(tensors, ReadsAhead)
    tensors.read_ahead("layers.1.experts.up", 32, 3 * 32)

    assert [end - begin for begin, end in read_ahead] == 2 * [32 * 64 * 2]
