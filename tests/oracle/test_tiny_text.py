"""What DeepSeek's architectures write, greedily and through the whole engine, against transformers."""

import pytest

from tailrace.records import RequestRecord
from tailrace.types import Request, SamplingParams
from tailrace.weights.load import open_checkpoint
from tests.engine.harness import Harness, make_harness
from tests.support.oracle import TinyModel, greedy_models


@pytest.fixture(params=greedy_models())
def tiny(request: pytest.FixtureRequest) -> TinyModel:
    return TinyModel.read(request.param)


def engine(tiny: TinyModel, *, budget_tokens: int = 64) -> Harness:
    checkpoint = open_checkpoint(str(tiny.directory))
    return make_harness(
        checkpoint, backend="reference", max_model_tokens=80, budget_tokens=budget_tokens, kv_memory_bytes=4 << 20
    )


def asking(tiny: TinyModel, name: str, num_known: int = 0) -> Request:
    """A request for the text, or for what follows its first tokens."""
    left = len(tiny.greedy_ids) - num_known
    prompt_ids = (*tiny.prompt_ids, *tiny.greedy_ids[:num_known])
    return Request(name, prompt_ids, SamplingParams(max_tokens=left, temperature=0.0, ignore_eos=True))


def test_greedy_text_is_that_of_transformers(tiny: TinyModel) -> None:
    assert len(tiny.greedy_ids) == 64

    assert engine(tiny).run([asking(tiny, "alone")])["alone"] == tiny.greedy_ids


def test_greedy_text_is_the_same_in_chunks_and_in_company(tiny: TinyModel) -> None:
    sampling = SamplingParams(max_tokens=30, seed=5, ignore_eos=True)
    others = [Request(f"other {n}", tuple(tiny.token_ids[n:]), sampling) for n in range(1, 4)]
    answers = engine(tiny, budget_tokens=7).run([*others, asking(tiny, "ours")])

    assert answers["ours"] == tiny.greedy_ids


def test_greedy_text_is_the_same_behind_a_cached_prefix(tiny: TinyModel) -> None:
    harness = engine(tiny)
    harness.run([asking(tiny, "first")])
    answers = harness.run([asking(tiny, "again", num_known=40)])
    (record,) = (each for each in harness.records if isinstance(each, RequestRecord) and each.request_id == "again")

    assert record.num_cached_tokens == record.num_prompt_tokens - 1  # the last block but for one row, which is computed
    assert answers["again"] == tiny.greedy_ids[40:]
