from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tailrace.ops.reference_math import Array
from tailrace.quantizing.calibration import Layer, calibrated
from tailrace.quantizing.forward import Forward
from tailrace.quantizing.gptq import Gptq
from tailrace.quantizing.grid import Grid
from tailrace.quantizing.plan import Target, make_plan
from tailrace.quantizing.rounding import nearest
from tailrace.quantizing.source import Source, open_source
from tailrace.weights.load import open_checkpoint
from tailrace.weights.stored import FileTensor
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import write_directory, write_gguf

TOKEN_IDS = np.random.default_rng(0).integers(0, 48, (3, 40))


class Watching:
    """Rounds to nearest, and keeps what it saw."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def quantize(self, layer: Layer) -> dict[str, FileTensor]:
        self.layers.append(layer)
        tensors = layer.source.tensors
        return {name: nearest(tensors[name], grid) for name, grid in layer.targets.items() if isinstance(grid, Grid)}


def run(source: Source, plan: Mapping[str, Target], method: Watching | Gptq) -> list[tuple[str, FileTensor]]:
    return list(calibrated(source, plan, TOKEN_IDS, method, lambda *_: None))


def write(kind: str, name: str, path: Path) -> Source:
    if name == "llama":
        write_gguf(path) if kind == "gguf" else write_directory(path)
    elif kind == "directory":
        write_deepseek(path, DEEPSEEK[name])
    else:
        write_deepseek_gguf(path, DEEPSEEK[name], is_old=kind == "old gguf")
    return open_source(open_checkpoint(str(path)))


@pytest.mark.parametrize("name", ["llama", "V3 with MTP", "V2-Lite"])
@pytest.mark.parametrize("kind", ["gguf", "old gguf", "directory"])
def test_tensors_come_in_the_order_of_the_plan_and_every_matrix_with_its_inputs(
    kind: str, name: str, tmp_path: Path
) -> None:
    source = write(kind, name, tmp_path / "model")
    plan, method = make_plan(source, "int4", is_scaling=False), Watching()
    made = run(source, plan, method)

    assert [name for name, _ in made] == list(plan)
    for layer in method.layers:
        for file_name in (name for name, grid in layer.targets.items() if isinstance(grid, Grid)):
            place, width = source.places[file_name], source.tensors[file_name].shape[-1]
            rows = [layer.inputs.get((place.weight, place.first + number)) for number in range(place.count)]
            assert place.is_table or "experts" in file_name or "exps" in file_name or None not in [*map(type, rows)]
            assert all(part.shape[1] == width for part in rows if part is not None)
            assert place.is_table or any(part is not None for part in rows) or place.role.startswith("experts")


def test_a_layer_sees_what_the_quantised_layers_before_it_give(tmp_path: Path) -> None:
    source = write("gguf", "llama", tmp_path / "model.gguf")
    plan, method = make_plan(source, "int4", is_scaling=False), Watching()
    made = dict(run(source, plan, method))

    seen: dict[tuple[str, int], Array] = {}
    forward = Forward(TOKEN_IDS, source.reader(made), {})
    forward.observe = lambda weight, matrix, rows: seen.update({(weight, matrix): rows})
    forward.run(source.program.ops)
    last = next(layer for layer in method.layers if ("layers.1.q", 0) in layer.inputs)
    np.testing.assert_allclose(last.inputs["layers.1.q", 0], seen["layers.1.q", 0], atol=1e-5)


@pytest.mark.parametrize("kind", ["gguf", "old gguf", "directory"])
def test_gptq_brings_outputs_of_every_matrix_nearer(kind: str, tmp_path: Path) -> None:
    source = write(kind, "V3", tmp_path / "model")
    plan, watching, method = make_plan(source, "int4", is_scaling=False), Watching(), Gptq()
    near, fed = dict(run(source, plan, watching)), dict(run(source, plan, method))

    compared = 0
    for layer in watching.layers[:2]:  # behind the first layer the two methods see other inputs
        for name in (name for name, grid in layer.targets.items() if isinstance(grid, Grid)):
            place, tensor = source.places[name], source.tensors[name]
            inputs = layer.inputs.get((place.weight, place.first))
            if place.is_table or place.count > 1 or inputs is None:
                continue
            values = tensor.as_matrix().rows(0, tensor.as_matrix().shape[0])
            errors = [
                np.square(inputs @ (values - made[name].packed().dequantize().reshape(values.shape)).T).sum()
                for made in (fed, near)
            ]
            assert errors[0] <= errors[1], name
            compared += 1
    assert compared >= 6
    assert method.num_unfed > 0  # experts that few tokens chose
    assert method.notes[0].startswith(f"{method.num_unfed} matrices were given fewer than 32 rows")
