"""Any kind of prompt to token ids. Only here is decided whose markup counts: a template's and a raw prompt's own."""

from collections.abc import Sequence

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt, ModelCard, Prompt, TextPrompt
from tailrace.service.chat import ChatTemplate
from tailrace.service.tokenizer import Tokenizer

__all__ = ["PromptEncoder", "check_token_ids"]


class PromptEncoder:
    """Blocking; may run on any thread."""

    def __init__(self, tokenizer: Tokenizer, chat: ChatTemplate | None, model: ModelCard) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._model = model

    def encode(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt, which may be none. Raises InvalidRequest."""
        if isinstance(prompt, ChatPrompt):
            return self._encode_chat(prompt)
        if isinstance(prompt, TextPrompt):
            return self._encode_text(prompt)
        check_token_ids(prompt.token_ids, self._model.vocab_size, "prompt")
        return list(prompt.token_ids)

    def _encode_chat(self, prompt: ChatPrompt) -> list[int]:
        if self._chat is None:
            raise InvalidRequest(
                f"the model {self._model.name!r} has no chat template; use completions with a prompt instead",
                param="messages",
            )
        guard = self._tokenizer.new_guard()
        return self._tokenizer.encode_guarded(self._chat.render(prompt, guard), guard)

    def _encode_text(self, prompt: TextPrompt) -> list[int]:
        ids = self._tokenizer.encode(prompt.text, allow_control=prompt.allow_control)
        bos_id = self._tokenizer.bos_id
        wants_bos = prompt.add_special_tokens and self._tokenizer.add_bos and bos_id is not None
        return [bos_id, *ids] if wants_bos and bos_id is not None and ids[:1] != [bos_id] else ids


def check_token_ids(token_ids: Sequence[int], vocab_size: int, param: str) -> None:
    """Raises InvalidRequest, with the place, for an id outside the vocabulary."""
    for place, token_id in enumerate(token_ids):
        if not 0 <= token_id < vocab_size:
            raise InvalidRequest(
                f"{param}: token id {token_id} at place {place} is not in the vocabulary, "
                f"whose ids are 0 to {vocab_size - 1}",
                param=param,
            )
