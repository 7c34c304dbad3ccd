"""Quantised files that make no sense: an error of ours that names what is wrong, or a model; never a crash."""

import contextlib
import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.errors import CheckpointError, ModelError
from tailrace.weights.fields import Fields
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.safetensors import read_safetensors
from tailrace.weights.scheme import read_scheme
from tests.unit.weights.deepseek_files import deepseek_settings
from tests.unit.weights.model_files import TINY, hugging_face_settings
from tests.unit.weights.quantized.compressed_files import LAYOUTS, compressed
from tests.unit.weights.quantized.fp8_files import AS_PUBLISHED, RAGGED, fp8_model
from tests.unit.weights.quantized.raw_files import Raw, raw, write_raw, write_raw_directory

MUCH_BYTES = 64 << 20
WRONG = st.one_of(
    st.sampled_from([None, True, "", "int", "re:(a+)+", [], {}, [1], ["Linear"], ["re:("], {"a": 1}, {"a": {}}]),
    st.sampled_from([0, -1, 1, 3, 7, 32, 1 << 14, 1 << 31, 1 << 62, 1e-300, 0.5, "pack-quantized", "channel", "16x32"]),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.recursive(st.none() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3), max_leaves=4),
)

Model = tuple[dict[str, Raw], dict[str, Any]]


def fp8() -> Model:
    return fp8_model(RAGGED["V3"]).stored, dict(AS_PUBLISHED)


def of_layout(name: str) -> Callable[[], Model]:
    def model() -> Model:
        written = compressed(TINY, LAYOUTS[name])
        return written.stored, written.quantization

    return model


MODELS: dict[str, Callable[[], Model]] = {"DeepSeek": fp8, **{name: of_layout(name) for name in LAYOUTS}}


@pytest.fixture(scope="module", params=MODELS)
def parts(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def directory(parts: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound one; its weights and settings are changed, and put back."""
    path = tmp_path_factory.mktemp("fuzz") / "tiny"
    tensors, quantization = parts
    config = deepseek_settings(RAGGED["V3"]) if quantization["quant_method"] == "fp8" else hugging_face_settings(TINY)
    write_raw_directory(path, config | {"quantization_config": quantization}, tensors)
    return path


def sound(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    return found


def read_all(directory: Path) -> None:
    """Raises what is no error of ours."""
    checkpoint = open_directory(directory)
    for name in checkpoint.tensors:
        assert np.isfinite(checkpoint.tensors[name].dequantize()).all()


def changed_at(settings: Any, path: tuple[str, ...], value: object) -> Any:
    if not path:
        return value
    return {**settings, path[0]: changed_at(settings.get(path[0]) or {}, path[1:], value)}


def paths(settings: Mapping[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Of every setting, and of those that are tables what is in them."""
    found = [(*before, key) for key in settings]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found += paths(value, (*before, key))
    return found


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wrong_settings_end_in_an_error_of_ours_or_in_a_model(directory: Path, data: st.DataObject) -> None:
    kept = sound(directory)
    asked = ["weight_block_size", "fmt", "transform_config", "sparsity_config", "kv_cache_scheme"]
    places = paths(kept["quantization_config"]) + [(key,) for key in asked]
    wrong = kept["quantization_config"]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3, unique=True)):
        with contextlib.suppress(AttributeError, TypeError):  # what is no table any more has no entries
            wrong = changed_at(wrong, place, data.draw(WRONG))
    (directory / "config.json").write_text(json.dumps(kept | {"quantization_config": wrong}), encoding="utf-8")
    try:
        with contextlib.suppress(ModelError):
            read_all(directory)
    finally:
        (directory / "config.json").write_text(json.dumps(kept), encoding="utf-8")


def opened(path: Path, tensors: Mapping[str, Raw], quantization: Mapping[str, Any]) -> None:
    """All that stands in a file, read through its scheme."""
    write_raw(path, tensors)
    scheme = read_scheme(Fields("config.json", {"quantization_config": quantization}))
    for tensor in scheme.compose(read_safetensors(path)).values():
        tensor.check()
        assert np.isfinite(tensor.packed().dequantize()).all()


def module_of(tensors: Mapping[str, Raw]) -> str:
    """One that is quantised."""
    return next(name for name in tensors if "_scale" in name).rpartition(".")[0]


