import numpy as np
import pytest

from benchmarks.quality.methods import measure_all, moved_off_its_grid, parse_arguments
from tailrace.quantizing.forward import Forward
from tailrace.quantizing.source import Source, open_source
from tailrace.weights.load import open_checkpoint

TOKEN_IDS = np.random.default_rng(0).integers(0, 2048, (1, 40))


@pytest.fixture(scope="module")
def tiny() -> Source:
    return open_source(open_checkpoint("tiny-deepseek"))


def test_a_model_moved_off_its_grid_is_the_same_model_in_other_numbers(tiny: Source) -> None:
    moved = moved_off_its_grid(tiny)
    logits = []
    for source in (tiny, moved):
        forward = Forward(TOKEN_IDS, source.reader())
        forward.run(source.program.ops)
        logits.append(forward.tensors[source.program.logits.index])

    assert np.abs(logits[0] - logits[1]).max() < 1e-4 * np.abs(logits[0]).max()
    for weight in ("layers.0.q_b", "layers.1.experts.down", "layers.2.o"):
        before, after = (source.reader()(weight, 0, 8) for source in (tiny, moved))
        assert 0.05 < np.abs(after / np.where(before == 0, np.nan, before) - 1)[before != 0].mean() < 1


def test_a_line_says_what_a_method_costs() -> None:
    arguments = parse_arguments(["--models", "tiny-deepseek", "--methods", "rtn", "--layouts", "GGUF"])
    before, after = measure_all(arguments)

    assert (before.method, after.method, after.layout) == ("before", "rtn", "GGUF")
    assert before.perplexity == pytest.approx(45.525, abs=0.01)  # as transformers finds it
    assert after.perplexity_change == pytest.approx(after.perplexity / before.perplexity - 1)
    assert 0 < after.perplexity_change < 0.03
