"""What all choices of one generation have in common, and how it follows from what the model's format says."""

from collections.abc import Callable
from dataclasses import dataclass

from tailrace.service.answer_form import AnswerForm
from tailrace.service.api import SettledGeneration
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ChatFormat
from tailrace.service.parsing.build import machine_factory, markup_strings
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.vocabulary import Vocabulary

__all__ = ["ChoiceRules", "RuleBook"]


@dataclass(frozen=True, slots=True)
class ChoiceRules:
    """`machine` makes what takes a choice's text apart; None: all of it is answer, and nothing stops it.

    The ids of calls are made of `request_id`.
    """

    texts: TokenTexts
    at_start: bool = False  # no text comes before the answer
    machine: Callable[[], TextMachine] | None = None
    include_stop: bool = False
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0  # no stop string may end in the text of so many tokens
    request_id: str = ""


class RuleBook:
    """Rules for generations of one model, whose answers to conversations have the markup of `chat_format`."""

    def __init__(self, vocabulary: Vocabulary, chat_format: ChatFormat | None = None) -> None:
        self._vocabulary = vocabulary
        self._tags = None if chat_format is None else chat_format.reasoning
        self._tool_style = "" if chat_format is None else chat_format.tool_style
        self._texts: dict[tuple[bool, tuple[str, ...]], TokenTexts] = {}

    def rules(self, settled: SettledGeneration, *, at_start: bool) -> ChoiceRules:
        return ChoiceRules(
            texts=self._token_texts(settled.form, skip_special_tokens=settled.skip_special_tokens),
            at_start=at_start,
            machine=machine_factory(
                self._tags, self._tool_style, settled.form, settled.stop, include_stop=settled.include_stop
            ),
            include_stop=settled.include_stop,
            stop_token_ids=settled.stop_token_ids,
            min_tokens=settled.sampling.min_tokens,
            request_id=settled.request_id,
        )

    def _token_texts(self, form: AnswerForm, *, skip_special_tokens: bool) -> TokenTexts:
        markup = markup_strings(self._tags, self._tool_style, form)
        key = skip_special_tokens, markup
        if key not in self._texts:
            texts = TokenTexts(self._vocabulary, skip_special_tokens=skip_special_tokens, markup=markup)
            self._texts[key] = texts
        return self._texts[key]
