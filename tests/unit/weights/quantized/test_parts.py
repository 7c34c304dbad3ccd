"""Modules of several tensors become one matrix each; what else a file holds is left as it is."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.quantized.parts import Parts, compose_modules
from tailrace.weights.safetensors import SafetensorsTensor
from tests.unit.weights.quantized.raw_files import raw, read_back

CODES, SCALES = raw(np.zeros((4, 8), np.int32)), raw(np.ones((1, 8), np.float16))


def test_each_module_is_a_matrix_and_keeps_its_bias(tmp_path: Path) -> None:
    own = ("qweight", "scales", "qzeros", "g_idx")
    names = [*(f"a.q.{part}" for part in (*own, "bias")), "a.norm.weight", "b.qweight", "b.scales"]
    tensors = read_back(tmp_path / "m.safetensors", {name: CODES if "qweight" in name else SCALES for name in names})
    seen: dict[str, Parts] = {}

    def matrix(module: str, parts: Parts) -> SafetensorsTensor:
        seen[module] = parts
        return parts.codes

    composed = compose_modules(tensors, matrix)
    assert composed.keys() == {"a.q.weight", "a.q.bias", "a.norm.weight", "b.weight"}
    assert seen["a.q"] == Parts(*(tensors[f"a.q.{part}"] for part in own))
    assert seen["b"] == Parts(tensors["b.qweight"], tensors["b.scales"], None, None)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("x.qweight",), r"'x\.qweight' needs tensor 'x\.scales', which is missing"),
        (("x.scales",), r"'x\.scales' belongs to tensor 'x\.qweight', which is missing"),
        (("x.qweight", "x.scales", "x.weight"), r"'x\.qweight' is there, and so is 'x\.weight'"),
    ],
)
def test_parts_that_do_not_make_a_module_are_named(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    tensors = read_back(tmp_path / "m.safetensors", {name: CODES if "qweight" in name else SCALES for name in names})
    with pytest.raises(CheckpointError, match=reason):
        compose_modules(tensors, lambda _module, parts: parts.codes)
