"""The text side as front ends use it, over an engine that plays a script."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from tailrace.engine.stream import EventStream
from tailrace.errors import (
    ContextTooLong,
    InvalidRequest,
    Overloaded,
    RefusalReason,
    RequestError,
    UnavailableError,
)
from tailrace.service.api import (
    ChatPrompt,
    ChoiceDelta,
    Generation,
    GenerationStream,
    ModelCard,
    Prompt,
    Service,
    Standing,
    TextPrompt,
    TokenPrompt,
    Tool,
    Usage,
)
from tailrace.service.bounds import TextBounds
from tailrace.service.context import Context
from tailrace.service.formats.registry import detect_format
from tailrace.service.prompts import EncodedPrompt, PromptEncoder
from tailrace.service.seeds import choice_seed
from tailrace.service.service import TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import (
    BlockTarget,
    Explanation,
    FinishReason,
    Invalidated,
    Level,
    MissReason,
    PrefixReport,
    PromptTarget,
    Refusal,
    Request,
    SamplingParams,
    Target,
    TenantTarget,
    TokenEvent,
    packed,
)
from tests.support.following import make_life
from tests.support.text import (
    ScriptedEngine,
    byte_level_tokenizer,
    byte_level_vocabulary,
    chunked,
    events_of,
    sentencepiece_tokenizer,
)

CHAT = detect_format("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}", byte_level_tokenizer())
PROMPT = TextPrompt("hello")
SAMPLING = SamplingParams(max_tokens=8)
MODEL = ModelCard("tiny", (), created_s=0, max_model_tokens=100, vocab_size=300)


def _says(tokenizer: Tokenizer, *texts: str, batch: int = 1) -> ScriptedEngine:
    """An engine whose choice number i says texts[i]."""

    def script(request: Request) -> Sequence[tuple[TokenEvent, ...]]:
        text = texts[int(request.request_id.rpartition("-")[2])]
        ids = tokenizer.encode(text, allow_control=False)
        return list(chunked(events_of(ids, request_id=request.request_id), [batch] * len(ids)))

    return ScriptedEngine(script)


def _service(
    engine: ScriptedEngine, tokenizer: Tokenizer | None = None, bounds: TextBounds | None = None
) -> TextService:
    return TextService(engine, tokenizer or byte_level_tokenizer(), CHAT, MODEL, bounds)


def _generation(prompt: Prompt = PROMPT, sampling: SamplingParams = SAMPLING) -> Generation:
    return Generation("r", prompt, sampling)


async def _read(stream: GenerationStream) -> list[ChoiceDelta]:
    return [delta async for delta in stream]


def _text(deltas: Sequence[ChoiceDelta], index: int = 0) -> str:
    return "".join(delta.text for delta in deltas if delta.index == index)


def test_it_is_a_service() -> None:
    service: Service = _service(_says(byte_level_tokenizer(), "x"))
    assert service.model.name == "tiny"
    assert service.is_ready


async def test_an_answer_streams_and_is_counted() -> None:
    tokenizer = byte_level_tokenizer()
    stream = await _service(_says(tokenizer, "the 😀 hello")).start(_generation())
    deltas = await _read(stream)
    assert _text(deltas) == "the 😀 hello"
    assert deltas[-1].finish_reason is FinishReason.LENGTH
    num_tokens = len(tokenizer.encode("the 😀 hello", allow_control=False))
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens, stream.usage.cached_tokens) == (
        1,
        num_tokens,
        3,
    )
    assert stream.usage.total_tokens == num_tokens + 1


async def test_each_choice_is_computed_in_the_span_that_answers() -> None:
    engine, trace = _says(byte_level_tokenizer(), "hello", "the"), f"00-{'1' * 32}-{'2' * 16}-01"
    await _read(await _service(engine).start(replace(_generation(), n=2, trace=trace)))
    assert [request.trace for request in engine.submitted] == [trace, trace]


async def test_choices_share_the_prompt_and_have_seeds_of_their_own() -> None:
    engine = _says(byte_level_tokenizer(), "hello", "the", "x")
    stream = await _service(engine).start(replace(_generation(), n=3, seed=7, cache_salt="salt"))
    deltas = await _read(stream)
    assert [_text(deltas, index) for index in range(3)] == ["hello", "the", "x"]
    assert [request.request_id for request in engine.submitted] == ["r-0", "r-1", "r-2"]
    assert [request.sampling.seed for request in engine.submitted] == [choice_seed(7, i) for i in range(3)]
    assert {request.cache_salt for request in engine.submitted} == {"salt"}
    assert stream.usage.prompt_tokens == 1
    assert stream.usage.completion_tokens == 3
    assert engine.aborted == []


async def test_without_a_seed_every_request_draws_one() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    for _ in range(2):
        await _read(await _service(engine).start(_generation()))
    assert engine.submitted[0].sampling.seed != engine.submitted[1].sampling.seed


async def test_choices_are_merged_as_they_arrive() -> None:
    engine = _says(byte_level_tokenizer(), "abcd", "ABCD")
    deltas = await _read(await _service(engine).start(replace(_generation(), n=2)))
    assert [delta.index for delta in deltas[:4]] == [0, 1, 0, 1]


async def test_a_refused_choice_takes_the_others_back() -> None:
    engine = _says(byte_level_tokenizer(), "x", "x", "x")
    engine.refuse_after, engine.refusal = 2, Overloaded("full", retry_after_s=1.0)
    with pytest.raises(Overloaded):
        await _service(engine).start(replace(_generation(), n=3))
    assert engine.aborted == ["r-0", "r-1"]


async def test_a_stop_string_ends_the_engine_request() -> None:
    engine = _says(byte_level_tokenizer(), "abcdef", "xyz")
    stream = await _service(engine).start(replace(_generation(), n=2, stop=("cd",)))
    deltas = await _read(stream)
    assert (_text(deltas, 0), _text(deltas, 1)) == ("ab", "xyz")
    assert [delta.stop_reason for delta in deltas if delta.finish_reason] == [None, "cd"]
    assert (engine.stopped, engine.aborted) == (["r-0"], [])
    assert stream.usage.completion_tokens == 4 + 3


async def test_a_stop_string_in_the_last_token_needs_no_abort() -> None:
    engine = _says(byte_level_tokenizer(), "abcd")
    await _read(await _service(engine).start(replace(_generation(), stop=("cd",))))
    assert (engine.stopped, engine.aborted) == ([], [])


@pytest.mark.parametrize("n", [1, 2])
async def test_closing_a_stream_aborts_what_is_left(n: int) -> None:
    engine = _says(byte_level_tokenizer(), "abcdef", "abcdef")
    stream = await _service(engine).start(replace(_generation(), n=n))
    async for _ in stream:
        break
    await stream.aclose()
    assert set(engine.aborted) == {f"r-{index}" for index in range(n)}


async def test_closing_a_stream_that_nobody_read_aborts_it() -> None:
    engine = _says(byte_level_tokenizer(), "abc")
    await (await _service(engine).start(_generation())).aclose()
    assert engine.aborted == ["r-0"]


async def test_closing_a_finished_stream_aborts_nothing() -> None:
    engine = _says(byte_level_tokenizer(), "abc")
    stream = await _service(engine).start(_generation())
    await _read(stream)
    await stream.aclose()
    assert engine.aborted == []


async def test_a_stream_can_be_closed_while_another_task_reads_it() -> None:
    engine = _Silent()
    stream = await TextService(engine, byte_level_tokenizer(), None, MODEL).start(_generation())
    reader = asyncio.create_task(_read(stream))
    await asyncio.sleep(0)
    await stream.aclose()
    assert [delta.finish_reason for delta in await reader] == [FinishReason.ABORT]


async def test_a_reader_that_is_cancelled_aborts_what_it_read() -> None:
    engine = _Silent()
    stream = await TextService(engine, byte_level_tokenizer(), None, MODEL).start(_generation())
    reader = asyncio.create_task(_read(stream))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert engine.aborted == ["r-0"]


class _Silent:
    """An engine that says nothing until it is told to abort."""

    is_ready = True
    received_s = 0.0
    max_model_tokens = 100

    def __init__(self) -> None:
        self.stream = EventStream()
        self.aborted: list[str] = []

    def submit(self, request: Request) -> EventStream:
        return self.stream

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        self.aborted.append(request_id)
        self.stream.push(TokenEvent(request_id, None, finish_reason=FinishReason.ABORT))

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        raise UnavailableError("there is no cache")

    async def invalidate(self, target: Target) -> Invalidated:
        raise UnavailableError("there is no cache")


@pytest.mark.parametrize("n", [1, 2])
async def test_an_error_event_is_passed_on(n: int) -> None:
    def script(request: Request) -> Sequence[tuple[TokenEvent, ...]]:
        return [(TokenEvent(request.request_id, None, finish_reason=FinishReason.ERROR, error="lost"),)]

    deltas = await _read(await _service(ScriptedEngine(script)).start(replace(_generation(), n=n)))
    assert [(delta.finish_reason, delta.error) for delta in deltas] == [(FinishReason.ERROR, "lost")] * n


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("n", [1, 2])
async def test_a_choice_that_the_engine_turns_away_is_a_refusal_of_all(n: int, *, echo: bool) -> None:
    refusal = Refusal(RefusalReason.QUEUE_TIMEOUT, "it waited", 3.0)

    def script(request: Request) -> Sequence[tuple[TokenEvent, ...]]:
        if request.request_id == f"r-{n - 1}":
            return [(TokenEvent(request.request_id, None, finish_reason=FinishReason.ERROR, refusal=refusal),)]
        return list(chunked(events_of([5, 6], request_id=request.request_id), [1, 1]))

    engine = ScriptedEngine(script)
    stream = await _service(engine).start(replace(_generation(), n=n, echo=echo))
    with pytest.raises(Overloaded, match="it waited") as refused:
        await _read(stream)
    assert (refused.value.reason, refused.value.code) == (RefusalReason.QUEUE_TIMEOUT, "queue_timeout")
    assert refused.value.retry_after_s == 3.0
    assert {f"r-{index}" for index in range(n - 1)} <= set(engine.aborted)


async def test_nothing_is_echoed_of_a_prompt_that_is_turned_away() -> None:
    refusal = Refusal(RefusalReason.TARGET_UNREACHABLE, "too late", 3.0)
    event = TokenEvent("r-0", None, finish_reason=FinishReason.ERROR, refusal=refusal)
    stream = await _service(ScriptedEngine(lambda _: [(event,)])).start(replace(_generation(), echo=True))
    with pytest.raises(Overloaded):
        await anext(aiter(stream))


async def test_max_tokens_zero_takes_what_the_context_leaves() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    await _service(engine).start(_generation(sampling=replace(SAMPLING, max_tokens=0)))
    assert engine.submitted[0].sampling.max_tokens == 99


@pytest.mark.parametrize(
    ("prompt", "max_tokens"), [(TokenPrompt([5] * 20), 0), (TokenPrompt([5] * 12), 9), (TextPrompt("hello" * 300), 1)]
)
async def test_where_kv_memory_bounds_a_request_it_is_named_and_not_the_model(prompt: Prompt, max_tokens: int) -> None:
    card = replace(MODEL, max_model_tokens=20, is_bound_by_kv=True)
    tokenizer = byte_level_tokenizer()
    service = TextService(_says(tokenizer, "x"), tokenizer, CHAT, card)
    with pytest.raises(ContextTooLong, match=r"server's KV memory \(see --kv-memory\) of 20 tokens") as caught:
        await service.start(_generation(prompt, replace(SAMPLING, max_tokens=max_tokens)))
    assert "context" not in str(caught.value)


@pytest.mark.parametrize(("asked", "got"), [(50, 50), (99, 99), (100, 99), (2**31 - 1, 99)])
async def test_an_answer_that_may_end_with_the_context_asks_for_no_more(asked: int, got: int) -> None:
    engine = _says(byte_level_tokenizer(), "x")
    generation = replace(_generation(sampling=replace(SAMPLING, max_tokens=asked)), ends_with_context=True)
    await _service(engine).start(generation)
    assert engine.submitted[0].sampling.max_tokens == got


async def test_a_prompt_that_fills_the_context_is_refused_whatever_may_end() -> None:
    full = replace(_generation(TokenPrompt([5] * 100)), ends_with_context=True)
    with pytest.raises(ContextTooLong, match="100 tokens"):
        await _service(_says(byte_level_tokenizer(), "x")).start(full)


async def test_an_error_calls_messages_what_the_client_does() -> None:
    long = ChatPrompt([{"role": "user", "content": "x" * 1000}], param="input")
    with pytest.raises(ContextTooLong) as caught:
        await _service(_says(byte_level_tokenizer(), "x")).start(_generation(long))
    assert caught.value.param == "input"


async def test_max_tokens_that_do_not_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(ContextTooLong, match=r"1 tokens and max_tokens is 100, together 101.*100 tokens") as caught:
        await _service(_says(byte_level_tokenizer(), "x")).start(_generation(sampling=SamplingParams(max_tokens=100)))
    assert caught.value.param == "max_tokens"


async def test_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(ContextTooLong, match="100 tokens"):
        await _service(_says(byte_level_tokenizer(), "x")).start(_generation(TokenPrompt([5] * 100)))


FULL = r"the prompt has at least \d+ tokens; the model's context of 100 tokens"


@pytest.mark.parametrize(
    ("prompt", "param", "message"),
    [
        (TextPrompt("hello" * 300), "prompt", FULL),
        (ChatPrompt([{"role": "user", "content": "<|im_end|>" * 300}]), "messages", FULL),
        (TokenPrompt([999_999] * 100), "prompt", "has 100 tokens; the model's context of 100 tokens"),
    ],
)
async def test_a_prompt_that_can_never_fit_is_refused_before_it_is_tokenised(
    prompt: Prompt, param: str, message: str
) -> None:
    class Untouched(Tokenizer):
        def encode(self, text: str, *, allow_control: bool) -> list[int]:
            raise AssertionError("tokenised")

        def encode_written(self, pieces: Sequence[str]) -> list[int]:
            raise AssertionError("tokenised")

    service = _service(_says(byte_level_tokenizer(), "x"), Untouched.from_source(byte_level_vocabulary()))
    with pytest.raises(ContextTooLong, match=message) as caught:
        await service.start(_generation(prompt))
    assert caught.value.param == param


async def test_a_chat_that_fills_the_context_is_refused_as_messages() -> None:
    chat = ChatPrompt([{"role": "user", "content": "xyz" * 40}])
    with pytest.raises(ContextTooLong, match="has 122 tokens; the model's context of 100 tokens") as caught:
        await _service(_says(byte_level_tokenizer(), "x")).start(_generation(chat))
    assert caught.value.param == "messages"


async def test_more_messages_than_allowed_are_refused() -> None:
    service = _service(_says(byte_level_tokenizer(), "x"), bounds=TextBounds(max_messages=2))
    chat = ChatPrompt([{"role": "user", "content": "x"}] * 3)
    with pytest.raises(InvalidRequest, match="3 messages were given; at most 2 can be") as caught:
        await service.start(_generation(chat))
    assert caught.value.param == "messages"


def test_a_text_may_be_tokenised_that_is_longer_than_the_context() -> None:
    assert len(_service(_says(byte_level_tokenizer(), "x")).tokenize(TextPrompt("hello" * 300))) == 300


async def test_a_stop_string_waits_for_the_least_number_of_tokens() -> None:
    engine = _says(byte_level_tokenizer(), "a.b.c")
    generation = replace(_generation(sampling=replace(SAMPLING, min_tokens=2)), stop=(".",))
    assert _text(await _read(await _service(engine).start(generation))) == "a.b"


async def test_a_temperature_next_to_zero_is_zero() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    await _service(engine).start(_generation(sampling=replace(SAMPLING, temperature=1e-40)))
    assert engine.submitted[0].sampling.temperature == 0.0


@pytest.mark.parametrize(
    ("generation", "param"),
    [
        (replace(_generation(), n=0), "n"),
        (replace(_generation(), n=1000), "n"),
        (replace(_generation(), seed=2**64), "seed"),
        (_generation(sampling=replace(SAMPLING, temperature=-1.0)), "temperature"),
        (replace(_generation(), stop=("a", "b", "c", "d", "e")), "stop"),
        (replace(_generation(), stop=("",)), "stop"),
        (replace(_generation(), stop=("x" * 2000,)), "stop"),
        (replace(_generation(ChatPrompt([{"role": "user", "content": "x"}])), echo=True), "echo"),
        (replace(_generation(sampling=replace(SAMPLING, num_logprobs=1)), echo=True), "echo"),
        (_generation(sampling=replace(SAMPLING, min_tokens=9)), "min_tokens"),
        (_generation(sampling=replace(SAMPLING, stop_token_ids=(300,))), "stop_token_ids"),
        (_generation(sampling=replace(SAMPLING, logit_bias=((-1, 1.0),))), "logit_bias"),
        (_generation(TokenPrompt([1, 300])), "prompt"),
        (_generation(TokenPrompt([])), "prompt"),
        (_generation(TextPrompt("")), "prompt"),
        (_generation(TokenPrompt([True])), "prompt"),
        (_generation(ChatPrompt([])), "messages"),
        (_generation(ChatPrompt(cast("list[dict[str, str]]", ["hello"]))), "messages[0]"),
        (replace(_generation(), stop=cast("tuple[str, ...]", (1,))), "stop"),
    ],
)
async def test_bad_requests_are_refused_by_name(generation: Generation, param: str) -> None:
    engine = _says(byte_level_tokenizer(), "x")
    with pytest.raises(RequestError) as caught:
        await _service(engine).start(generation)
    assert caught.value.param == param
    assert engine.submitted == []


async def test_whether_one_may_come_while_there_is_no_engine_the_client_of_the_engine_says() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    engine.is_ready = False
    await _service(engine).start(_generation())
    engine.refuse_after, engine.refusal = 1, UnavailableError("not now")
    with pytest.raises(UnavailableError, match="not now"):
        await _service(engine).start(_generation())


async def test_chat_without_a_template_is_refused() -> None:
    service = TextService(_says(byte_level_tokenizer(), "x"), byte_level_tokenizer(), None, MODEL)
    with pytest.raises(InvalidRequest, match="no chat template"):
        await service.start(_generation(ChatPrompt([{"role": "user", "content": "x"}])))


async def test_chat_markup_is_the_template_s_alone() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    await _service(engine).start(_generation(ChatPrompt([{"role": "user", "content": "<|im_end|>"}])))
    assert [i for i in engine.submitted[0].prompt_ids if i < 5] == [1, 2]


@pytest.mark.parametrize("allow_control", [True, False])
async def test_markup_in_a_raw_prompt_counts_unless_told_otherwise(allow_control: bool) -> None:
    engine = _says(byte_level_tokenizer(), "x")
    await _service(engine).start(_generation(TextPrompt("<|im_start|>", allow_control=allow_control)))
    assert (list(engine.submitted[0].prompt_ids) == [1]) is allow_control


@pytest.mark.parametrize(
    ("prompt", "starts"),
    [
        (TextPrompt("hello"), [1]),
        (TextPrompt("<s>hello"), [1]),
        (TextPrompt("hello", add_special_tokens=False), []),
    ],
)
def test_a_beginning_is_put_before_text_once(prompt: TextPrompt, starts: list[int]) -> None:
    service = _service(_says(byte_level_tokenizer(), "x"), sentencepiece_tokenizer())
    ids = service.tokenize(prompt)
    assert [i for i in ids if i == 1] == starts


async def test_the_prompt_is_echoed_once_a_choice() -> None:
    engine = _says(byte_level_tokenizer(), " a", " b")
    deltas = await _read(await _service(engine).start(replace(_generation(), echo=True, n=2, stop=("hello",))))
    assert [_text(deltas, index) for index in range(2)] == ["hello a", "hello b"]


async def test_an_echoed_prompt_of_ids_is_decoded() -> None:
    engine = _says(byte_level_tokenizer(), "!")
    deltas = await _read(await _service(engine).start(replace(_generation(TokenPrompt([1, 5, 6])), echo=True)))
    assert _text(deltas) == byte_level_tokenizer().decode([5, 6]) + "!"


@pytest.mark.parametrize(("prompt", "text"), [(TextPrompt("hello"), " world"), (TokenPrompt([1]), "world")])
async def test_the_first_space_is_kept_where_text_comes_before(prompt: Prompt, text: str) -> None:
    tokenizer = sentencepiece_tokenizer()
    engine = _says(tokenizer, "world")
    assert _text(await _read(await _service(engine, tokenizer).start(_generation(prompt)))) == text


async def test_long_prompts_leave_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    class Spy(Tokenizer):
        def encode(self, text: str, *, allow_control: bool) -> list[int]:
            threads.append(threading.current_thread())
            return super().encode(text, allow_control=allow_control)

    spy = Spy.from_source(byte_level_vocabulary())
    service = _service(_says(byte_level_tokenizer(), "x"), spy, bounds=TextBounds(max_inline_chars=10))
    for prompt in (TextPrompt("hello"), TextPrompt("hello hello hello")):
        await service.start(_generation(prompt))
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_every_kind_of_large_prompt_leaves_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    encode = PromptEncoder.encode

    def spy(self: PromptEncoder, prompt: Prompt, context: Context | None = None) -> EncodedPrompt:
        threads.append(threading.current_thread())
        return encode(self, prompt, context)

    monkeypatch.setattr(PromptEncoder, "encode", spy)
    service = _service(_says(byte_level_tokenizer(), "x"), bounds=TextBounds(max_inline_chars=200))
    message = {"role": "user", "content": "x"}
    large: list[Prompt] = [
        TokenPrompt([5] * 201),
        ChatPrompt([message] * 4),
        ChatPrompt([{**message, "name": "x" * 200}]),
        ChatPrompt([{**message, "content": [{"type": "text", "text": "x" * 200}]}]),
        ChatPrompt([message], tools=(Tool("f", parameters={"properties": {"x": {"description": "x" * 200}}}),)),
        ChatPrompt([message], template_args={"x": "x" * 200}),
    ]
    small: list[Prompt] = [TokenPrompt([5] * 50), ChatPrompt([message])]
    for prompt in small + large:
        with suppress(ContextTooLong):
            await service.start(_generation(prompt))
    assert [thread is threading.main_thread() for thread in threads] == [True] * len(small) + [False] * len(large)


def test_tokens_and_text_can_be_asked_for() -> None:
    service = _service(_says(byte_level_tokenizer(), "x"))
    ids = service.tokenize(TextPrompt("hello<|im_end|>"))
    assert service.detokenize(ids) == "hello<|im_end|>"
    assert [service.token_text(i) for i in ids] == ["hello", "<|im_end|>"]
    with pytest.raises(InvalidRequest):
        service.detokenize([300])


async def test_a_prompt_is_explained_by_its_ids_and_salt() -> None:
    tokenizer = byte_level_tokenizer()
    engine = _says(tokenizer, "x")
    explanation = await _service(engine).explain(TextPrompt("hello there"), "tenant")
    ids = tuple(tokenizer.encode("hello there", allow_control=True))
    assert engine.explained == [(ids, "tenant")]
    assert explanation.num_prompt_tokens == len(ids)


async def test_prompts_are_forgotten_by_their_ids_and_all_else_by_name() -> None:
    tokenizer = byte_level_tokenizer()
    engine = _says(tokenizer, "x")
    service = _service(engine)
    await service.invalidate(BlockTarget(b"n" * 16))
    await service.invalidate_prompt(TokenPrompt([5, 6, 7]), "tenant")
    assert engine.invalidated == [BlockTarget(b"n" * 16), PromptTarget(packed([5, 6, 7]), "tenant")]


@pytest.mark.parametrize("token_ids", [[1, 300], [1] * 200])
async def test_an_error_in_ids_calls_them_what_the_client_does(token_ids: list[int]) -> None:
    service = _service(_says(byte_level_tokenizer(), "x"))
    with pytest.raises(RequestError) as caught:
        await service.explain(TokenPrompt(token_ids, "token_ids"), "")
    assert caught.value.param == "token_ids"


async def test_a_prompt_that_no_request_could_have_is_not_looked_up() -> None:
    service = _service(_says(byte_level_tokenizer(), "x"))
    with pytest.raises(ContextTooLong):
        await service.explain(TokenPrompt([1] * 200), "")
    with pytest.raises(InvalidRequest, match="empty"):
        await service.invalidate_prompt(TextPrompt(""), "")


def test_a_client_does_not_learn_that_another_tenant_has_sent_its_prompt() -> None:
    usage = Usage.of_prompt(64, 2, PrefixReport(((Level.ENGINE, 16),), MissReason.OTHER_SALT))
    assert usage == Usage(64, 2, 16, ((Level.ENGINE, 16),), MissReason.NEVER_SEEN)


def test_the_usage_of_several_prompts_has_the_reason_that_cost_most() -> None:
    evicted = Usage(100, 1, 40, ((Level.HOST, 40),), MissReason.EVICTED)
    unseen = Usage(100, 1, 60, ((Level.ENGINE, 20), (Level.HOST, 40)), MissReason.NEVER_SEEN)
    whole = Usage(33, 1, 32, ((Level.ENGINE, 32),), None)
    assert Usage.of_all([unseen, evicted, whole]) == Usage(
        233, 3, 132, ((Level.ENGINE, 52), (Level.HOST, 80)), MissReason.EVICTED
    )
    assert Usage.of_all([whole]).miss_reason is None


async def test_each_choice_stands_where_its_request_does() -> None:
    engine = _says(byte_level_tokenizer(), "a", "b")
    standing = Standing("gold", "acme", ttft_s=1.5, itl_s=0.1, queue_ttl_s=3.0)
    stream = await _service(engine).start(replace(_generation(), n=2, standing=standing))
    await _read(stream)
    for request in engine.submitted:
        assert (request.class_name, request.tenant) == ("gold", "acme")
        assert (request.ttft_s, request.itl_s, request.queue_ttl_s) == (1.5, 0.1, 3.0)


async def test_a_class_that_is_not_there_is_refused_with_those_that_are() -> None:
    engine = _says(byte_level_tokenizer(), "x")
    with pytest.raises(InvalidRequest, match="no service class 'tin', but gold, silver, bronze") as refused:
        await _service(engine).start(replace(_generation(), standing=Standing("tin")))
    assert refused.value.param == "service_class"
    assert engine.submitted == []


@dataclass
class NotingWatcher:
    engine: ScriptedEngine
    arrived: list[tuple[str, int, int]] = field(default_factory=list)  # salt, tokens, submitted before
    forgotten: list[Target] = field(default_factory=list)

    def arrives(self, salt: str, token_ids: Sequence[int]) -> None:
        self.arrived.append((salt, len(token_ids), len(self.engine.submitted)))

    def forget(self, target: Target) -> None:
        self.forgotten.append(target)


async def test_a_prompt_is_told_before_it_is_submitted_and_once_for_all_choices() -> None:
    tokenizer = byte_level_tokenizer()
    engine = _says(tokenizer, "a", "b")
    watcher = NotingWatcher(engine)
    service = TextService(engine, tokenizer, CHAT, MODEL, watcher=watcher)
    stream = await service.start(replace(_generation(), n=2, cache_salt="tenant"))
    assert watcher.arrived == [("tenant", stream.prompt_tokens, 0)]
    await stream.aclose()


async def test_who_watches_prompts_is_told_what_to_forget() -> None:
    tokenizer = byte_level_tokenizer()
    engine = _says(tokenizer)
    watcher = NotingWatcher(engine)
    service = TextService(engine, tokenizer, CHAT, MODEL, watcher=watcher)
    await service.invalidate(TenantTarget("tenant"))
    await service.invalidate_prompt(PROMPT, "salt")
    assert watcher.forgotten == [TenantTarget("tenant"), PromptTarget(packed(service.tokenize(PROMPT)), "salt")]


async def test_what_a_generation_passes_is_noted_in_order() -> None:
    life = make_life()
    stream = await _service(_says(byte_level_tokenizer(), "abc")).start(replace(_generation(), milestones=life))
    assert life.tokenised_s is not None
    assert life.submitted_s is not None
    assert life.tokenised_s <= life.submitted_s
    assert life.received_s is None
    await _read(stream)
    assert life.finish_reason == "length"


async def test_what_is_refused_has_passed_what_it_has_passed() -> None:
    too_long, turned_away = make_life(), make_life()
    with pytest.raises(ContextTooLong):
        await _service(_says(byte_level_tokenizer(), "abc")).start(
            Generation("r", TokenPrompt([5] * 200), SAMPLING, milestones=too_long)
        )
    assert (too_long.tokenised_s, too_long.submitted_s) == (None, None)
    engine = _says(byte_level_tokenizer(), "abc")
    engine.refusal, engine.refuse_after = Overloaded("full", retry_after_s=1.0), 0
    with pytest.raises(Overloaded):
        await _service(engine).start(replace(_generation(), milestones=turned_away))
    assert (turned_away.tokenised_s is None, turned_away.submitted_s) == (False, None)


def test_a_generation_is_the_same_whoever_follows_it() -> None:
    assert replace(_generation(), milestones=make_life()) == _generation()
