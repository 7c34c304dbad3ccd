from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from numpy.typing import NDArray

from tailrace.errors import UnsupportedModel
from tailrace.quantizing.plan import make_plan
from tailrace.quantizing.source import Source, bits, open_source
from tailrace.weights.load import open_checkpoint
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.safetensors import SafetensorsTensor, read_safetensors
from tests.unit.quantizing.test_quantize import write_rounded
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import write_gguf
from tests.unit.weights.quantized.fp8_files import RAGGED, fp8_model


def opened(path: Path) -> Source:
    return open_source(open_checkpoint(str(path)))


@pytest.mark.parametrize("kind", ["gguf", "old gguf", "directory"])
@pytest.mark.parametrize("name", ["MoE-16B", "V3 with MTP"])
def test_every_tensor_of_the_file_has_its_place_and_every_weight_is_read_through_it(
    kind: str, name: str, tmp_path: Path
) -> None:
    config = DEEPSEEK[name]
    if kind == "directory":
        values = write_deepseek(tmp_path / "model", config)
    else:
        values = write_deepseek_gguf(tmp_path / "model", config, is_old=kind == "old gguf")
    source = opened(tmp_path / "model")
    read = source.reader()

    assert set(source.places) == set(source.tensors)
    assert {place.weight for place in source.places.values()} <= set(values)
    for weight in values.keys() - mtp_shapes(config).keys():
        assert np.array_equal(read(weight, 0, len(values[weight])), values[weight]), weight
        assert np.array_equal(read(weight, 1, 3), values[weight][1:3]), weight


@pytest.mark.parametrize(
    ("kind", "width"), [("F32", 32), ("F16", 16), ("BF16", 16), ("Q8_0", 8), ("Q5_1", 5), ("Q4_0", 4), ("MXFP4", 4)]
)
def test_a_type_says_how_wide_values_are_stored(kind: str, width: int, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", kinds={"layers.0.q": GgmlType[kind]})

    assert bits(opened(tmp_path / "model.gguf").tensors["blk.0.attn_q.weight"]) == width


@pytest.mark.parametrize("name", RAGGED)
def test_eight_bit_floats_become_what_the_floats_they_stand_for_become(name: str, tmp_path: Path) -> None:
    model = fp8_model(RAGGED[name])
    model.write(tmp_path / "fp8")
    model.write_floats(tmp_path / "floats")
    for kind in ("fp8", "floats"):
        write_rounded(tmp_path / kind, "int4", tmp_path / f"{kind}-int4")

    files = [read_safetensors(tmp_path / f"{kind}-int4" / "model.safetensors") for kind in ("fp8", "floats")]
    found, expected = ({key: numbers(tensor) for key, tensor in file.items()} for file in files)
    assert set(found) == set(expected)
    assert any(key.endswith("weight_packed") for key in found)
    assert [key for key in found if not np.array_equal(found[key], expected[key])] == []


def numbers(tensor: SafetensorsTensor) -> NDArray[Any]:
    is_float = tensor.stored_format in ("F32", "BF16")
    return tensor.packed().dequantize() if is_float else tensor.bits()


def test_eight_bit_floats_do_not_become_eight_bit_integers(tmp_path: Path) -> None:
    fp8_model(next(iter(RAGGED.values()))).write(tmp_path / "fp8")

    with pytest.raises(UnsupportedModel, match="quantised to 8 bits already: --to int8 would make it no narrower"):
        make_plan(opened(tmp_path / "fp8"), "int8", is_scaling=False)
