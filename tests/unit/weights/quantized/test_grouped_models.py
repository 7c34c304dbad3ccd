"""Whole models, quantised: their logits are those of the same values in float32."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.reference import ReferenceBackend
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.inspection import inspect_checkpoint
from tailrace.weights.lazy import LazyTensors
from tailrace.weights.stored import Shape
from tests.support.steps import limits, teacher_forced
from tests.unit.weights.deepseek_files import DEEPSEEK
from tests.unit.weights.model_files import TINY
from tests.unit.weights.quantized.grouped_files import (
    Grouped,
    Quantize,
    Write,
    awq_tensors,
    gptq_tensors,
    grouped,
    write_models,
)

REFERENCE, NATIVE = ReferenceBackend(), CpuBackend(kv_format="f32")
IDS = [1, 17, 40, 3, 3, 29, 8, 11]
MODELS: dict[str, ModelConfig] = {
    "llama": TINY,
    "qwen2": replace(TINY, architecture="qwen2", qkv_bias=True),
    **{name: DEEPSEEK[name] for name in ("MoE-16B", "V2-Lite", "V2", "V3", "V3.2")},
}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}


def logits(
    checkpoint: Checkpoint, tensors: Mapping[str, PackedTensor], backend: Backend = REFERENCE
) -> NDArray[np.float32]:
    of = limits(block_tokens=16)
    executable = backend.load(build_program(checkpoint.config), tensors, of)
    return teacher_forced(executable, of, IDS, chunk_tokens=len(IDS)).copy()


def as_stored(checkpoint: Checkpoint) -> dict[str, PackedTensor]:
    """Without requantising what no packed format holds."""
    assert isinstance(checkpoint.tensors, LazyTensors)
    return {name: stored.packed() for name, stored in checkpoint.tensors.stored.items()}


def quantize(**how: Any) -> Quantize:
    def of_module(module: str, shape: Shape, seed: int) -> Grouped | None:
        rows, cols = shape
        return grouped(rows, cols, seed=seed, **how)

    return of_module


def awq_module(module: str, shape: Shape, seed: int) -> Grouped | None:
    """What AWQ cannot hold is not converted."""
    rows, cols = shape
    return None if cols % 32 or rows % 8 or module == "lm_head" else grouped(rows, cols, seed=seed)


def assert_same_models(codes: Path, floats: Path) -> None:
    quantized, expected = open_directory(codes), open_directory(floats)
    assert quantized.config == expected.config
    stored = as_stored(quantized)
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(stored[name].dequantize(), tensor.dequantize())
    truth = logits(expected, expected.tensors)
    np.testing.assert_allclose(logits(quantized, stored), truth, rtol=0, atol=1e-3)
    as_floats = {name: from_float32(tensor.dequantize()) for name, tensor in stored.items()}
    np.testing.assert_allclose(logits(quantized, as_floats, NATIVE), truth, rtol=0, atol=1e-3)


def error_of_native_code(codes: Path, floats: Path, backend: Backend) -> float:
    """As it loads them, relative to the logits: it rounds activations too."""
    quantized, expected = open_directory(codes), open_directory(floats)
    truth = logits(expected, expected.tensors)
    found = logits(quantized, quantized.tensors, backend)
    return float(np.sqrt(np.square(found - truth).mean() / np.square(truth).mean()))


@pytest.mark.parametrize("name", MODELS)
def test_awq(tmp_path: Path, name: str) -> None:
    codes, floats = write_models(tmp_path, MODELS[name], settings=AWQ, write=awq_tensors, quantize=awq_module)
    assert_same_models(codes, floats)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "how",
    [{"bits": 4, "sym": True}, {"bits": 4, "desc_act": True}, {"bits": 8, "sym": True}, {"bits": 3, "sym": False}],
    ids=str,
)
def test_gptq(tmp_path: Path, name: str, how: dict[str, Any]) -> None:
    bits, is_symmetric, is_shuffled = how["bits"], how.get("sym", False), how.get("desc_act", False)
    codes, floats = write_models(
        tmp_path,
        MODELS[name],
        settings=GPTQ | how,
        write=gptq_tensors,
        quantize=quantize(bits=bits, is_symmetric=is_symmetric, is_shuffled=is_shuffled),
    )
    assert open_directory(codes).stored_formats["layers.1.o"] == f"GPTQ {bits}-bit"
    assert_same_models(codes, floats)


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("how", [{"bits": 4}, {"bits": 8}, {"bits": 4, "desc_act": True}], ids=str)
def test_every_instruction_set_runs_them(tmp_path: Path, isa: str, how: dict[str, Any]) -> None:
    """What was reordered has been quantised again."""
    codes, floats = write_models(
        tmp_path,
        TINY,
        settings=GPTQ | how,
        write=gptq_tensors,
        quantize=quantize(bits=how["bits"], is_symmetric=True, is_shuffled=how.get("desc_act", False)),
    )
    assert error_of_native_code(codes, floats, CpuBackend(isa, "f32")) < 0.02


@pytest.mark.parametrize("name", ["qwen2", "V3"])
def test_native_code_runs_models_of_every_kind(tmp_path: Path, name: str) -> None:
    codes, floats = write_models(tmp_path, MODELS[name], settings=AWQ, write=awq_tensors, quantize=awq_module)
    assert error_of_native_code(codes, floats, NATIVE) < 0.05


def test_what_is_quantised_again_is_reported(tmp_path: Path) -> None:
    settings = GPTQ | {"desc_act": True}
    how = quantize(is_symmetric=True, is_shuffled=True)
    codes, _ = write_models(tmp_path, TINY, settings=settings, write=gptq_tensors, quantize=how)
    report = {part.name: part for part in inspect_checkpoint(open_directory(codes)).tensors}
    assert report["o"].formats == (("GPTQ 4-bit", "q8", TINY.num_layers),)
    error = report["o"].requantize_error
    assert error is not None
    assert 0 < error < 0.01
    assert report["embed"].requantize_error is None


def test_what_is_not_is_kept_as_it_is(tmp_path: Path) -> None:
    codes, _ = write_models(tmp_path, TINY, settings=AWQ, write=awq_tensors, quantize=awq_module)
    checkpoint = open_directory(codes)
    report = {part.name: part for part in inspect_checkpoint(checkpoint).tensors}
    assert report["o"].formats == (("AWQ 4-bit", "q4", TINY.num_layers),)
    assert report["head"].formats == (("F32", "f32", 1),)
    assert not checkpoint.requantize_errors


def test_heads_may_be_quantised(tmp_path: Path) -> None:
    codes, _ = write_models(tmp_path, TINY, settings=GPTQ, write=gptq_tensors, quantize=quantize(is_symmetric=True))
    checkpoint = open_directory(codes)
    assert not checkpoint.config.tie_word_embeddings
    assert (checkpoint.stored_formats["head"], checkpoint.tensors["head"].format) == ("GPTQ 4-bit", "q4")


def test_modules_may_differ(tmp_path: Path) -> None:
    rules = {
        r"-:.*\.0\.self_attn\.q_proj": {},
        r"+:.*\.1\.mlp\.": {"bits": 8, "group_size": -1},
        r"lm_head": {"bits": 3, "sym": False, "desc_act": True},
    }

    def as_rules_say(module: str, shape: Shape, seed: int) -> Grouped | None:
        if module.endswith(".0.self_attn.q_proj"):
            return None
        if ".1.mlp." in module:
            return quantize(bits=8, group_size=-1, is_symmetric=True)(module, shape, seed)
        is_head = module == "lm_head"
        return quantize(bits=3 if is_head else 4, is_symmetric=not is_head, is_shuffled=is_head)(module, shape, seed)

    settings = GPTQ | {"dynamic": rules}
    codes, floats = write_models(tmp_path, TINY, settings=settings, write=gptq_tensors, quantize=as_rules_say)
    formats = open_directory(codes).stored_formats
    names = ("layers.0.q", "layers.1.q", "layers.0.up", "layers.1.up", "head")
    assert [formats[name].removeprefix("GPTQ ") for name in names] == ["F32", "4-bit", "4-bit", "8-bit", "3-bit"]
    assert_same_models(codes, floats)


def test_a_module_that_is_skipped_has_no_codes(tmp_path: Path) -> None:
    settings = GPTQ | {"dynamic": {r"-:.*q_proj": {}}}
    codes, _ = write_models(tmp_path, TINY, settings=settings, write=gptq_tensors, quantize=quantize(is_symmetric=True))
    with pytest.raises(CheckpointError, match=r"q_proj\.qweight' is quantised, though .* skips its module"):
        open_directory(codes)


def with_biases(write: Write, value: float) -> Write:
    return lambda matrix: dict(write(matrix)) | {"bias": np.full(matrix.codes.shape[1], value, np.float16)}


def test_biases_of_zeros_that_the_model_does_not_have_are_left_out(tmp_path: Path) -> None:
    how = quantize(is_symmetric=True)
    codes, floats = write_models(tmp_path, TINY, settings=GPTQ, write=with_biases(gptq_tensors, 0), quantize=how)
    assert_same_models(codes, floats)
    codes, _ = write_models(tmp_path, TINY, settings=GPTQ, write=with_biases(gptq_tensors, 0.5), quantize=how)
    with pytest.raises(UnsupportedModel, match=r"tensor '.*\.bias' has no place in a llama model"):
        open_directory(codes)


def test_settings_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    how = quantize(is_symmetric=True)
    codes, floats = write_models(tmp_path, TINY, settings=None, write=gptq_tensors, quantize=how)
    with pytest.raises(CheckpointError, match=r"qweight' is quantised, and config\.json has no quantization_config"):
        open_directory(codes)
    first = {"bits": 4, "group_size": 32, "damp_percent": 0.01, "desc_act": False, "sym": True, "true_sequential": True}
    (codes / "quantize_config.json").write_text(json.dumps(first), encoding="utf-8")
    assert_same_models(codes, floats)
    fingerprint = open_directory(codes).fingerprint
    (codes / "quantize_config.json").write_text(json.dumps(first | {"sym": False}), encoding="utf-8")
    assert open_directory(codes).fingerprint != fingerprint
