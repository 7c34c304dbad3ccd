"""What a real server answers over HTTP, for those who compare it with another front end."""

from collections.abc import Sequence

import openai
from openai.types.chat import ChatCompletionMessageParam

__all__ = ["answer_over_http"]


def answer_over_http(url: str, messages: Sequence[ChatCompletionMessageParam], num_tokens: int, seed: int) -> str:
    """The text of a drawn answer of so many tokens."""
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(
            model="default",
            messages=list(messages),
            max_tokens=num_tokens,
            temperature=0.7,
            seed=seed,
            extra_body={"ignore_eos": True},
        )
    text = answer.choices[0].message.content
    assert text
    return text
