"""The ledger: a token leaves with the last of its text, and is of the reasoning if its text begins there."""

from tailrace.service.ledger import Ledger
from tailrace.types import TokenEvent
from tests.support.text import byte_level_tokenizer


def ledger_of(*num_chars: int) -> Ledger:
    """Tokens 0, 1 ... of so many characters each."""
    ledger = Ledger(byte_level_tokenizer().vocabulary)
    for token_id, count in enumerate(num_chars):
        ledger.enter(TokenEvent("r", token_id, logprob=-1.0), token_id, 0, count, is_unfinished=False)
    return ledger


def test_a_token_leaves_when_all_of_its_text_is_out() -> None:
    ledger = ledger_of(2, 3, 1)
    ledger.settle(4, 0)
    assert ledger.take_due()[0] == (0,)
    ledger.settle(5, 0)
    assert ledger.take_due()[0] == (1,)
    assert ledger.waiting
    assert ledger.take_all()[0] == (2,)


def test_at_a_stop_a_token_that_is_out_in_part_leaves_too() -> None:
    for certain, token_ids in ((2, (0,)), (3, (0, 1)), (5, (0, 1))):
        ledger = ledger_of(2, 3, 1)
        ledger.settle(certain, 0)
        assert ledger.take_begun()[0] == token_ids


def test_reasoning_tokens_are_those_that_begin_in_it() -> None:
    ledger = ledger_of(2, 3, 1)
    ledger.settle(6, reasoning_end=3)
    _, logprobs = ledger.take_due()
    assert [each.is_reasoning for each in logprobs] == [True, True, False]
    assert ledger.num_reasoning_tokens == 2


def test_tokens_that_pass_by_are_counted_and_have_their_place() -> None:
    ledger = ledger_of()
    ledger.pass_by(2, reasoning_end=3)
    ledger.pass_by(2, reasoning_end=3)
    ledger.pass_by(1, reasoning_end=3)
    assert ledger.num_reasoning_tokens == 2
    ledger.enter(TokenEvent("r", 7, logprob=-1.0), 7, 0, 1, is_unfinished=False)
    _, (logprob,) = ledger.take_all()
    assert logprob.offset == 5
