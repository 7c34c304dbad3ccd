from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tailrace.quantizing.awq import Awq, Taker, best_scales
from tailrace.quantizing.calibration import calibrated
from tailrace.quantizing.folding import Fold
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO, Grid
from tailrace.quantizing.plan import make_plan
from tailrace.quantizing.quantize import Job
from tailrace.quantizing.source import open_source
from tailrace.weights.gguf import read_gguf
from tailrace.weights.load import open_checkpoint
from tests.unit.quantizing.test_quantize import quantized
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import write_gguf

RNG = np.random.default_rng(9)
INPUTS = RNG.normal(size=(100, 64)).astype(np.float32)
INPUTS[:, [3, 40]] *= 30  # what little of which must be lost
VALUES = RNG.normal(size=(24, 64)).astype(np.float32)
TOKEN_IDS = np.random.default_rng(0).integers(0, 48, (4, 60))
PLAIN = Fold(64, (("norm", 0),), (("matrix", 0),), np.arange(64))


@pytest.mark.parametrize("grid", [INT4, INT4_WITH_ZERO])
def test_large_inputs_are_scaled_up_and_outputs_come_nearer(grid: Grid) -> None:
    taker = Taker(VALUES, grid, INPUTS, 1.0)
    scales = best_scales([taker], PLAIN)

    assert scales[[3, 40]].min() > 1.5 * np.delete(scales, [3, 40]).max()
    assert taker.cost(scales) < 0.5 * taker.cost(np.ones(64, np.float32))


def test_the_cost_is_the_distance_of_the_outputs() -> None:
    scales = RNG.uniform(0.5, 2, 64).astype(np.float32)
    expected = 0.0
    for row in VALUES:  # a row and a group at a time
        made = np.empty(64)
        for begin in (0, 32):
            group = (row * scales)[begin : begin + 32]
            low, step = np.float16(group.min()), np.float16((group.max() - group.min()) / np.float32(15))
            codes = np.clip(np.rint((group - np.float32(low)) / np.float32(step)), 0, 15)
            made[begin : begin + 32] = (codes * float(step) + float(low)) / scales[begin : begin + 32]
        expected += np.square(INPUTS @ (made - row)).sum()

    assert Taker(VALUES, INT4, INPUTS, 2.5).cost(scales) == pytest.approx(2.5 * expected, rel=1e-4)


def test_columns_that_take_one_number_share_its_scale() -> None:
    halved = Fold(32, (("v", 0),), (("o", 0),), np.concatenate([np.arange(32), np.arange(32)]))
    inputs = INPUTS.copy()
    inputs[:, 40] /= 30  # number 8 of the second half; number 3 stays large in the first
    taker = Taker(VALUES, INT4, inputs, 1.0)
    scales = best_scales([taker], halved)

    assert scales.shape == (32,)
    assert scales.argmax() == 3
    assert taker.cost(scales[halved.columns]) <= taker.cost(np.ones(64, np.float32))


def test_never_is_a_scale_taken_that_costs_more_than_none() -> None:
    inputs = RNG.normal(size=(100, 64)).astype(np.float32)
    for seed in range(5):
        values = np.random.default_rng(seed).normal(size=(8, 64)).astype(np.float32)
        taker = Taker(values, INT4, inputs, 1.0)
        assert taker.cost(best_scales([taker], PLAIN)) <= taker.cost(np.ones(64, np.float32))


@pytest.mark.parametrize("write", [write_deepseek, write_deepseek_gguf])
def test_every_matrix_is_rounded_and_few_rows_are_told_of(write: Callable[..., object], tmp_path: Path) -> None:
    write(tmp_path / "model", DEEPSEEK["V3"])
    source = open_source(open_checkpoint(str(tmp_path / "model")))
    plan, method = make_plan(source, "int4", is_scaling=True), Awq()
    made = dict(calibrated(source, plan, TOKEN_IDS, method, lambda *_: None))

    assert list(made) == list(plan)
    assert all(made[name].stored_format in ("q4", "q8") for name, grid in plan.items() if isinstance(grid, Grid))
    assert method.num_unfed > 0  # experts that few tokens chose
    assert method.notes[0].startswith(f"{method.num_unfed} inputs of matrices had fewer than 32 rows of the text")


def test_what_is_scaled_and_not_rounded_is_kept_as_float32(tmp_path: Path) -> None:
    write_gguf(tmp_path / "in.gguf", metadata={"tokenizer.ggml.merges": None})
    text = tmp_path / "text.txt"
    text.write_text("abcdefghijkl" * 200)
    report = quantized(tmp_path / "in.gguf", Job("int4", "awq", text, held_out_tokens=0), tmp_path / "out.gguf")

    types = {name: info.type.name for name, info in read_gguf(tmp_path / "out.gguf").tensors.items()}
    assert types["blk.0.attn_norm.weight"] == "F32"
    assert types["blk.0.ffn_up.weight"] == "Q4_1"
    assert report.calibration_tokens > 1000
