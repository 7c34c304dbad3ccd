"""A run counts only when it did all that was asked."""

import pytest

from benchmarks.peers.engine import EngineUnavailable, Load, checked
from tailrace.bench.prompts import PromptSet
from tests.benchmarks.peers.scripted import BY_NAME, report

W1 = BY_NAME["W1"]
LOAD = Load(W1, PromptSet([], is_exact=True), seed=0)


def test_a_whole_run_counts() -> None:
    whole = report(W1)
    assert checked(LOAD, whole) is whole


def test_answers_that_end_early_do_not_compare() -> None:
    with pytest.raises(EngineUnavailable, match="gave 1023 tokens where 1024"):
        checked(LOAD, report(W1, lost_tokens=1))


def test_another_tokenizer_does_not_compare() -> None:
    with pytest.raises(EngineUnavailable, match="saw 1032 tokens of prompts where 1024"):
        checked(LOAD, report(W1, prompt_tokens=129))


def test_failed_requests_do_not_compare() -> None:
    with pytest.raises(EngineUnavailable, match=r"'http_503': 8.*busy"):
        checked(LOAD, report(W1, error="busy"))
