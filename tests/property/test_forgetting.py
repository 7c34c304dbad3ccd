"""Users of a shared level write, read and forget at random, are stopped and killed: none reads what was forgotten.

What a block holds is the version of the log at which its writer computed it. Before a forget, the version is noted;
whoever begins to read after it has returned must get a later one.
"""

import os
import random
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_uint64
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels import redis_log
from tailrace.levels.api import BlockLevel, LevelFailure, Outdated, StoredBlock
from tailrace.levels.delta_log import DeltaLog
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tailrace.levels.redis import open_redis
from tests.support.blocks import FINGERPRINT, chain, word
from tests.support.redis_server import running_redis

BLOCK_BYTES = 64
CHAINS = [chain("long", 8, word("a")), chain("short", 4, word("a")), chain("other", 8, word("b"))]
HEADS = [head for heads in CHAINS for head in heads]
NUM_OPERATIONS = 400
NUM_WORKERS = 3
SEEDS = 100  # of one run
WAIT_S = 60.0

Open = Callable[[], BlockLevel]


def open_host(directory: Path) -> HostLevel:
    return HostLevel(BLOCK_BYTES, Layout(BLOCK_BYTES, 64).file_bytes, directory=directory, lock_timeout_s=0.2)


def open_server(url: str) -> BlockLevel:
    redis_log._KNOWN_S = -1.0  # what was known a moment ago is not good enough here
    return open_redis(url, FINGERPRINT, ttl_s=100)


@dataclass
class Worker:
    """An engine with nothing but names: `computed` says at which version it has computed what."""

    level: BlockLevel
    log: DeltaLog
    least: Any  # of each of HEADS, the version that a block read from now on must have
    random: random.Random
    known: int = 0
    computed: dict[bytes, int] = field(default_factory=dict)
    num_read: int = 0

    def run(self) -> None:
        self.known = self.log.version()
        for _ in range(NUM_OPERATIONS):
            with suppress(LevelFailure):
                self.random.choices([self.take_in, self.put, self.get, self.forget], weights=[3, 6, 8, 1])[0]()

    def take_in(self) -> None:
        while self.log.version() != self.known:
            deltas = self.log.read(self.known)
            if not deltas.is_complete:
                self.computed.clear()
            for forget in deltas.forgets:
                self._lose(forget)
            self.known = deltas.version

    def put(self) -> None:
        heads = self._part()
        blocks = []
        for head in heads:
            version = self.computed.setdefault(head.name, self.known)
            blocks.append(StoredBlock(head, memoryview(struct.pack("<Q", version) * (BLOCK_BYTES // 8))))
        try:
            self.level.put(blocks, self.known)
        except Outdated:
            self.take_in()

    def get(self) -> None:
        heads, least = self._part(), list(self.least)
        first = HEADS.index(heads[0])
        before = [head.name for head in HEADS[:first] if head in next(each for each in CHAINS if heads[0] in each)]
        buffers = [bytearray(BLOCK_BYTES) for _ in heads]
        num_arrived = self.level.get([head.name for head in heads], [memoryview(each) for each in buffers], before)
        for index, buffer in enumerate(buffers[:num_arrived], first):
            (version,) = struct.unpack_from("<Q", buffer)
            assert version >= least[index], f"block {index} of {version} was forgotten after {least[index]}"
        self.num_read += num_arrived

    def forget(self) -> None:
        head = self.random.choice(HEADS)
        scope, target = self.random.choice(
            [(Scope.BLOCK, head.name), (Scope.PREFIX, head.name), (Scope.TENANT, head.tenant)]
        )
        self.take_in()
        forget, before = Forget(scope, target), self.log.version()
        self._lose(forget)
        self.level.forget([forget])
        for index in _covered(forget):
            self.least[index] = max(self.least[index], before + 1)
        self.take_in()

    def _part(self) -> list[BlockHead]:
        heads = self.random.choice(CHAINS)
        start = self.random.randrange(len(heads))
        return heads[start : start + self.random.randint(1, len(heads))]

    def _lose(self, forget: Forget) -> None:
        for index in _covered(forget):
            self.computed.pop(HEADS[index].name, None)


def _covered(forget: Forget) -> list[int]:
    """Indices in HEADS."""
    for heads in CHAINS:
        names = [head.name for head in heads]
        if forget.scope is Scope.PREFIX and forget.target in names:
            return [HEADS.index(head) for head in heads[names.index(forget.target) :]]
    return [
        index
        for index, head in enumerate(HEADS)
        if forget.target == (head.tenant if forget.scope is Scope.TENANT else head.name)
    ]


def work(open_level: Open, least: Any, seed: int, num_read: Any) -> None:
    level = open_level()
    assert level.log is not None
    worker = Worker(level, level.log, least, random.Random(seed))
    worker.run()
    level.close()
    num_read[seed % SEEDS] = worker.num_read


@contextmanager
def a_host(directory: Path) -> Iterator[Open]:
    yield partial(open_host, directory)


@contextmanager
def a_server(_directory: Path) -> Iterator[Open]:
    with running_redis() as server:
        yield partial(open_server, server.url)


@pytest.mark.parametrize("place", [a_host, a_server])
@pytest.mark.parametrize("seed", range(1))
def test_nobody_reads_what_was_forgotten(place: Callable[[Path], Any], seed: int, tmp_path: Path) -> None:
    context, draw = get_context("spawn"), random.Random(seed)
    # Without locks, which a process that is killed would keep.
    least, num_read = context.RawArray(c_uint64, len(HEADS)), context.RawArray(c_uint64, NUM_WORKERS + 1)
    with place(tmp_path) as open_level:

        def start(number: int) -> BaseProcess:
            process = context.Process(target=work, args=(open_level, least, number + SEEDS * seed, num_read))
            process.start()
            return process

        workers = [start(number) for number in range(NUM_WORKERS + 1)]
        _disturb(workers[-1], draw)
        for worker in workers:
            worker.join(WAIT_S)
        assert [worker.exitcode for worker in workers[:-1]] == [0] * NUM_WORKERS
        assert workers[-1].exitcode in (0, -signal.SIGKILL)
    assert sum(num_read) > 300
    assert sum(version > 0 for version in least) > len(HEADS) // 2


def _disturb(worker: BaseProcess, draw: random.Random) -> None:
    """Stop it now and then, and kill it in the end, wherever it is then."""
    assert worker.pid is not None
    for _ in range(10):
        worker.join(draw.uniform(0, 0.2))
        if worker.exitcode is None:
            os.kill(worker.pid, signal.SIGSTOP)
            time.sleep(draw.uniform(0, 0.05))
            os.kill(worker.pid, signal.SIGCONT)
    worker.kill()
