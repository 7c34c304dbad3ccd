"""A chat as people have it: each turn brings all turns before it, which the server has computed already."""

import openai
import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessageParam

BLOCK_TOKENS = 16
QUESTIONS = ("How does a water mill turn grain into flour?", "And who built the first ones?", "Tell it to a child.")


def ask(
    client: openai.OpenAI, messages: list[ChatCompletionMessageParam], max_tokens: int
) -> tuple[str, CompletionUsage]:
    answer = client.chat.completions.create(model="default", messages=messages, temperature=0, max_tokens=max_tokens)
    assert answer.usage is not None
    return answer.choices[0].message.content or "", answer.usage


@pytest.mark.parametrize("max_tokens", [64, 65, 71])
def test_a_turn_computes_the_new_text_and_at_most_one_block_of_what_was_said_before(
    client: openai.OpenAI, max_tokens: int
) -> None:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": f"You answer in {max_tokens} words, kindly and with examples from history."}
    ]
    said = 0  # tokens of the chat so far, the latest answer included
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        answer, usage = ask(client, messages, max_tokens)
        assert usage.prompt_tokens_details is not None
        computed = usage.prompt_tokens - (usage.prompt_tokens_details.cached_tokens or 0)
        assert computed <= usage.prompt_tokens - said + BLOCK_TOKENS
        said = usage.prompt_tokens + usage.completion_tokens
        messages.append({"role": "assistant", "content": answer})
    assert usage.completion_tokens > BLOCK_TOKENS, "the answers are too short to fill a block"
