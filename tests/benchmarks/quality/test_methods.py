from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType

from benchmarks.quality.methods import measure_all, moved_off_its_grid, parse_arguments
from tailrace.ops.packed import quantize_int4
from tailrace.quantizing.source import open_source
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.model_files import write_gguf


def test_values_are_moved_by_half_a_step_of_their_grid_at_most(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", kinds={"layers.0.up": GgmlType.Q4_1})
    source = open_source(open_checkpoint(str(tmp_path / "model.gguf")))
    moved = moved_off_its_grid(source)

    stored = source.tensors["blk.0.ffn_up.weight"].packed()
    before, after = stored.dequantize(), moved.tensors["blk.0.ffn_up.weight"].packed().dequantize()
    assert stored.scales is not None
    steps = np.abs(after - before) / np.repeat(stored.scales.astype(np.float32), 32, axis=1)
    assert 0.49 < steps.max() < 0.51
    assert steps.mean() == pytest.approx(0.25, abs=0.01)
    rounded_again = quantize_int4(after).dequantize()
    assert np.abs(rounded_again - after).mean() > 0.1 * np.abs(after - before).mean()
    assert moved.tensors["blk.0.ffn_down.weight"] is source.tensors["blk.0.ffn_down.weight"]


def test_a_line_says_what_a_method_costs() -> None:
    arguments = parse_arguments(["--models", "tiny-deepseek", "--methods", "rtn", "--layouts", "GGUF"])
    before, after = measure_all(arguments)

    assert (before.method, after.method, after.layout) == ("before", "rtn", "GGUF")
    assert before.perplexity == pytest.approx(45.525, abs=0.01)  # as transformers finds it
    assert after.perplexity_change == pytest.approx(after.perplexity / before.perplexity - 1)
    assert 0 < after.perplexity_change < 0.03
