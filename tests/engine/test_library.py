"""`from tailrace import Engine`: blocking, streaming, async, and the lines that the README shows."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace import Engine, EngineConfig, LevelsConfig
from tailrace.errors import ContextTooLong, EngineError, InvalidRequest, SetupError, UnavailableError
from tailrace.types import FinishReason

CHAT = [{"role": "user", "content": "Name the capital city of France."}]
ANSWER = "The capital city of France is Paris."


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(config=EngineConfig(max_model_tokens=512, kv_memory_bytes=64 << 20)) as engine:
        yield engine


def test_blocks_on_disk_outlive_an_engine(tmp_path: Path) -> None:
    config = EngineConfig(max_model_tokens=512, kv_memory_bytes=64 << 20)
    levels = LevelsConfig(disk_directory=tmp_path, disk_bytes=64 << 20)
    usages = []
    for _ in range(2):
        with Engine(config=config, levels=levels) as engine:
            (answer,) = engine.generate("One, two, three. " * 20, max_tokens=4, temperature=0.0)
            usages.append(answer.usage)
    assert [usage.cached_tokens for usage in usages] == [0, (usages[1].prompt_tokens - 1) // 16 * 16]


def test_each_class_of_weights_and_the_cache_are_kept_as_wide_as_asked_for() -> None:
    config = EngineConfig(max_model_tokens=128, kv_memory_bytes=8 << 20)
    words = "float,experts=int4,kv=int8"
    answers = []
    with Engine("tiny-deepseek", config=config, quantize=words) as engine:
        answers = engine.generate("Once upon a time", max_tokens=4, temperature=0.0)
    assert answers[0].usage.completion_tokens == 4
    with pytest.raises(SetupError, match=r"kv=int8 .*f32 differ"):
        Engine("tiny-deepseek", config=replace(config, kv_cache_dtype="f32"), quantize=words)
    with pytest.raises(SetupError, match="this model has no head of its own"):
        Engine(config=config, quantize="int4,head=int8")


def test_a_batch_comes_back_in_order(engine: Engine) -> None:
    prompts: list[str | list[dict[str, str]]] = ["1, 2, 3, 4,", CHAT]
    counting, chat = engine.generate(prompts, max_tokens=12, temperature=0.0)

    assert counting.text.startswith(" 5, 6, 7,")
    assert counting.finish_reason is FinishReason.LENGTH
    assert counting.usage.completion_tokens == len(counting.token_ids) == 12
    assert chat.text == ANSWER
    assert chat.finish_reason is FinishReason.STOP


def test_one_text_is_a_batch_of_one(engine: Engine) -> None:
    (only,) = engine.generate("1, 2, 3, 4,", max_tokens=4, temperature=0.0)
    assert only.text.startswith(" 5,")


def test_a_stream_gives_pieces_and_then_its_usage(engine: Engine) -> None:
    stream = engine.stream(CHAT, temperature=0.0)
    pieces = list(stream)

    assert len(pieces) > 3
    assert "".join(pieces) == ANSWER
    assert stream.finish_reason is FinishReason.STOP
    # The end of the turn is a token without text; and what comes while nobody looks comes in one piece.
    (whole,) = engine.generate([CHAT], temperature=0.0)
    assert stream.usage.completion_tokens == whole.usage.completion_tokens > len(pieces)


async def test_an_async_stream_gives_the_same(engine: Engine) -> None:
    stream = await engine.astream(CHAT, temperature=0.0)
    assert "".join([piece async for piece in stream]) == ANSWER


def test_a_closed_stream_stops_and_the_engine_goes_on(engine: Engine) -> None:
    stream = engine.stream("Go on:", max_tokens=400, ignore_eos=True)
    next(iter(stream))
    stream.close()

    assert engine.generate([CHAT], temperature=0.0)[0].text == ANSWER


def test_a_request_may_name_its_class_and_whose_it_is(engine: Engine) -> None:
    (answer,) = engine.generate("1, 2, 3, 4,", max_tokens=4, temperature=0.0, service_class="gold", tenant="acme")
    assert answer.text.startswith(" 5,")
    with pytest.raises(InvalidRequest, match="'tin'"):
        engine.stream("1, 2, 3, 4,", service_class="tin")


def test_a_seed_repeats_an_answer(engine: Engine) -> None:
    once, again, other = (
        engine.generate("Once", max_tokens=12, temperature=1.0, seed=seed)[0].text for seed in (3, 3, 4)
    )
    assert once == again
    assert once != other


def test_what_cannot_run_is_refused_when_asked_for(engine: Engine) -> None:
    with pytest.raises(ContextTooLong, match="512"):
        engine.stream("word " * 600)
    with pytest.raises(InvalidRequest):
        engine.stream("")
    with pytest.raises(InvalidRequest, match="temperature"):
        engine.generate("x", temperature="a")  # type: ignore[arg-type]  # what a checker would have told
    with pytest.raises(InvalidRequest, match="suffix is text"):
        engine.generate(CHAT, suffix="x")
    with pytest.raises(InvalidRequest, match="no tokens for filling in the middle"):
        engine.generate("x", suffix="y")
    assert engine.generate([CHAT], temperature=0.0)[0].text == ANSWER


def test_a_chat_alone_is_a_batch_of_one_too(engine: Engine) -> None:
    assert [answer.text for answer in engine.generate(CHAT, temperature=0.0)] == [ANSWER]
    assert engine.generate([]) == []


def test_a_bias_is_a_mapping(engine: Engine) -> None:
    (plain,) = engine.generate("1, 2, 3, 4,", max_tokens=1, temperature=0.0)
    (forbidden,) = engine.generate(
        "1, 2, 3, 4,", max_tokens=1, temperature=0.0, logit_bias={plain.token_ids[0]: -100.0}
    )
    assert forbidden.token_ids != plain.token_ids


def small_engine(max_queued: int = 8) -> Engine:
    return Engine(
        config=EngineConfig(max_model_tokens=256, kv_memory_bytes=32 << 20, max_running=4, max_queued=max_queued)
    )


def test_a_batch_larger_than_the_queue_waits_its_turn() -> None:
    with small_engine(max_queued=8) as engine:
        answers = engine.generate([f"{number}," for number in range(40)], max_tokens=2)
        assert len(answers) == 40


def test_a_bad_prompt_in_a_batch_leaves_nothing_behind() -> None:
    with small_engine() as engine:
        with pytest.raises(InvalidRequest):
            engine.generate(["Go on:", ""], ignore_eos=True)
        assert engine.generate([CHAT], temperature=0.0)[0].text == ANSWER
        assert engine.num_requests == 0


def test_leaving_a_stream_stops_its_work() -> None:
    with small_engine() as engine:
        for _ in engine.stream("Go on:", ignore_eos=True):
            break
        assert engine.generate([CHAT], temperature=0.0)[0].text == ANSWER
        assert engine.num_requests == 0


def test_closing_ends_what_other_threads_wait_for() -> None:
    engine = small_engine()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(engine.generate, "Go on:", ignore_eos=True) for _ in range(3)]
        while engine.num_requests == 0:
            time.sleep(0.001)
        engine.close()
        errors = [answer.exception(timeout=20) for answer in waiting]
    assert all(isinstance(error, (EngineError, UnavailableError)) for error in errors)


def test_a_closed_engine_says_so() -> None:
    engine = small_engine()
    stream = engine.stream("Go on:", ignore_eos=True)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.generate("Go on:")
    with pytest.raises(EngineError, match="closed"):
        next(iter(stream))
    stream.close()


@pytest.mark.parametrize(
    "ending",
    ["engine.generate('Once', max_tokens=2)", "next(iter(engine.stream('Once', ignore_eos=True, max_tokens=4000)))"],
)
def test_a_program_that_forgets_to_close_ends_cleanly(ending: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"from tailrace import Engine\nengine = Engine()\n{ending}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_closing_twice_is_harmless() -> None:
    engine = Engine(config=EngineConfig(max_model_tokens=64, kv_memory_bytes=8 << 20, max_running=1))
    engine.close()
    engine.close()


def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(from tailrace import Engine\n.*?)```", readme, re.DOTALL)

    exec(compile(example, "README.md", "exec"), {})

    assert len(capsys.readouterr().out.split()) > 40
