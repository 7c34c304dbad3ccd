"""A real engine in a process of its own is killed, at any moment: the streams go on, and the answers are the same."""

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkProcess

import pytest

from tailrace.app import build_engine
from tailrace.classes import STANDARD
from tailrace.config import EngineConfig
from tailrace.engine.board import Board
from tailrace.engine.bridge import EngineBridge
from tailrace.engine.channel import Channel, make_channels, wake_all
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.remote import RemoteEngine
from tailrace.loading import PackedModel, plan_model
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent
from tailrace.weights.load import open_checkpoint
from tests.support.killed import forked

MAX_MODEL_TOKENS = 512
CONFIG = EngineConfig(
    backend="cpu", kv_memory_bytes=32 << 20, budget_tokens=32, max_running=8, max_model_tokens=MAX_MODEL_TOKENS
)
LONG = tuple(range(7, 307))  # ten steps of a prompt
SHORT = (11, 12, 13, 14)
REQUESTS = [
    Request("greedy", SHORT, SamplingParams(80, temperature=0.0, ignore_eos=True)),
    Request("long", LONG, SamplingParams(40, temperature=0.0, ignore_eos=True)),
    Request("first choice", SHORT, SamplingParams(80, temperature=0.9, top_p=0.95, seed=1, ignore_eos=True)),
    Request("second choice", SHORT, SamplingParams(80, temperature=0.9, top_p=0.95, seed=2, ignore_eos=True)),
    Request("logprobs", SHORT, SamplingParams(60, seed=3, num_logprobs=3, ignore_eos=True)),
    Request("penalties", SHORT, SamplingParams(60, seed=4, repetition_penalty=1.3, frequency_penalty=0.2)),
    Request("minimum", SHORT, SamplingParams(60, temperature=0.0, min_tokens=50)),
]


class Server:
    """What a supervisor does, in the process of the API: start an engine, notice that it is dead, start the next."""

    def __init__(self, model: PackedModel) -> None:
        self.board = Board(CONFIG.max_running)
        self.channels = make_channels(1, MAX_MODEL_TOKENS)
        self._model = model
        self._process: ForkProcess | None = None

    def start(self) -> None:
        generation = self.board.generation + 1
        self.board.begin(generation, 0.0, 60.0)
        self._process = forked(run_engine, self._model, self.channels, self.board, generation)
        wake_all(self.channels)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL  # it had not died by itself
        self._process.close()
        self.board.lose(())
        wake_all(self.channels)

    def connect(self) -> RemoteEngine:
        return RemoteEngine(
            self.channels[0],
            self.board,
            worker_generation=self.board.begin_worker(0),
            classes=STANDARD,
            max_model_tokens=MAX_MODEL_TOKENS,
            on_failure=_never,
        )


def run_engine(model: PackedModel, channels: Sequence[Channel], board: Board, generation: int) -> None:
    intake = Intake(IntakeConfig(CONFIG.max_queued, CONFIG.max_queued_tokens, MAX_MODEL_TOKENS))
    bridge = EngineBridge(channels, board, intake, generation, on_failure=lambda: os._exit(70))
    engine = build_engine(
        model.start(), CONFIG, intake, publish=bridge.publish, reply=bridge.reply, emit=lambda _: None
    )
    bridge.start()
    engine.run_forever()
    os._exit(71)  # nobody has closed the intake


@dataclass
class Answer:
    tokens: list[int]
    logprobs: list[object]
    num_cached: set[int]
    end: FinishReason | None


async def read(remote: RemoteEngine, request: Request, progress: list[TokenEvent]) -> Answer:
    events: list[TokenEvent] = []
    async for arrived in remote.submit(request):
        events += arrived
        progress += arrived
    return Answer(
        [event.token_id for event in events if event.token_id is not None],
        [(event.logprob, event.top_logprobs) for event in events],
        {event.num_cached_tokens for event in events},
        events[-1].finish_reason,
    )


@dataclass(frozen=True)
class Kill:
    """When to kill an engine: so many tokens after the last one was killed, and a part of a step later."""

    num_tokens: int
    delay_s: float


async def answers(server: Server, kills: Sequence[Kill]) -> list[Answer]:
    """Of all requests, while engines are killed one after the other."""
    server.start()
    remote, progress = server.connect(), list[TokenEvent]()
    readers = [asyncio.create_task(read(remote, request, progress)) for request in REQUESTS]
    for kill in kills:
        due = len(progress) + kill.num_tokens
        while len(progress) < due and not all(reader.done() for reader in readers):  # all may come at once
            await asyncio.sleep(0.001)
        await asyncio.sleep(kill.delay_s)
        server.kill()
        server.start()
    found = await asyncio.gather(*readers)
    assert remote.num_live == 0
    remote.close()
    server.kill()
    return found


@pytest.fixture(scope="module")
def model() -> PackedModel:
    return plan_model(open_checkpoint("tiny-deepseek"), CONFIG).pack()


@pytest.fixture(scope="module")
def undisturbed(model: PackedModel) -> list[Answer]:
    return asyncio.run(answers(Server(model), []))


def test_what_is_compared_are_whole_answers(undisturbed: list[Answer]) -> None:
    for request, answer in zip(REQUESTS, undisturbed, strict=True):
        assert answer.end is not None
        assert answer.tokens
        if request.sampling.ignore_eos:
            assert len(answer.tokens) == request.sampling.max_tokens
    assert undisturbed[2].tokens != undisturbed[3].tokens


@pytest.mark.parametrize("seed", range(4))
async def test_answers_are_those_of_an_engine_that_lives(
    model: PackedModel, undisturbed: list[Answer], seed: int
) -> None:
    moments = random.Random(seed)
    kills = [
        Kill(0, moments.uniform(0.0, 0.05)),  # while it starts, or before the first token
        Kill(1, moments.uniform(0.0, 0.01)),  # while the long prompt is computed
        *(Kill(moments.randrange(100), moments.uniform(0.0, 0.005)) for _ in range(3)),
    ]
    disturbed = await answers(Server(model), kills)

    for request, answer, expected in zip(REQUESTS, disturbed, undisturbed, strict=True):
        assert answer.tokens == expected.tokens, request.request_id
        assert answer.logprobs == expected.logprobs, request.request_id
        assert answer.end is expected.end, request.request_id
        assert len(answer.num_cached) == 1, request.request_id


def _never() -> None:
    raise AssertionError("what the engine published could not be read")
