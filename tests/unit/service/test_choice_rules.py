"""Rules of a generation: whose text is taken apart, and which tokens are hidden then."""

from dataclasses import replace

from tailrace.service.api import AnswerForm, ChatPrompt, SettledGeneration, Standing
from tailrace.service.choice_rules import RuleBook
from tailrace.service.formats.format import ChatFormat, EncodedChat, ReasoningTags
from tailrace.types import SamplingParams
from tests.support.text import byte_level_tokenizer

SETTLED = SettledGeneration(
    request_id="r",
    prompt_ids=(1,),
    sampling=SamplingParams(max_tokens=5, min_tokens=2),
    seed=0,
    n=1,
    is_text_wanted=True,
    stop=(),
    include_stop=False,
    skip_special_tokens=True,
    stop_token_ids=(3,),
    echoed="",
    cache_salt="",
    standing=Standing(),
)
THINKING = replace(SETTLED, form=AnswerForm("thinker"))


class NoEncoder:
    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        return EncodedChat(())


THINKER = ChatFormat("thinker", NoEncoder(), ReasoningTags("<|im_start|>", "<|im_end|>"))


def book() -> RuleBook:
    return RuleBook(byte_level_tokenizer().vocabulary, THINKER)


def test_rules_are_those_of_the_generation() -> None:
    rules = book().rules(SETTLED, at_start=True)
    assert (rules.at_start, rules.min_tokens, rules.stop_token_ids, rules.request_id) == (True, 2, (3,), "r")


def test_only_an_answer_with_a_form_is_taken_apart() -> None:
    assert book().rules(SETTLED, at_start=False).machine is None
    assert book().rules(THINKING, at_start=False).machine is not None
    assert RuleBook(byte_level_tokenizer().vocabulary).rules(THINKING, at_start=False).machine is None


def test_markup_is_hidden_only_where_it_is_none() -> None:
    start = byte_level_tokenizer().vocabulary.added["<|im_start|>"]
    assert book().rules(SETTLED, at_start=False).texts.text(start) == ""
    assert book().rules(THINKING, at_start=False).texts.text(start) == "<|im_start|>"


def test_token_texts_are_shared_by_generations() -> None:
    rules = book()
    assert rules.rules(SETTLED, at_start=False).texts is rules.rules(SETTLED, at_start=True).texts
