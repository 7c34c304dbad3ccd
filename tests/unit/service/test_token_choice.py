"""A choice whose reader wants tokens alone: each leaves at once, and it ends as one with text does."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.service.answer_form import ALL_TEXT
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.parsing.build import machine_factory
from tailrace.service.token_choice import TokenChoice
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import FinishReason, TokenEvent, TokenLogprob
from tests.support.text import byte_level_tokenizer, events_of

EOS = 2


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return byte_level_tokenizer()


def rules(
    tokenizer: Tokenizer, stop: Sequence[str] = (), *, stop_token_ids: tuple[int, ...] = (), min_tokens: int = 0
) -> ChoiceRules:
    machine = machine_factory(None, "", ALL_TEXT, stop, include_stop=False)
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=True)
    return ChoiceRules(texts, machine=machine, stop_token_ids=stop_token_ids, min_tokens=min_tokens)


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, allow_control=False)


def test_a_part_of_a_character_leaves_at_once(tokenizer: Tokenizer) -> None:
    ids = ids_of(tokenizer, "é")
    choice = TokenChoice(0, rules(tokenizer))
    for event in events_of(ids):
        (delta,) = choice.feed([event])
        assert (delta.token_ids, delta.text) == ((event.token_id,), "")


def test_no_events_are_no_delta(tokenizer: Tokenizer) -> None:
    assert TokenChoice(0, rules(tokenizer)).feed([]) == ()


def test_the_token_that_completes_a_stop_string_is_the_last(tokenizer: Tokenizer) -> None:
    ids = [token_id for character in "some END of" for token_id in ids_of(tokenizer, character)]
    choice = TokenChoice(0, rules(tokenizer, ["END"]))
    (delta,) = choice.feed(events_of(ids))
    assert (delta.finish_reason, delta.stop_reason) == (FinishReason.STOP, "END")
    assert delta.token_ids == tuple(ids[: len("some END")])
    assert choice.is_done


def test_no_stop_string_ends_an_answer_that_is_too_short(tokenizer: Tokenizer) -> None:
    ids = [token_id for character in "END, END" for token_id in ids_of(tokenizer, character)]
    (delta,) = TokenChoice(0, rules(tokenizer, ["END"], min_tokens=3)).feed(events_of(ids))
    assert len(delta.token_ids) == len(ids)


@given(data=st.data())
def test_it_ends_when_and_why_one_with_text_does(tokenizer: Tokenizer, data: st.DataObject) -> None:
    text = data.draw(st.text(st.sampled_from("abé"), max_size=12))
    stops = data.draw(st.lists(st.text(st.sampled_from("abé"), min_size=1, max_size=3), max_size=2, unique=True))
    ids = [token_id for character in text for token_id in ids_of(tokenizer, character)]
    events = [*events_of(ids), TokenEvent("r", EOS, finish_reason=FinishReason.STOP)]
    fixed = rules(tokenizer, stops, stop_token_ids=(EOS,))
    with_text, without = Choice(0, fixed), TokenChoice(0, fixed)
    for event in events:
        ends = [choice.feed([event]) for choice in (with_text, without)]
        reasons = [(end[-1].finish_reason, end[-1].stop_reason) if end else None for end in ends]
        assert reasons[0] in (reasons[1], None)
        assert with_text.is_done == without.is_done
        if without.is_done:
            break
    assert with_text.num_tokens == without.num_tokens


def test_log_probabilities_come_with_ids(tokenizer: Tokenizer) -> None:
    event = TokenEvent("r", 5, logprob=-0.5, top_logprobs=(TokenLogprob(6, -1.5),))
    (delta,) = TokenChoice(0, rules(tokenizer)).feed([event])
    (logprob,) = delta.logprobs
    assert (logprob.token_id, logprob.logprob) == (5, -0.5)
    assert [(each.token_id, each.logprob) for each in logprob.top] == [(6, -1.5)]


def test_an_error_ends_it(tokenizer: Tokenizer) -> None:
    (delta,) = TokenChoice(3, rules(tokenizer)).feed(
        [TokenEvent("r", None, finish_reason=FinishReason.ERROR, error="broken")]
    )
    assert (delta.index, delta.token_ids, delta.error) == (3, (), "broken")
