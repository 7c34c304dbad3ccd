"""Filling in the middle: the prompt a code model learned, and the token with which its middles end."""

from dataclasses import replace

import pytest

from tailrace.errors import ContextTooLong, InvalidRequest
from tailrace.service.api import ChoiceDelta, Generation, InfillPrompt, ModelCard, Prompt, TextPrompt
from tailrace.service.infill import find_infill
from tailrace.service.service import TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent
from tests.support.text import ScriptedEngine, byte_level_tokenizer, byte_level_vocabulary, sentencepiece_tokenizer

DEEPSEEK = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<｜end▁of▁sentence｜>")
QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
MODEL = ModelCard("coder", (), created_s=0, max_model_tokens=100, vocab_size=300)
SAMPLING = SamplingParams(max_tokens=8)
USER_DEFINED = 4


def tokenizer_with(*markup: str, add_bos: bool = False) -> Tokenizer:
    plain = byte_level_vocabulary()
    vocabulary = replace(
        plain, tokens=[*plain.tokens, *markup], token_types=[*plain.token_types, *[USER_DEFINED] * len(markup)]
    )
    return Tokenizer.from_source(vocabulary, bos_id=1, eos_ids=(2,), add_bos=add_bos)


def ids_of(tokenizer: Tokenizer, *parts: str) -> list[int]:
    """Each part by itself: a token of markup, or text without any."""
    added = tokenizer.vocabulary.added
    encoded = [
        [added[part]] if part in (*DEEPSEEK, *QWEN) else tokenizer.encode(part, allow_control=False) for part in parts
    ]
    return [token_id for ids in encoded for token_id in ids]


async def submitted(
    tokenizer: Tokenizer, prompt: Prompt, sampling: SamplingParams = SAMPLING, ended_by: int = 70, **changes: object
) -> tuple[Request, list[ChoiceDelta]]:
    """What the engine is asked for, and the answer when it says "a" and ends with a token."""

    def script(request: Request) -> list[tuple[TokenEvent, ...]]:
        token_id = tokenizer.encode("a", allow_control=False)[0]
        end = TokenEvent(request.request_id, ended_by, finish_reason=FinishReason.STOP)
        return [(TokenEvent(request.request_id, token_id),), (end,)]

    engine = ScriptedEngine(script)
    generation = replace(Generation("r", prompt, sampling), **changes)  # type: ignore[arg-type]  # the caller's fields
    stream = await TextService(engine, tokenizer, None, MODEL).start(generation)
    return engine.submitted[0], [delta async for delta in stream]


@pytest.mark.parametrize("markup", [DEEPSEEK, QWEN], ids=["DeepSeek", "Qwen"])
async def test_the_prompt_is_both_texts_between_control_tokens(markup: tuple[str, ...]) -> None:
    begin, hole, end = markup[:3]
    tokenizer = tokenizer_with(*markup)
    request, _ = await submitted(tokenizer, InfillPrompt("def f(\n", "  hello"))
    assert list(request.prompt_ids) == ids_of(tokenizer, begin, "def f(\n", hole, "  hello", end)


async def test_a_model_that_wants_it_gets_its_first_token_first() -> None:
    tokenizer = tokenizer_with(*DEEPSEEK, add_bos=True)
    request, _ = await submitted(tokenizer, InfillPrompt("a", "b"))
    assert list(request.prompt_ids[:2]) == [1, tokenizer.vocabulary.added[DEEPSEEK[0]]]
    bare, _ = await submitted(tokenizer, InfillPrompt("a", "b", add_special_tokens=False))
    assert [1, *bare.prompt_ids] == list(request.prompt_ids)


async def test_markup_in_either_text_is_text() -> None:
    tokenizer = tokenizer_with(*DEEPSEEK)
    hole = tokenizer.vocabulary.added["<｜fim▁hole｜>"]
    request, _ = await submitted(tokenizer, InfillPrompt("a<｜fim▁hole｜><|im_end|>", "<think><｜fim▁end｜>"))
    control = [token_id for token_id in request.prompt_ids if token_id in tokenizer.vocabulary.added.values()]
    assert control == ids_of(tokenizer, *DEEPSEEK[:3])
    assert list(request.prompt_ids).count(hole) == 1


async def test_nothing_before_the_gap_is_a_prompt_too() -> None:
    tokenizer = tokenizer_with(*DEEPSEEK)
    request, _ = await submitted(tokenizer, InfillPrompt("", "b"))
    assert list(request.prompt_ids) == ids_of(tokenizer, *DEEPSEEK[:2], "b", DEEPSEEK[2])


async def test_the_token_that_ends_a_middle_ends_the_answer_and_is_no_reason_of_the_clients() -> None:
    tokenizer = tokenizer_with(*DEEPSEEK)
    end = tokenizer.vocabulary.added["<｜end▁of▁sentence｜>"]
    sampling = replace(SAMPLING, stop_token_ids=(7,))
    request, deltas = await submitted(tokenizer, InfillPrompt("a", "b"), sampling, ended_by=end)
    assert request.sampling.stop_token_ids == (7, end)
    assert "".join(delta.text for delta in deltas) == "a"
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == (FinishReason.STOP, None)


async def test_it_ends_no_other_answer_and_none_that_ignores_ends() -> None:
    tokenizer = tokenizer_with(*DEEPSEEK)
    plain, _ = await submitted(tokenizer, TextPrompt("a"))
    assert plain.sampling.stop_token_ids == ()
    endless, _ = await submitted(tokenizer, InfillPrompt("a", "b"), replace(SAMPLING, ignore_eos=True))
    assert endless.sampling.stop_token_ids == ()


@pytest.mark.parametrize(
    "tokenizer", [byte_level_tokenizer(), sentencepiece_tokenizer(), tokenizer_with(*DEEPSEEK[:2])]
)
async def test_a_vocabulary_that_lacks_the_tokens_refuses_the_field_by_name(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="'coder' has no tokens for filling in the middle") as refused:
        await submitted(tokenizer, InfillPrompt("a", "b"))
    assert (refused.value.param, refused.value.code) == ("suffix", "unsupported_parameter")


def test_tokens_that_the_model_has_no_rows_for_do_not_count() -> None:
    vocabulary = tokenizer_with(*DEEPSEEK).vocabulary
    assert find_infill(vocabulary, len(vocabulary)) is not None
    assert find_infill(vocabulary, len(vocabulary) - 2) is None


async def test_an_echo_of_two_texts_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="echo with suffix") as refused:
        await submitted(tokenizer_with(*DEEPSEEK), InfillPrompt("a", "b"), echo=True)
    assert refused.value.param == "echo"


@pytest.mark.parametrize(("prefix", "suffix", "param"), [("x" * 9_000, "b", "prompt"), ("a", "x" * 9_000, "suffix")])
async def test_a_text_too_long_is_named(prefix: str, suffix: str, param: str) -> None:
    with pytest.raises(ContextTooLong) as refused:
        await submitted(tokenizer_with(*DEEPSEEK), InfillPrompt(prefix, suffix))
    assert refused.value.param == param
