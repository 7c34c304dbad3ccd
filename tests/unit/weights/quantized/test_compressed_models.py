"""Whole models in the layouts of compressed-tensors: the logits are those of the model that they stand for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.packed import from_float32
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.inspection import inspect_checkpoint
from tests.unit.weights.model_files import TINY
from tests.unit.weights.quantized.compressed_files import LAYOUTS, compressed
from tests.unit.weights.quantized.fp8_files import RAGGED
from tests.unit.weights.quantized.logits import BACKENDS, as_stored, logits, relative_error
from tests.unit.weights.quantized.raw_files import raw

MODELS: dict[str, ModelConfig] = {
    "llama": TINY,
    "V3 with MTP": RAGGED["V3 with MTP"],
    "V3.2": RAGGED["V3.2"],
}
NEAR = (
    0.04  # of the root mean square of logits, as loaded; 0.025 is the most that was measured, with activations rounded
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_values_give_the_logits_of_the_float_model(tmp_path: Path, model: str, layout: str) -> None:
    written = compressed(MODELS[model], LAYOUTS[layout])
    written.write(tmp_path / "codes")
    written.write_floats(tmp_path / "floats")
    quantised, floats = (open_directory(tmp_path / name, mtp="MTP" in model) for name in ("codes", "floats"))
    assert quantised.config == floats.config
    stored, expected = as_stored(quantised), floats.tensors
    assert stored.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(stored[name].dequantize(), expected[name].dequantize())
    known = logits("reference", floats, expected)
    np.testing.assert_allclose(logits("reference", quantised, stored), known, rtol=0, atol=1e-3)
    # Beside packed weights the CPU rounds activations: without, it must be as near.
    as_floats = {
        name: tensor if tensor.scales is None else from_float32(tensor.dequantize()) for name, tensor in stored.items()
    }
    np.testing.assert_allclose(logits("cpu", quantised, as_floats), known, rtol=0, atol=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_packed_format_holds_is_loaded_as_it_is(tmp_path: Path, layout: str) -> None:
    written = compressed(RAGGED["V3"], LAYOUTS[layout])
    written.write(tmp_path)
    gate = next(part for part in inspect_checkpoint(open_directory(tmp_path)).tensors if part.name == "experts.gate")
    ((word, loaded, count),) = gate.formats
    assert word.startswith(layout[:4].upper()) or word == "F8_E4M3"
    if LAYOUTS[layout].is_exact:
        assert (loaded, count, gate.requantize_error) == ("q4" if word in ("INT4", "INT3") else "q8", 2, None)
    else:
        assert (loaded, count) == ("q8", 2)
        assert gate.requantize_error is not None
        assert 0 < gate.requantize_error < 0.01


@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_loaded_models_are_near(tmp_path: Path, layout: str) -> None:
    written = compressed(TINY, LAYOUTS[layout])
    written.write(tmp_path / "codes")
    written.write_floats(tmp_path / "floats")
    quantised, floats = open_directory(tmp_path / "codes"), open_directory(tmp_path / "floats")
    expected = logits("reference", floats, floats.tensors)
    errors = {backend: relative_error(logits(backend, quantised, quantised.tensors), expected) for backend in BACKENDS}
    assert (errors["reference"] < 1e-5) is LAYOUTS[layout].is_exact
    assert max(errors.values()) < NEAR


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_table_of_embeddings_may_be_quantised_its_own_way(tmp_path: Path, is_tied: bool) -> None:
    config = replace(TINY, tie_word_embeddings=is_tied)
    written = compressed(config, LAYOUTS["int4"], embed=LAYOUTS["int8"])
    written.write(tmp_path / "codes")
    written.write_floats(tmp_path / "floats")
    quantised, floats = open_directory(tmp_path / "codes"), open_directory(tmp_path / "floats")
    assert quantised.config == floats.config == config
    assert (quantised.tensors["embed"].format, quantised.tensors["layers.0.q"].format) == ("q8", "q4")
    assert ("head" in quantised.tensors) is not is_tied
    known = logits("reference", floats, floats.tensors)
    np.testing.assert_allclose(logits("reference", quantised, quantised.tensors), known, rtol=0, atol=1e-3)


def test_parts_of_modules_that_nobody_asks_for_are_no_strangers(tmp_path: Path) -> None:
    written = compressed(RAGGED["V3 with MTP"], LAYOUTS["int4, asymmetric"])
    written.write(tmp_path)
    assert not any(name.startswith("mtp.") for name in open_directory(tmp_path).tensors)
    written.write(tmp_path, changed={"model.layers.0.mlp.extra.weight_scale": raw(np.ones((1, 1), np.float32))})
    with pytest.raises(UnsupportedModel, match=r"extra\.weight_scale' has no place in a deepseek_v3 model"):
        open_directory(tmp_path)


def test_a_matrix_of_another_size_than_the_config_says_is_named(tmp_path: Path) -> None:
    written = compressed(TINY, LAYOUTS["int4"])
    written.settings["intermediate_size"] = 128
    written.write(tmp_path)
    with pytest.raises(CheckpointError, match=r"weight_packed' has shape \[96, 64\], the config asks for \[128, 64\]"):
        open_directory(tmp_path)


def test_another_reading_of_the_same_codes_is_another_model(tmp_path: Path) -> None:
    written = compressed(TINY, LAYOUTS["int8"])
    written.write(tmp_path)
    first = open_directory(tmp_path).fingerprint
    written.quantization["config_groups"]["group_0"]["weights"] = {**LAYOUTS["int8"].weights, "symmetric": True}
    written.write(tmp_path)
    assert open_directory(tmp_path).fingerprint != first
