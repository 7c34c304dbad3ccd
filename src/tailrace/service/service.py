"""The text side: a client's request to token ids, engine requests for its choices, and their tokens back to text."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Protocol

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.engine.client import EngineClient, ObservePieces, TokenFeed
from tailrace.errors import InvalidRequest
from tailrace.service.api import (
    AnswerForm,
    ChatPrompt,
    Generation,
    Journal,
    Milestones,
    ModelCard,
    Output,
    Prompt,
    SettledGeneration,
    Standing,
    TextPrompt,
)
from tailrace.service.bounds import TextBounds, check_answer_tokens, check_generation, check_guided
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import RuleBook
from tailrace.service.context import Context, fit_max_tokens
from tailrace.service.formats.format import ChatFormat
from tailrace.service.guide_tokens import guide_vocabulary
from tailrace.service.guided import GuideMaker, Wanted, wants_guide
from tailrace.service.prompts import EncodedPrompt, PromptEncoder, check_token_ids, is_long
from tailrace.service.resume import NO_TOKENS, JournaledTokens, TokensGoOn
from tailrace.service.sampling import settled_temperature
from tailrace.service.seeds import choice_seed, draw_seed
from tailrace.service.stream import SubmittedChoice, TextStream
from tailrace.service.token_choice import TokenChoice
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import (
    BlockTarget,
    Explanation,
    Guide,
    Invalidated,
    ModelTarget,
    PromptTarget,
    Request,
    SamplingParams,
    Target,
    TenantTarget,
    packed,
)

__all__ = ["PromptWatcher", "TextService"]

_MAX_GUIDE_THREADS = 2


class PromptWatcher(Protocol):
    """Somebody who learns from the prompts that pass by."""

    def arrives(self, salt: str, token_ids: Sequence[int]) -> None:
        """A user's prompt is about to be submitted."""
        ...

    def forget(self, target: Target) -> None:
        """This is about to be forgotten by the cache."""
        ...


