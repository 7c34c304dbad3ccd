"""Tokens on their way in: what is certain with each, and which are still waiting."""

from collections.abc import Sequence

from tailrace.service.answer_form import AnswerForm
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.parsing.segments import AnswerPiece, ReasoningPiece
from tailrace.service.token_reader import TokenReader
from tailrace.types import FinishReason, TokenEvent
from tests.support.text import byte_level_tokenizer

TOKENIZER = byte_level_tokenizer()
EOS = 2


def reader(stop: Sequence[str] = (), *, opened: str = "", has_form: bool = True, min_tokens: int = 0) -> TokenReader:
    form = AnswerForm("any" if has_form else "", opened)
    return TokenReader(
        ChoiceRules(
            TokenTexts(TOKENIZER.vocabulary, skip_special_tokens=True),
            machine=machine_factory(ReasoningTags(), "", form, stop, include_stop=False),
            min_tokens=min_tokens,
        )
    )


def token(text: str) -> TokenEvent:
    return TokenEvent("r", next(i for i in range(TOKENIZER.vocab_size) if TOKENIZER.token_bytes(i) == text.encode()))


def id_of(text: str) -> int:
    token_id = token(text).token_id
    assert token_id is not None
    return token_id


def test_text_of_an_answer_without_a_form_comes_as_text() -> None:
    plain = reader(has_form=False)
    assert plain.read_text(id_of("hello")) == "hello"
    assert plain.num_tokens == 1
    assert plain.read_plain(token("hello"), id_of("hello")) is None
    assert reader().read_text(id_of("hello")) is None


def test_half_a_character_is_not_plain() -> None:
    half = TOKENIZER.encode("é", allow_control=False)[0]
    for has_form in (False, True):
        read = reader(has_form=has_form)
        assert read.read_text(half) is None
        assert read.read_plain(TokenEvent("r", half), half) is None
        assert read.num_tokens == 0
        assert read.read(TokenEvent("r", half), half) == []
        assert read.finish() == [AnswerPiece("\ufffd")]


def test_plain_tokens_go_through_the_machine() -> None:
    read = reader(opened="<think>\n")
    assert read.read_plain(token("hello"), id_of("hello")) == [ReasoningPiece("hello")]
    assert not read.ledger.waiting
    assert read.read_plain(token("<"), id_of("<")) == []
    assert len(read.ledger.waiting) == 1
    assert read.read_plain(token("h"), id_of("h")) is None  # it has to wait behind the other
    assert read.read(token("h"), id_of("h")) == [ReasoningPiece("<h")]
    assert read.ledger.take_due()[0] == (id_of("<"), id_of("h"))
    assert read.ledger.num_reasoning_tokens == 3


def test_the_token_that_ends_an_answer_has_no_text() -> None:
    read = reader()
    assert read.read(token("h")._replace(finish_reason=FinishReason.STOP), id_of("h")) == []
    assert read.ledger.take_due()[0] == (id_of("h"),)


def test_a_stop_string_counts_behind_the_least_number_of_tokens() -> None:
    for has_form in (False, True):
        read = reader(["h"], has_form=has_form, min_tokens=1)
        assert read.read_plain(token("h"), id_of("h")) == [AnswerPiece("h")]
        assert read.matched is None
        assert read.read_plain(token("h"), id_of("h")) == []
        assert read.matched == "h"
