"""DeepSeek's models as they are published, in 8-bit floats: the logits are those of the model that they stand for."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.hf_config import read_config
from tailrace.weights.lazy import LazyTensors
from tests.unit.weights.published_settings import OWN_CLASS
from tests.unit.weights.quantized.fp8_files import AS_PUBLISHED, RAGGED, Fp8Model, fp8_model
from tests.unit.weights.quantized.logits import BACKENDS, as_stored, logits, relative_error
from tests.unit.weights.quantized.raw_files import e4m3, raw

MODELS = {name: fp8_model(config) for name, config in RAGGED.items()}
# Of the root mean square of the logits; 0.036 and 0.053 are measured. The CPU rounds activations beside the weights.
INT8_BOUNDS = {"reference": 0.05, "cpu": 0.08}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Fp8Model:
    return MODELS[request.param]


@pytest.mark.parametrize("backend", BACKENDS)
def test_exact_values_give_the_logits_of_the_float_model(tmp_path: Path, model: Fp8Model, backend: str) -> None:
    model.write(tmp_path / "fp8")
    model.write_floats(tmp_path / "floats")
    has_mtp = model.config.num_mtp_layers > 0
    quantised, floats = (open_directory(tmp_path / name, mtp=has_mtp) for name in ("fp8", "floats"))
    assert quantised.config == floats.config == model.config
    stored, expected = as_stored(quantised), floats.tensors
    assert stored.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(stored[name].dequantize(), expected[name].dequantize())
    found = logits(backend, quantised, stored)
    np.testing.assert_allclose(found, logits("reference", floats, expected), rtol=0, atol=1e-3)


def test_as_loaded_they_are_int8_and_near(tmp_path: Path, model: Fp8Model) -> None:
    model.write(tmp_path / "fp8")
    model.write_floats(tmp_path / "floats")
    quantised, floats = open_directory(tmp_path / "fp8"), open_directory(tmp_path / "floats")
    expected = logits("reference", floats, floats.tensors)
    formats = {name: quantised.tensors[name].format for name in quantised.tensors}
    assert {formats["layers.0.gate"], formats["layers.1.experts.up"], formats["layers.1.v_b"]} == {"q8"}
    assert (formats["embed"], formats["layers.1.router"]) == ("bf16", "bf16")
    assert 0 < max(quantised.requantize_errors.values()) < 0.01
    for backend, bound in INT8_BOUNDS.items():
        assert relative_error(logits(backend, quantised, quantised.tensors), expected) < bound


@pytest.mark.parametrize("name", ["V3", "V3.2"])
@pytest.mark.parametrize("scale_format", [{}, {"scale_fmt": "ue8m0"}])
def test_settings_as_published_are_those_of_the_model(name: str, scale_format: dict[str, str]) -> None:
    settings = OWN_CLASS[name] | {"quantization_config": AS_PUBLISHED | scale_format}
    published = read_config(Fields("config.json", settings), has_head=True)
    assert published == read_config(Fields("config.json", OWN_CLASS[name]), has_head=True)


def test_modules_that_nobody_asks_for_may_have_scales(tmp_path: Path) -> None:
    MODELS["V3 with MTP"].write(tmp_path)
    assert not any(name.startswith("mtp.") for name in open_directory(tmp_path).tensors)


def test_scales_without_codes_are_refused(tmp_path: Path) -> None:
    extra = {"model.layers.0.mlp.extra.weight_scale_inv": raw(np.ones((1, 1), np.float32))}
    MODELS["V3"].write(tmp_path, changed=extra)
    with pytest.raises(UnsupportedModel, match=r"extra\.weight_scale_inv' has no place in a deepseek_v3 model"):
        open_directory(tmp_path)


def test_an_expert_without_its_scale_is_named(tmp_path: Path) -> None:
    missing = "model.layers.2.mlp.experts.7.down_proj.weight_scale_inv"
    MODELS["V3"].write(tmp_path, left_out=(missing,))
    with pytest.raises(CheckpointError, match=rf"experts\.7\.down_proj\.weight' has codes .* '{missing}' is missing"):
        open_directory(tmp_path)


def test_a_damaged_scale_of_an_expert_is_named_when_it_is_read(tmp_path: Path) -> None:
    damaged = "model.layers.2.mlp.experts.7.up_proj.weight_scale_inv"
    MODELS["V3"].write(tmp_path, changed={damaged: raw(np.full((2, 2), np.nan, np.float32))})
    tensors = open_directory(tmp_path).tensors
    with pytest.raises(CheckpointError, match=rf"tensor '{damaged}' holds scales that are not finite"):
        tensors["layers.2.experts.up"]


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_code_that_is_no_number_stops_whoever_reads_it(tmp_path: Path, code: int) -> None:
    """Be it read as a whole or a few rows at a time, narrowed or not."""
    damaged = "model.layers.2.mlp.experts.7.up_proj.weight"
    model = MODELS["V3"]
    codes = model.stored[damaged].array.copy()
    codes[-1, -1] = code
    model.write(tmp_path, changed={damaged: e4m3(codes)})
    tensors = open_directory(tmp_path).tensors
    assert isinstance(tensors, LazyTensors)
    name, reason = "layers.2.experts.up", r"model\.safetensors: tensor 'model\.layers\.2\.mlp\.experts\."
    rows = tensors.stored[name].shape[0]
    with pytest.raises(CheckpointError, match=reason):
        tensors[name]
    with pytest.raises(CheckpointError, match=reason):
        tensors.part(name, rows - 16, rows)
    with pytest.raises(CheckpointError, match=reason):
        tensors.stored[name].packed()
