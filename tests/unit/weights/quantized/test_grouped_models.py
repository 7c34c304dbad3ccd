"""Whole models, quantised: their logits are those of the same values in float32."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.load import load_backend
from tailrace.ops.packed import PackedTensor
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
    awq_tensors,
    gptq_tensors,
    grouped,
    write_models,
)

IDS = [1, 17, 40, 3, 3, 29, 8, 11]
MODELS: dict[str, ModelConfig] = {
    "llama": TINY,
    "qwen2": replace(TINY, architecture="qwen2", qkv_bias=True),
    **{name: DEEPSEEK[name] for name in ("MoE-16B", "V2-Lite", "V2", "V3", "V3.2")},
}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}


def logits(checkpoint: Checkpoint, tensors: dict[str, PackedTensor] | None = None) -> NDArray[np.float32]:
    of = limits()
    program = build_program(checkpoint.config)
    executable = load_backend("reference").load(program, tensors or checkpoint.tensors, of)
    return teacher_forced(executable, of, IDS, chunk_tokens=len(IDS))


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
    np.testing.assert_allclose(logits(quantized, stored), logits(expected), rtol=0, atol=1e-3)


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
@pytest.mark.parametrize("name", ["llama", "qwen2", "V3"])
@pytest.mark.parametrize("how", [{"bits": 4}, {"bits": 8}, {"bits": 4, "desc_act": True}], ids=str)
def test_native_code_runs_them(tmp_path: Path, name: str, isa: str, how: dict[str, Any]) -> None:
    """It rounds activations, and what was reordered has been quantised again: of random weights, 2% or so remain."""
    codes, floats = write_models(
        tmp_path,
        MODELS[name],
        settings=GPTQ | how,
        write=gptq_tensors,
        quantize=quantize(bits=how["bits"], is_symmetric=True, is_shuffled=how.get("desc_act", False)),
    )
    checkpoint, of = open_directory(codes), limits(block_tokens=16)
    executable = CpuBackend(isa, "f32").load(build_program(checkpoint.config), checkpoint.tensors, of)
    found = teacher_forced(executable, of, IDS, chunk_tokens=len(IDS))
    expected = logits(open_directory(floats))
    assert np.square(found - expected).mean() < 0.03**2 * np.square(expected).mean()


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
