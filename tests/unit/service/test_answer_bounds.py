import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.api import Generation, TextPrompt
from tailrace.service.bounds import TextBounds, check_answer_tokens
from tailrace.types import SamplingParams

CONTEXT = 100


def check(n: int, max_tokens: int, most: int | None) -> None:
    generation = Generation("r", TextPrompt("x"), SamplingParams(max_tokens=max_tokens), n=n)
    check_answer_tokens(generation, TextBounds(max_answer_tokens=most), CONTEXT)


@pytest.mark.parametrize(("n", "max_tokens"), [(1, 60), (6, 10), (60, 1)])
def test_choices_count_together(n: int, max_tokens: int) -> None:
    check(n, max_tokens, 60)
    check(n, max_tokens, None)
    with pytest.raises(InvalidRequest, match="more than the 59") as refused:
        check(n, max_tokens, 59)
    assert refused.value.param == "max_tokens"


@pytest.mark.parametrize("max_tokens", [0, 10**9])
def test_what_is_left_to_the_context_counts_as_all_of_it(max_tokens: int) -> None:
    check(2, max_tokens, 2 * CONTEXT)
    with pytest.raises(InvalidRequest, match="2 choices of 100 tokens"):
        check(2, max_tokens, 2 * CONTEXT - 1)
