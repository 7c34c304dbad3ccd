from collections.abc import Sequence

import pytest

from tailrace.errors import InvalidRequest, SetupError
from tailrace.kvcache.warm import HotPrefix, PrefixTally, TallyConfig
from tailrace.service.api import ListedPrompt, ModelCard, Prompt, TextPrompt, TokenPrompt
from tailrace.service.listed import encode_listed, kept_prompts, recall

MODEL = ModelCard("mine", (), created_s=0, max_model_tokens=10, vocab_size=300)


def tokenize(prompt: Prompt) -> Sequence[int]:
    if isinstance(prompt, TextPrompt):
        return list(prompt.text.encode())
    if isinstance(prompt, TokenPrompt):
        return prompt.token_ids
    raise InvalidRequest("the model has no chat template")


def test_prompts_become_tokens_under_their_salts() -> None:
    listed = [ListedPrompt(TextPrompt("ab"), "t"), ListedPrompt(TokenPrompt([5, 6]))]
    assert encode_listed(listed, tokenize, MODEL, block_tokens=1) == [("t", [97, 98]), ("", [5, 6])]


def test_of_those_too_short_for_a_block_it_is_said_where_the_first_is(caplog: pytest.LogCaptureFixture) -> None:
    listed = [ListedPrompt(TextPrompt("a" * count), place=f"file, line {count}") for count in (4, 2, 3)]
    assert [len(token_ids) for _, token_ids in encode_listed(listed, tokenize, MODEL, block_tokens=3)] == [4]
    assert caplog.messages == [
        "2 of 3 listed prompts are not computed ahead: they have no more tokens than a block, 3; "
        "the first: file, line 2"
    ]


@pytest.mark.parametrize("text", ["", "a" * 10])
def test_what_the_model_cannot_take_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SetupError, match=f"file, line 3: the prompt has {len(text)} tokens; it can have 1 to 9"):
        encode_listed([ListedPrompt(TextPrompt(text), place="file, line 3")], tokenize, MODEL, 1)


def test_a_complaint_of_the_tokenizer_is_passed_on_with_its_place() -> None:
    with pytest.raises(SetupError, match="line 1: the model has no chat template"):
        encode_listed([ListedPrompt(object(), place="line 1")], tokenize, MODEL, 1)  # type: ignore[arg-type]  # any other kind


def test_what_was_kept_counts_again_for_the_same_model_alone() -> None:
    kept = list(kept_prompts([HotPrefix("t", (1, 2), 6.0, 1.0, 2.0)], MODEL))
    kept.append(ListedPrompt(TokenPrompt([3, 4]), model="another"))
    tally = PrefixTally(TallyConfig(piece_tokens=2))
    recall(kept, tokenize, MODEL, tally, 0.0)
    (prefix,) = tally.hottest(100, 0.0, 900.0)
    assert (prefix.salt, prefix.token_ids, prefix.num_uses) == ("t", (1, 2), 6.0)
