"""Two hosts on one Redis server, random calls, and a server that dies, hangs, evicts and is tampered with.

Whatever happens, a block that is given out is the right one, and none that was forgotten and not written since.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure, Outdated, StoredBlock
from tailrace.levels.breaker import Breaker, BreakerConfig
from tailrace.levels.redis import open_redis
from tests.support.blocks import FINGERPRINT, chain, contents, fetch, stored, word
from tests.support.redis_server import RedisServer, running_redis

TENANTS = [word("one tenant"), word("another")]
CHAINS = [stored(chain(number, 20, tenant)) for tenant in TENANTS for number in range(3)]
NUM_CALLS = 1500


class Machine:
    """`written` are the names that may be there: put, maybe in vain, and not forgotten since."""

    def __init__(self, server: RedisServer, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = server
        self.now_s = 0.0
        self.hosts = [self._host() for _ in range(2)]
        self.versions = [0, 0]
        self.written: set[bytes] = set()
        self.num_fetched = 0
        self.calls: list[tuple[int, Callable[[], None]]] = [
            (30, self.put),
            (40, self.get),
            (10, self.contain),
            (4, self.forget),
            (4, self.alter),
            (2, self.evict),
            (2, self.hang_up),
            (1, self.freeze),
            (1, self.die),
        ]

    def _host(self) -> Breaker:
        level = open_redis(self.server.url, FINGERPRINT, ttl_s=100, timeout_s=0.1)
        return Breaker(level, Forget(Scope.FINGERPRINT, FINGERPRINT), BreakerConfig(), lambda: self.now_s)

    def run(self) -> None:
        weights = [weight for weight, _ in self.calls]
        for _, call in self.random.choices(self.calls, weights, k=NUM_CALLS):
            self.now_s += self.random.expovariate(1.0)
            call()

    def part(self) -> list[StoredBlock]:
        blocks = self.random.choice(CHAINS)
        start = self.random.randrange(len(blocks))
        return blocks[start : start + self.random.randint(1, len(blocks))]

    def put(self) -> None:
        host, blocks = self.random.randrange(2), self.part()
        with suppress(LevelFailure):
            try:
                self.written.update(block.head.name for block in blocks)
                self.hosts[host].put(blocks, self.versions[host])
            except Outdated:
                self.versions[host] = self._version(host)

    def _version(self, host: int) -> int:
        log = self.hosts[host].log
        assert log is not None
        return log.read(self.versions[host]).version

    def get(self) -> None:
        blocks = self.random.choice(CHAINS)
        start = self.random.randrange(len(blocks))
        chain_names = [block.head.name for block in blocks]
        names = chain_names[start : start + self.random.randint(1, len(blocks))]
        with suppress(LevelFailure):
            arrived = fetch(self.random.choice(self.hosts), names, before=chain_names[:start])
            assert arrived == [contents(name) for name in names[: len(arrived)]]
            assert self.written.issuperset(names[: len(arrived)])
            self.num_fetched += len(arrived)

    def contain(self) -> None:
        names = [block.head.name for block in self.part()]
        with suppress(LevelFailure):
            assert 0 <= self.random.choice(self.hosts).contain(names) <= len(names)

    def forget(self) -> None:
        blocks = self.random.choice(CHAINS)
        index = self.random.randrange(len(blocks))
        forget, covered = self.random.choice(
            [
                (Forget(Scope.BLOCK, blocks[index].head.name), blocks[index : index + 1]),
                (Forget(Scope.PREFIX, blocks[index].head.name), blocks[index:]),
                (Forget(Scope.TENANT, blocks[0].head.tenant), self._of_tenant(blocks[0].head.tenant)),
                (Forget(Scope.FINGERPRINT, FINGERPRINT), [block for each in CHAINS for block in each]),
            ]
        )
        host = self.random.choice(self.hosts)
        try:
            host.forget([forget])
        except LevelFailure:
            self._until_it_answers(host)
        self.written.difference_update(block.head.name for block in covered)

    def _of_tenant(self, tenant: bytes) -> list[StoredBlock]:
        return [block for blocks in CHAINS for block in blocks if block.head.tenant == tenant]

    def _until_it_answers(self, host: Breaker) -> None:
        """From then on what it owed is done."""
        while True:
            self.now_s += 60
            with suppress(LevelFailure):
                host.contain([])
                return

    def alter(self) -> None:
        with self.server.client() as client:
            keys = client.keys("tailrace:*")
            if len(keys) < 2:
                return
            (key, another), offset = self.random.sample(keys, 2), self.random.randrange(1100)
            match self.random.randrange(4):
                case 0:
                    client.setrange(key, offset, self.random.randbytes(3))
                case 1:
                    client.append(key, b"x")
                case 2:
                    client.set(key, client.getrange(key, 0, offset) or b"")
                case 3:
                    client.set(key, client.get(another) or b"")

    def evict(self) -> None:
        with self.server.client() as client:
            for key in client.keys("tailrace*"):
                if self.random.random() < 0.1:
                    client.delete(key)
            if self.random.random() < 0.2:
                client.flushall()

    def hang_up(self) -> None:
        with self.server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)

    def freeze(self) -> None:
        self.server.freeze()
        self.random.choice([self.put, self.get, self.contain])()
        self.server.thaw()

    def die(self) -> None:
        self.server.kill()
        for call in self.random.choices([self.put, self.get, self.contain], k=5):
            call()
        self.server.start()

    def close(self) -> None:
        for host in self.hosts:
            host.close()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.mark.parametrize("seed", range(3))
def test_never_a_wrong_block_and_never_a_forgotten_one(
    server: RedisServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_log._KNOWN_S", -1.0)  # else what others forget shows a moment later
    machine = Machine(server, seed)
    try:
        machine.run()
    finally:
        machine.close()
    assert machine.num_fetched > 100
