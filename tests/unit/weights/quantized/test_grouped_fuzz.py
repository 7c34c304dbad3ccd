"""AWQ and GPTQ directories that make no sense: an error of ours or a model, never a crash, and never much memory."""

import contextlib
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import ModelError
from tailrace.weights.hf_checkpoint import open_directory
from tests.unit.weights.model_files import TINY
from tests.unit.weights.quantized.grouped_files import awq_tensors, compose, gptq_tensors, grouped, write_models

CONFIG = replace(TINY, num_layers=1)
METHODS: dict[str, Any] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
    "gptq": {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 32,
        "desc_act": False,
        "sym": True,
        "checkpoint_format": "gptq",
        "dynamic": {r".*\.up_proj": {"bits": 4}},
        "pack_dtype": "int32",
        "is_marlin_format": False,
    },
}
WRITERS = {"awq": awq_tensors, "gptq": gptq_tensors}
MUCH_BYTES = 64 << 20
RULES = st.dictionaries(
    st.text(".*+?()[]^$|{}q\\1-:", max_size=8), st.sampled_from([None, {}, {"bits": 8}, 7]), max_size=2
)
WRONG = st.one_of(
    st.sampled_from([None, True, False, "", "gptq_v2", "gemm", [], {}, [1], {"a": 1}]),
    st.sampled_from([0, -1, 1, 2, 3, 8, 16, 31, 64, 1 << 31, 1 << 62]),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    RULES,
)


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    method = request.param
    path, _ = write_models(
        tmp_path_factory.mktemp("fuzz"),
        CONFIG,
        settings=METHODS[method],
        write=WRITERS[method],
        quantize=lambda module, shape, seed: grouped(*shape, is_symmetric=True, seed=seed),
    )
    return path


@given(data=st.data())
@settings(max_examples=100)
def test_settings_that_make_no_sense(model: Path, data: st.DataObject) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    method = METHODS[config["quantization_config"]["quant_method"]]
    wrong = data.draw(st.dictionaries(st.sampled_from(sorted(method.keys() - {"quant_method"})), WRONG, min_size=1))
    config["quantization_config"] = method | wrong
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with contextlib.suppress(ModelError):
        checkpoint = open_directory(model)
        assert all(np.isfinite(checkpoint.tensors[name].dequantize()).all() for name in checkpoint.tensors)


SHAPES = st.one_of(st.just(()), st.lists(st.sampled_from([0, 1, 2, 8, 16, 64]), max_size=3).map(tuple))
DTYPES = st.sampled_from(["int32", "int64", "uint8", "float16", "float32"])


@given(data=st.data(), method=st.sampled_from(sorted(METHODS)), is_reordered=st.booleans())
@settings(max_examples=200)
def test_parts_that_do_not_fit(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, method: str, is_reordered: bool
) -> None:
    tensors = {f"x.{part}": array for part, array in WRITERS[method](grouped(16, 64)).items()}
    for name in data.draw(st.lists(st.sampled_from(sorted(tensors)), min_size=1, max_size=2, unique=True)):
        match data.draw(st.sampled_from(["missing", "reshaped", "converted", "noise"])):
            case "missing":
                del tensors[name]
            case "reshaped":
                tensors[name] = np.zeros(data.draw(SHAPES), tensors[name].dtype)
            case "converted":
                tensors[name] = np.zeros(tensors[name].shape, data.draw(DTYPES))
            case _:
                noise = data.draw(st.binary(min_size=tensors[name].nbytes, max_size=tensors[name].nbytes))
                tensors[name] = np.frombuffer(noise, tensors[name].dtype).reshape(tensors[name].shape)
    path = tmp_path_factory.mktemp("parts") / "model.safetensors"
    tracemalloc.start()
    with contextlib.suppress(ModelError), np.errstate(all="ignore"):
        for matrix in compose(path, METHODS[method] | {"desc_act": is_reordered}, tensors).values():
            values = matrix.packed().dequantize()
            assert np.isfinite(values).all()
            np.testing.assert_array_equal(values, matrix.rows(0, matrix.shape[0]))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < MUCH_BYTES
