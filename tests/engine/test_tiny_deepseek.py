"""DeepSeek-V3's shape with trained weights, through the library: pages, chats and holes, streamed and not."""

from collections.abc import Iterator

import pytest

from tailrace import Engine, EngineConfig

CHAT = [{"role": "user", "content": "Who are you?"}]
PROMPTS = ("Emma was", "The family of Dashwood had long been settled in Sussex. Their estate was large, and")
COMMON = "a and as be been but by for had have her his in it not of she so that the to very was with"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny-deepseek", config=EngineConfig(max_model_tokens=512, kv_memory_bytes=16 << 20)) as engine:
        yield engine


def test_it_answers_what_it_learnt_by_heart(engine: Engine) -> None:
    (answer,) = engine.generate(CHAT, temperature=0.0)

    assert answer.text.startswith("I am a very small model")
    assert answer.finish_reason == "stop"


def test_it_goes_on_in_words(engine: Engine) -> None:
    (going_on,) = engine.generate(PROMPTS[1], max_tokens=60, temperature=0.0)
    words, common = going_on.text.split(), COMMON.split()

    assert len(words) > 30
    assert sum(word in common for word in words) > len(words) / 3


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("prompt", [*PROMPTS, CHAT], ids=["short", "longer", "chat"])
def test_a_stream_says_what_the_whole_answer_says(
    engine: Engine, prompt: str | list[dict[str, str]], temperature: float
) -> None:
    (whole,) = engine.generate([prompt], max_tokens=48, temperature=temperature, seed=3)
    stream = engine.stream(prompt, max_tokens=48, temperature=temperature, seed=3)

    assert "".join(stream) == whole.text
    assert stream.finish_reason == whole.finish_reason
    assert stream.usage.completion_tokens == whole.usage.completion_tokens


def test_a_second_question_finds_the_first_in_the_cache(engine: Engine) -> None:
    asked = [{"role": "user", "content": f"{PROMPTS[1]} in whom did it all begin?"}]
    (first,) = engine.generate(asked, max_tokens=32, temperature=0.0)
    talk = [*asked, {"role": "assistant", "content": first.text}, {"role": "user", "content": "Who are you?"}]
    (second,) = engine.generate(talk, max_tokens=8, temperature=0.0)

    assert second.usage.cached_tokens >= 16


def test_it_fills_in_the_middle(engine: Engine) -> None:
    (filled,) = engine.generate("It is a truth universally", suffix="in want of a wife.", max_tokens=24)

    assert filled.usage.completion_tokens > 0