SPOILT: dict[str, Callable[[Raw], Raw]] = {
    "another dtype": lambda part: raw(np.zeros(part.array.shape, np.float64)),
    "one row less": lambda part: Raw(part.dtype, part.array[:-1] if part.array.ndim else part.array.reshape(1, 1, 1)),
    "another dimension": lambda part: Raw(part.dtype, part.array[None, None, None]),
    "no values": lambda part: Raw(part.dtype, part.array.reshape(-1)[:0]),
    "too few bytes": lambda part: Raw(part.dtype, np.zeros(part.array.shape, "V7")),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_part_of_a_matrix_is_named(directory: Path, parts: Model, how: str) -> None:
    tensors, _ = parts
    path = directory / "model.safetensors"
    module = module_of(tensors)
    for name in [name for name in tensors if name.startswith(f"{module}.")]:
        write_raw(path, tensors | {name: SPOILT[how](tensors[name])})
        with pytest.raises(ModelError, match=rf"{module}\.") as caught:
            read_all(directory)
        assert "\n" not in str(caught.value)
        assert str(directory) in str(caught.value)
    write_raw(path, tensors)


def test_a_missing_part_of_a_matrix_is_named(tmp_path: Path, parts: Model) -> None:
    tensors, quantization = parts
    module = module_of(tensors)
    for name in [name for name in tensors if name.startswith(f"{module}.") and not name.endswith(("packed", "weight"))]:
        left = {other: tensor for other, tensor in tensors.items() if other != name}
        with pytest.raises(CheckpointError, match=rf"tensor '{module}\.weight.* is missing"):
            opened(tmp_path / "model.safetensors", left, quantization)


def test_scales_that_are_no_numbers_are_named(tmp_path: Path, parts: Model) -> None:
    """Where they are numbers: exponents have one code for none, 8-bit floats two."""
    tensors, quantization = parts
    name = next(name for name in tensors if name.endswith(("weight_scale", "weight_scale_inv")))
    wrong = {"F32": np.nan, "BF16": 0x7F80, "F8_E4M3": 0xFF, "U8": 0xFF}[tensors[name].dtype]
    array = tensors[name].array.copy()
    array[-1, -1] = wrong
    with pytest.raises(CheckpointError, match=rf"tensor '{name}' holds scales that are not finite, or too large"):
        opened(tmp_path / "model.safetensors", tensors | {name: Raw(tensors[name].dtype, array)}, quantization)


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_ends_in_an_error_of_ours_or_in_finite_values(
    tmp_path: Path, parts: Model, data: st.DataObject
) -> None:
    tensors, quantization = parts
    path = tmp_path / "model.safetensors"
    write_raw(path, tensors)
    content = bytearray(path.read_bytes())
    head = int.from_bytes(content[:8], "little")
    place = st.integers(8, 8 + head - 1) | st.integers(8 + head, len(content) - 1)
    for where, value in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=6)):
        content[where] = value
    path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) - 7]))])
    with contextlib.suppress(ModelError), np.errstate(all="ignore"):
        scheme = read_scheme(Fields("config.json", {"quantization_config": quantization}))
        for name, tensor in scheme.compose(read_safetensors(path)).items():
            tensor.check()
            values = tensor.packed().dequantize()
            assert values.shape == tensor.shape
            assert np.isfinite(values).all() or tensor.stored_format in ("F32", "F16", "BF16"), name


@pytest.mark.parametrize("size", [1 << 12, 1 << 19, 1 << 20])
def test_sizes_out_of_all_reason_take_no_memory(directory: Path, size: int) -> None:
    kept = sound(directory)
    wrong = kept["quantization_config"] | {"weight_block_size": [size, size]}
    for group in wrong.get("config_groups", {}).values():
        group["weights"] |= {"group_size": size} if group["weights"].get("group_size") else {}
        group["weights"] |= {"block_structure": [size, 1]} if group["weights"].get("block_structure") else {}
    (directory / "config.json").write_text(json.dumps(kept | {"quantization_config": wrong}), encoding="utf-8")
    tracemalloc.start()
    try:
        with contextlib.suppress(ModelError):
            read_all(directory)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        (directory / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    assert peak_bytes < MUCH_BYTES