class TextService:
    """A Service over an engine, wherever that runs."""

    def __init__(
        self,
        engine: EngineClient,
        tokenizer: Tokenizer,
        chat: ChatFormat | None,
        model: ModelCard,
        bounds: TextBounds | None = None,
        *,
        classes: Callable[[], ServiceClasses] = lambda: STANDARD,
        watcher: PromptWatcher | None = None,
        observe_text: ObservePieces | None = None,
    ) -> None:
        """`observe_text` is told of some pieces of answers how long it took until they were text."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._model = model
        self._bounds = bounds or TextBounds()
        self._classes = classes
        self._watcher = watcher
        self._observe_text = observe_text
        self._prompts = PromptEncoder(tokenizer, chat, model, max_messages=self._bounds.max_messages)
        self._rules = RuleBook(tokenizer.vocabulary, chat)
        self._chat = chat
        vocabulary = guide_vocabulary(tokenizer, model.eos_ids, model.vocab_size)
        self._guides = GuideMaker(vocabulary, tokenizer.markup_ids.get)
        # Of their own: grammars that take long hold up others, but nobody's prompt.
        self._guide_threads = ThreadPoolExecutor(_MAX_GUIDE_THREADS, thread_name_prefix="tailrace-grammars")

    @property
    def model(self) -> ModelCard:
        return self._model

    @property
    def is_ready(self) -> bool:
        return self._engine.is_ready

    @property
    def classes(self) -> ServiceClasses:
        return self._classes()

    async def start(self, generation: Generation) -> TextStream:
        return await self.start_journaled(generation, None)

    async def start_journaled(self, generation: Generation, journal: Journal | None) -> TextStream:
        """As `start`; the journal, if there is one, learns of all that the stream is given."""
        check_generation(generation, self._bounds, self._model.vocab_size)
        check_answer_tokens(generation, self._bounds, self._model.max_model_tokens)
        self._check_class(generation.standing)
        settled = await self._settle(generation)
        if self._watcher is not None:
            self._watcher.arrives(settled.cache_salt, settled.prompt_ids)
        return self._open(settled, [Output()] * settled.n, journal, generation.milestones)

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> TextStream:
        """The whole answer, of which the outputs need no computing."""
        self._check_class(settled.standing)
        return self._open(settled, outputs, journal, milestones)

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        encoded = await self._encode(prompt, self._context)
        return await self._engine.explain(packed(encoded.token_ids), cache_salt)

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        return await self._forget(target)

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        encoded = await self._encode(prompt, self._context)
        return await self._forget(PromptTarget(packed(encoded.token_ids), cache_salt))

    def tokenize(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt, which may be none. Blocks. Raises InvalidRequest."""
        return self._prompts.encode(prompt).token_ids

    def token_text(self, token_id: int) -> str:
        return self._tokenizer.token_text(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of ids, special tokens shown. Raises InvalidRequest."""
        check_token_ids(token_ids, self._model.vocab_size, "tokens")
        return self._tokenizer.decode(token_ids, skip_special_tokens=False)

    def _check_class(self, standing: Standing) -> None:
        if standing.class_name and standing.class_name not in self._classes():
            names = ", ".join(each.name for each in self._classes())
            raise InvalidRequest(
                f"there is no service class {standing.class_name[:64]!r}, but {names}", param="service_class"
            )

    async def _forget(self, target: Target) -> Invalidated:
        if self._watcher is not None:
            self._watcher.forget(target)
        return await self._engine.invalidate(target)

    @property
    def _context(self) -> Context:
        return Context(self._model.max_model_tokens, self._model.is_bound_by_kv)

    async def _encode(self, prompt: Prompt, context: Context) -> EncodedPrompt:
        encode = self._prompts.encode
        if is_long(prompt, self._bounds.max_inline_chars):
            encoded = await asyncio.to_thread(encode, prompt, context)
        else:
            encoded = encode(prompt, context)
        if not encoded.token_ids:
            raise InvalidRequest("the prompt is empty: give it at least one token", param="prompt")
        return encoded

    def _prompt_text(self, generation: Generation, prompt_ids: Sequence[int]) -> str:
        if isinstance(generation.prompt, TextPrompt):
            return generation.prompt.text
        return self._tokenizer.decode(prompt_ids, skip_special_tokens=generation.skip_special_tokens)

    async def _settle(self, generation: Generation) -> SettledGeneration:
        """The generation with its prompt as token ids, and with all that depends on it, the context or chance."""
        context = self._context
        encoded = await self._encode(generation.prompt, context)
        if generation.milestones is not None:
            generation.milestones.tokenised_s = time.monotonic()
        prompt_ids = packed(encoded.token_ids)
        prompt_param = generation.prompt.param if isinstance(generation.prompt, ChatPrompt) else "prompt"
        sampling = fit_max_tokens(
            generation.sampling,
            len(prompt_ids),
            context,
            prompt_param,
            ends_with_context=generation.ends_with_context,
        )
        sampling = replace(sampling, temperature=settled_temperature(sampling.temperature))
        if not sampling.ignore_eos:
            stop_ids = (*sampling.stop_token_ids, *self._prompts.stop_ids(generation.prompt))
            sampling = replace(sampling, stop_token_ids=stop_ids)
        guide = await self._guide(generation, encoded.form, sampling)
        return SettledGeneration(
            request_id=generation.request_id,
            prompt_ids=prompt_ids,
            sampling=sampling,
            seed=draw_seed() if generation.seed is None else generation.seed,
            n=generation.n,
            is_text_wanted=generation.is_text_wanted,
            stop=generation.stop,
            include_stop=generation.include_stop,
            skip_special_tokens=generation.skip_special_tokens,
            stop_token_ids=generation.sampling.stop_token_ids,
            echoed=self._prompt_text(generation, prompt_ids) if generation.echo else "",
            cache_salt=generation.cache_salt,
            standing=generation.standing,
            form=encoded.form,
            guide=guide,
            trace=generation.trace,
        )

    async def _guide(self, generation: Generation, form: AnswerForm, sampling: SamplingParams) -> Guide | None:
        """What the answer has to follow, if anything. Raises InvalidRequest for what cannot be followed."""
        wanted = _wanted(generation, self._chat, form)
        if not wants_guide(wanted):
            return None
        check_guided(sampling)
        make = partial(self._guides.make, wanted, sampling.max_tokens)
        return await asyncio.get_running_loop().run_in_executor(self._guide_threads, make)

    def _open(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal | None,
        milestones: Milestones | None,
    ) -> TextStream:
        submitted_s = time.monotonic()
        submitted = self._submit(settled, outputs, journal)
        if milestones is not None:
            milestones.submitted_s = submitted_s
        if journal is not None:
            journal.begin(settled, outputs)
        return TextStream(
            self._engine,
            submitted,
            prompt_tokens=len(settled.prompt_ids),
            echoed=settled.echoed,
            milestones=milestones,
            observe_text=self._observe_text,
        )

    def _submit(
        self, settled: SettledGeneration, outputs: Sequence[Output], journal: Journal | None
    ) -> list[SubmittedChoice]:
        """All choices, or none."""
        rules = self._rules.rules(settled, at_start=all(map(self._tokenizer.is_control, settled.prompt_ids)))
        kind = Choice if settled.is_text_wanted else TokenChoice
        submitted: list[SubmittedChoice] = []
        try:
            for index, output in enumerate(outputs):
                request = _request(settled, index, output)
                tokens = self._tokens(request, output)
                if journal is not None:
                    tokens = JournaledTokens(tokens, index, journal)
                if before := output.events(request.request_id):
                    tokens = TokensGoOn(before, tokens)
                submitted.append(SubmittedChoice(kind(index, rules), request.request_id, tokens))
        except BaseException:
            for choice in submitted:
                self._engine.abort(choice.request_id)
            raise
        return submitted

    def _tokens(self, request: Request, output: Output) -> TokenFeed:
        """What the engine has to say behind the output."""
        return self._engine.submit(request) if output.finish_reason is None else NO_TOKENS


def _request(settled: SettledGeneration, index: int, output: Output) -> Request:
    """What the engine is asked for choice `index`, of which it has said `output` before."""
    standing = settled.standing
    return Request(
        request_id=f"{settled.attempt_id}-{index}",
        prompt_ids=settled.prompt_ids,
        sampling=replace(settled.sampling, seed=choice_seed(settled.seed, index)),
        cache_salt=settled.cache_salt,
        output_ids=output.token_ids,
        class_name=standing.class_name,
        tenant=standing.tenant,
        ttft_s=standing.ttft_s,
        itl_s=standing.itl_s,
        queue_ttl_s=standing.queue_ttl_s,
        guide=settled.guide,
        trace=settled.trace,
    )


def _wanted(generation: Generation, chat: ChatFormat | None, form: AnswerForm) -> Wanted:
    prompt, output_format = generation.prompt, generation.output_format
    if chat is None or not isinstance(prompt, ChatPrompt):
        return Wanted(output_format)
    return Wanted(output_format, prompt.tools, prompt.tool_choice, chat.reasoning, chat.tool_style, form.opened)
