"""Any kind of prompt to token ids. Only here is decided whose markup counts: a template's and a raw prompt's own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tailrace.errors import InvalidRequest
from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.api import ChatPrompt, InfillPrompt, ModelCard, Prompt, TextPrompt, TokenPrompt
from tailrace.service.context import Context, check_prompt_length
from tailrace.service.formats.format import ChatFormat
from tailrace.service.infill import find_infill
from tailrace.service.tokenizer import Tokenizer

__all__ = ["EncodedPrompt", "PromptEncoder", "check_token_ids", "is_long"]

_MESSAGE_CHARS = 64  # rendering a message costs about as much as tokenising so many characters
_VALUE_CHARS = 8  # and so does each list, object or number in one


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """Ids, which may be none, and how the answer to them is taken apart."""

    token_ids: list[int]
    form: AnswerForm = ALL_TEXT


class PromptEncoder:
    """Blocking; may run on any thread.

    With `context` given, a prompt that cannot fit is refused before the work is done that its length would cost.
    """

    def __init__(self, tokenizer: Tokenizer, chat: ChatFormat | None, model: ModelCard, *, max_messages: int) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._model = model
        self._infill = find_infill(tokenizer.vocabulary, model.vocab_size)
        self._max_messages = max_messages

    def encode(self, prompt: Prompt, context: Context | None = None) -> EncodedPrompt:
        """Raises InvalidRequest, ContextTooLong."""
        if isinstance(prompt, ChatPrompt):
            return self._encode_chat(prompt, context)
        return EncodedPrompt(self._encode_raw(prompt, context))

    def _encode_raw(self, prompt: TextPrompt | TokenPrompt | InfillPrompt, context: Context | None) -> list[int]:
        if isinstance(prompt, TextPrompt):
            return self._encode_text(prompt, context)
        if isinstance(prompt, InfillPrompt):
            return self._encode_infill(prompt, context)
        if context is not None:
            check_prompt_length(len(prompt.token_ids), context, prompt.param)
        check_token_ids(prompt.token_ids, self._model.vocab_size, prompt.param)
        return list(prompt.token_ids)

    def stop_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Tokens that end the answer to such a prompt, besides those that end every answer."""
        if self._infill is None or not isinstance(prompt, InfillPrompt):
            return ()
        stop_id = self._tokenizer.vocabulary.added.get(self._infill.stop)
        return () if stop_id is None else (stop_id,)

    def _encode_chat(self, prompt: ChatPrompt, context: Context | None) -> EncodedPrompt:
        if self._chat is None:
            raise InvalidRequest(
                f"the model {self._model.name!r} has no chat template; use completions with a prompt instead",
                param=prompt.param,
            )
        if len(prompt.messages) > self._max_messages:
            raise InvalidRequest(
                f"{len(prompt.messages)} messages were given; at most {self._max_messages} can be", param=prompt.param
            )
        encoded = self._chat.encode(prompt)
        self._check_text("".join(encoded.pieces), context, prompt.param)
        token_ids = self._tokenizer.encode_written(encoded.pieces)
        return EncodedPrompt(token_ids, self._chat.answer_form(prompt, encoded.opened))

    def _encode_text(self, prompt: TextPrompt, context: Context | None) -> list[int]:
        self._check_text(prompt.text, context, "prompt")
        ids = self._tokenizer.encode(prompt.text, allow_control=prompt.allow_control)
        return self._begun(ids) if prompt.add_special_tokens else ids

    def _encode_infill(self, prompt: InfillPrompt, context: Context | None) -> list[int]:
        if self._infill is None:
            raise InvalidRequest(
                f"'suffix' is refused: the vocabulary of {self._model.name!r} has no tokens for filling in the middle, "
                "such as <｜fim▁hole｜>; send the prompt alone",
                param="suffix",
                code="unsupported_parameter",
            )
        for text, param in ((prompt.prefix, "prompt"), (prompt.suffix, "suffix")):
            self._check_text(text, context, param)
        ids = self._tokenizer.encode_pieces(self._infill.pieces(prompt.prefix, prompt.suffix))
        return self._begun(ids) if prompt.add_special_tokens else ids

    def _begun(self, ids: list[int]) -> list[int]:
        """With the token in front that begins a text, for models that want it."""
        bos_id = self._tokenizer.bos_id
        wants_bos = self._tokenizer.add_bos and bos_id is not None
        return [bos_id, *ids] if wants_bos and bos_id is not None and ids[:1] != [bos_id] else ids

    def _check_text(self, text: str, context: Context | None, param: str) -> None:
        if context is not None:
            check_prompt_length(self._tokenizer.least_tokens(text), context, param, is_least=True)


def check_token_ids(token_ids: Sequence[int], vocab_size: int, param: str) -> None:
    """Raises InvalidRequest, with the place, for what is no id of the vocabulary."""
    for place, token_id in enumerate(token_ids):
        if type(token_id) is not int:
            raise InvalidRequest(f"{param}: place {place} has a {type(token_id).__name__}, no token id", param=param)
        if not 0 <= token_id < vocab_size:
            raise InvalidRequest(
                f"{param}: token id {token_id} at place {place} is not in the vocabulary, "
                f"whose ids are 0 to {vocab_size - 1}",
                param=param,
            )


def is_long(prompt: Prompt, max_chars: int) -> bool:
    """Whether encoding may be more work than tokenising `max_chars` characters. Looks at no more than decides that."""
    if isinstance(prompt, TextPrompt):
        return len(prompt.text) > max_chars
    if isinstance(prompt, InfillPrompt):
        return len(prompt.prefix) + len(prompt.suffix) > max_chars
    if isinstance(prompt, TokenPrompt):
        return len(prompt.token_ids) > max_chars
    work = 0
    for size in _sizes(prompt):
        work += size
        if work > max_chars:
            return True
    return False


def _sizes(prompt: ChatPrompt) -> Iterator[int]:
    """What each part of a chat costs, in characters of text, however deep it lies."""
    tools = ((tool.name, tool.description, tool.parameters) for tool in prompt.tools)
    ahead: list[Iterator[object]] = [chain((prompt.template_args,), prompt.messages, tools)]
    while ahead:
        for value in ahead[-1]:
            if isinstance(value, str):
                yield len(value)
                continue
            yield _MESSAGE_CHARS if len(ahead) == 1 else _VALUE_CHARS
            if isinstance(value, Mapping | Sequence):
                ahead.append(iter(value.values() if isinstance(value, Mapping) else value))
                break
        else:
            ahead.pop()
