from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType

from benchmarks.quality.methods import measure_all, parse_arguments, turned
from tailrace.ops.packed import quantize_int4
from tailrace.quantizing.forward import Forward
from tailrace.quantizing.source import open_source
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.model_files import TINY, write_gguf


def test_a_turned_model_is_the_same_model_in_other_numbers(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", replace(TINY, tie_word_embeddings=True), kinds={"layers.0.q": GgmlType.Q4_1})
    checkpoint = open_checkpoint(str(tmp_path / "model.gguf"))
    before, after = open_source(checkpoint), turned(checkpoint)
    logits = []
    for source in (before, after):
        forward = Forward(np.random.default_rng(0).integers(0, 48, (1, 40)), source.reader())
        forward.run(source.program.ops)
        logits.append(forward.tensors[source.program.logits.index])

    assert np.abs(logits[0] - logits[1]).max() < 1e-2 * np.abs(logits[0]).max()  # what is turned is kept as float16
    values = after.reader()("layers.0.q", 0, 64)
    assert np.abs(quantize_int4(values).dequantize() - values).mean() > 0.01 * np.abs(values).mean()
    stored = before.reader()("layers.0.q", 0, 64)
    assert np.abs(quantize_int4(stored).dequantize() - stored).mean() < 0.01 * np.abs(stored).mean()


def test_a_line_says_what_a_method_costs() -> None:
    arguments = parse_arguments(["--models", "tiny-deepseek", "--methods", "rtn", "--layouts", "GGUF"])
    before, after = measure_all(arguments)

    assert (before.method, after.method, after.layout) == ("before", "rtn", "GGUF")
    assert before.perplexity == pytest.approx(45.525, abs=0.01)  # as transformers finds it
    assert after.perplexity_change == pytest.approx(after.perplexity / before.perplexity - 1)
    assert 0 < after.perplexity_change < 0.03
