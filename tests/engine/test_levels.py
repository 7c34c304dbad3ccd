"""Keys and values that come back from a level below are the ones that were computed: no bit of an answer changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tailrace.levels.config import LevelsConfig
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import Level, MissReason, Request, SamplingParams
from tailrace.weights.checkpoint import Checkpoint
from tests.engine import harness as harnesses
from tests.engine.harness import Harness, MakeHarness
from tests.support.memory_level import MemoryLevel, RandomFaults
from tests.support.redis_server import RedisServer, running_redis

TEXT = "The river ran high that spring, and the mill stood idle for the first time in forty years. " * 5
Answer = list[tuple[int | None, float | None]]  # tokens and their log probabilities, to the bit


@contextmanager
def running(make_harness: MakeHarness, *levels: MemoryLevel) -> Iterator[Harness]:
    """An engine over levels. At its end all that was to be saved is saved."""
    harness = make_harness(levels=lambda _: levels)
    assert harness.store is not None
    try:
        yield harness
    finally:
        harness.store.close()


def answer(harness: Harness, request: Request) -> Answer:
    first = len(harness.events)
    harness.run([request])
    return [(event.token_id, event.logprob) for event in harness.events[first:]]


def tokens_by_level(harness: Harness, request: Request) -> dict[Level, int]:
    prefix = harness.request(request.request_id).prefix
    assert prefix is not None
    return dict(prefix.num_tokens)


@pytest.fixture(scope="module")
def request_of(checkpoint: Checkpoint) -> Request:
    prompt = tuple(Tokenizer.from_source(checkpoint.tokenizer).encode(TEXT, allow_control=False))
    return Request("asked", prompt, SamplingParams(12, temperature=0.9, seed=5, ignore_eos=True, num_logprobs=3))


@pytest.fixture
def whole_blocks(request_of: Request) -> int:
    """Tokens of the prompt that a level can give."""
    return (request_of.num_prompt_tokens - 1) // 16 * 16


@pytest.fixture
def host() -> MemoryLevel:
    return MemoryLevel(Level.HOST)


@pytest.fixture
def cold(make_harness: MakeHarness, request_of: Request, host: MemoryLevel) -> Answer:
    """The answer of an engine that has nothing, whose blocks are in the host level afterwards."""
    with running(make_harness, host) as harness:
        return answer(harness, request_of)


def test_an_answer_is_the_same_with_blocks_of_an_engine_that_is_gone(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer, whole_blocks: int
) -> None:
    with running(make_harness, host) as harness:
        assert answer(harness, request_of) == cold
        assert tokens_by_level(harness, request_of) == {Level.HOST: whole_blocks}


def test_the_next_turn_finds_the_answer_below_too(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer
) -> None:
    said = [token_id for token_id, _ in cold if token_id is not None]
    turn = replace(request_of, request_id="turn", prompt_ids=(*request_of.prompt_ids, *said, 7, 8, 9))
    with running(make_harness, MemoryLevel(Level.HOST)) as harness:
        expected = answer(harness, turn)
    with running(make_harness, host) as harness:
        assert answer(harness, turn) == expected
        num_known = len(turn.prompt_ids) - 4  # the answer's last token was never computed
        assert tokens_by_level(harness, turn) == {Level.HOST: num_known // 16 * 16}


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.mark.parametrize("level", [Level.HOST, Level.DISK, Level.REDIS])
def test_every_real_level_gives_the_bits_it_was_given(
    checkpoint: Checkpoint,
    request_of: Request,
    cold: Answer,
    whole_blocks: int,
    *,
    level: Level,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    config = {
        Level.HOST: LevelsConfig(host_bytes=64 << 20, host_directory=tmp_path),
        Level.DISK: LevelsConfig(disk_directory=tmp_path / "disk", disk_bytes=64 << 20),
        Level.REDIS: LevelsConfig(redis_url=redis.url),
    }[level]
    for is_first in (True, False):
        harness = harnesses.make_harness(checkpoint, lambda model: model.open_levels(config))
        assert harness.store is not None
        assert answer(harness, request_of) == cold
        assert tokens_by_level(harness, request_of) == ({} if is_first else {level: whole_blocks})
        harness.store.close()


def test_several_requests_at_once_share_one_fetch(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer, whole_blocks: int
) -> None:
    with running(make_harness, host) as harness:
        harness.run([replace(request_of, request_id=f"{number}") for number in range(4)])
        for number in range(4):
            events = [event for event in harness.events if event.request_id == f"{number}"]
            assert [(event.token_id, event.logprob) for event in events] == cold
        assert harness.store is not None
        (report,) = harness.store.report()
        assert report.num_fetched_blocks == whole_blocks // 16


@pytest.mark.parametrize("num_there", [0, 1, 3])
def test_an_answer_is_the_same_when_blocks_are_gone(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer, num_there: int
) -> None:
    for name in list(host.blocks)[num_there:]:
        del host.blocks[name]
    with running(make_harness, host) as harness:
        assert answer(harness, request_of) == cold
        assert tokens_by_level(harness, request_of) == ({Level.HOST: 16 * num_there} if num_there else {})


@pytest.mark.parametrize("call", ["contain", "get"])
def test_an_answer_is_the_same_when_the_level_fails(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer, call: str
) -> None:
    host.fail(call)
    with running(make_harness, host) as harness:
        assert answer(harness, request_of) == cold
        prefix = harness.request("asked").prefix
        assert prefix is not None
        assert prefix.num_cached_tokens == 0
        assert prefix.reason is MissReason.LEVEL_DOWN


def test_an_answer_is_the_same_when_a_stuck_level_writes_too_late(
    make_harness: MakeHarness, request_of: Request, host: MemoryLevel, cold: Answer
) -> None:
    gate = host.hold("get")  # half of the blocks' bytes are there by then
    with running(make_harness, host) as harness:
        assert answer(harness, request_of) == cold
        gate.open()
        again = replace(request_of, request_id="again")
        assert answer(harness, again) == cold


def test_answers_are_the_same_whatever_three_levels_do(make_harness: MakeHarness, request_of: Request) -> None:
    """Requests that share beginnings, over levels that wait, fail and lie at random."""
    draw, prompt = Random(7), request_of.prompt_ids
    work = [
        replace(request_of, request_id=f"{number}", prompt_ids=(*prompt[: draw.randrange(20, len(prompt))], number))
        for number in range(10)
    ]
    alone = make_harness()
    expected = {each.request_id: alone.run([replace(each, cache_salt=each.request_id)]) for each in work}
    levels = [MemoryLevel(level) for level in (Level.HOST, Level.DISK, Level.REDIS)]
    for number, level in enumerate(levels):
        RandomFaults(level, number)
    for _ in range(2):  # the second finds below what the first has left
        with running(make_harness, *levels) as harness:
            for _ in range(2):
                asked = [
                    replace(each, request_id=f"{draw.random()}/{each.request_id}") for each in draw.sample(work, 6)
                ]
                for request_id, tokens in harness.run(asked).items():
                    name = request_id.split("/")[1]
                    assert tokens == expected[name][name]
