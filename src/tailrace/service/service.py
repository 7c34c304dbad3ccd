"""The text side: a client's request to token ids, engine requests for its choices, and their tokens back to text."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tailrace.engine.client import EngineClient
from tailrace.errors import InvalidRequest, UnavailableError
from tailrace.service.api import ChatPrompt, Generation, ModelCard, Prompt, TextPrompt
from tailrace.service.bounds import TextBounds, check_generation
from tailrace.service.chat import ChatTemplate
from tailrace.service.choice import Choice, ChoiceRules
from tailrace.service.context import Context, fit_max_tokens
from tailrace.service.detokenize import TokenTexts
from tailrace.service.prompts import PromptEncoder, check_token_ids, is_long
from tailrace.service.sampling import settled_temperature
from tailrace.service.seeds import choice_seed, draw_seed
from tailrace.service.stop import StopStrings
from tailrace.service.stream import SubmittedChoice, TextStream
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import Request, SamplingParams

__all__ = ["TextService"]


class TextService:
    """A Service over an engine, wherever that runs."""

    def __init__(
        self,
        engine: EngineClient,
        tokenizer: Tokenizer,
        chat: ChatTemplate | None,
        model: ModelCard,
        bounds: TextBounds | None = None,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._model = model
        self._bounds = bounds or TextBounds()
        self._prompts = PromptEncoder(tokenizer, chat, model, max_messages=self._bounds.max_messages)
        self._texts = {skip: TokenTexts(tokenizer.vocabulary, skip_special_tokens=skip) for skip in (False, True)}

    @property
    def model(self) -> ModelCard:
        return self._model

    @property
    def is_ready(self) -> bool:
        return self._engine.is_ready

    async def start(self, generation: Generation) -> TextStream:
        if not self.is_ready:
            raise UnavailableError("the model is not ready; try again in a moment")
        check_generation(generation, self._bounds, self._model.vocab_size)
        context = Context(self._model.max_model_tokens, self._model.is_bound_by_kv)
        prompt_ids = await self._encode(generation.prompt, context)
        prompt_param = "messages" if isinstance(generation.prompt, ChatPrompt) else "prompt"
        sampling = fit_max_tokens(generation.sampling, len(prompt_ids), context, prompt_param)
        echoed = self._prompt_text(generation, prompt_ids) if generation.echo else ""
        submitted = self._submit(generation, prompt_ids, sampling)
        return TextStream(self._engine, submitted, prompt_tokens=len(prompt_ids), echoed=echoed)

    def tokenize(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt, which may be none. Blocks. Raises InvalidRequest."""
        return self._prompts.encode(prompt)

    def token_text(self, token_id: int) -> str:
        return self._tokenizer.token_text(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of ids, special tokens shown. Raises InvalidRequest."""
        check_token_ids(token_ids, self._model.vocab_size, "tokens")
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)

    async def _encode(self, prompt: Prompt, context: Context) -> list[int]:
        encode = self._prompts.encode
        if is_long(prompt, self._bounds.max_inline_chars):
            ids = await asyncio.to_thread(encode, prompt, context)
        else:
            ids = encode(prompt, context)
        if not ids:
            raise InvalidRequest("the prompt is empty: give it at least one token", param="prompt")
        return ids

    def _prompt_text(self, generation: Generation, prompt_ids: Sequence[int]) -> str:
        if isinstance(generation.prompt, TextPrompt):
            return generation.prompt.text
        return self._tokenizer.decode(prompt_ids, skip_special_tokens=generation.skip_special_tokens)

    def _rules(self, generation: Generation, prompt_ids: Sequence[int]) -> ChoiceRules:
        return ChoiceRules(
            texts=self._texts[generation.skip_special_tokens],
            at_start=all(map(self._tokenizer.is_control, prompt_ids)),
            stops=StopStrings(generation.stop) if generation.stop else None,
            include_stop=generation.include_stop,
            stop_token_ids=generation.sampling.stop_token_ids,
            min_tokens=generation.sampling.min_tokens,
        )

    def _submit(
        self, generation: Generation, prompt_ids: Sequence[int], sampling: SamplingParams
    ) -> list[SubmittedChoice]:
        """All choices, or none."""
        rules = self._rules(generation, prompt_ids)
        sampling = replace(sampling, temperature=settled_temperature(sampling.temperature))
        if not sampling.ignore_eos:
            stop_ids = (*sampling.stop_token_ids, *self._prompts.stop_ids(generation.prompt))
            sampling = replace(sampling, stop_token_ids=stop_ids)
        seed = draw_seed() if generation.seed is None else generation.seed
        submitted: list[SubmittedChoice] = []
        try:
            for index in range(generation.n):
                request = Request(
                    request_id=f"{generation.request_id}-{index}",
                    prompt_ids=prompt_ids,
                    sampling=replace(sampling, seed=choice_seed(seed, index)),
                    cache_salt=generation.cache_salt,
                )
                tokens = self._engine.submit(request)
                submitted.append(SubmittedChoice(Choice(index, rules), request.request_id, tokens))
        except BaseException:
            for choice in submitted:
                self._engine.abort(choice.request_id)
            raise
        return submitted
