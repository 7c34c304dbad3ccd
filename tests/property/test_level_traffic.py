"""Random use of a level by several users, with bytes that change where they lie: no block is wrong, no bound exceeded.

TAILRACE_SOAK=N does N times as much.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import BlockLevel, LevelFailure
from tailrace.levels.disk import DiskLevel
from tailrace.levels.disk_files import DiskFiles
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tests.support.blocks import chain, fetched, stored, word

NUM_OPERATIONS = 300 * int(os.environ.get("TAILRACE_SOAK", "1"))
BLOCK = 3000
TENANTS, FINGERPRINTS = (word("a"), word("b")), (word("f"), word("g"))
CHAINS = [chain(str(label), 8, t, f) for label in range(4) for t in TENANTS for f in FINGERPRINTS]


def host(directory: Path) -> HostLevel:
    return HostLevel(BLOCK, Layout(BLOCK, 24).file_bytes, directory=directory)


def disk(directory: Path) -> DiskLevel:
    return DiskLevel(directory, BLOCK, DiskFiles.bytes_for(BLOCK, 24))


def covers(forget: Forget, heads: list[BlockHead], index: int) -> bool:
    match forget.scope:
        case Scope.BLOCK:
            return heads[index].name == forget.target
        case Scope.PREFIX:
            return forget.target in [head.name for head in heads[: index + 1]]
        case Scope.TENANT:
            return heads[index].tenant == forget.target
        case Scope.FINGERPRINT:
            return heads[index].fingerprint == forget.target


@dataclass
class Traffic:
    """`put` are the blocks that were put since they were last forgotten: no other may be there."""

    directory: Path
    open_level: Callable[[Path], BlockLevel]
    num_users: int
    is_damaged: bool
    draw: random.Random
    users: list[BlockLevel] = field(default_factory=list)
    put: set[bytes] = field(default_factory=set)

    def run(self, num_operations: int) -> None:
        self.users = [self.open_level(self.directory) for _ in range(self.num_users)]
        operations = [self.save, self.save, self.fetch, self.fetch, self.look_up, self.forget, self.restart]
        for _ in range(num_operations):
            self.draw.choice(operations + [self.damage] * self.is_damaged)()
            self.check_bound()
        for user in self.users:
            user.close()

    def some(self) -> list[BlockHead]:
        """Mostly a prompt from its beginning; at times what continues one that is not there."""
        first = self.draw.choice([0, 0, 0, 0, 0, 3])
        return self.draw.choice(CHAINS)[first : self.draw.randint(first + 1, 8)]

    def save(self) -> None:
        user, heads = self.draw.choice(self.users), self.some()
        version = 0 if user.log is None else user.log.version()
        count = user.put(stored(heads, BLOCK), version)
        self.put.update(head.name for head in heads)
        assert count <= len(heads)

    def fetch(self) -> None:
        heads = self.some()
        count = fetched(self.draw.choice(self.users), heads, BLOCK)
        assert self.put.issuperset(head.name for head in heads[:count]), "a block that was forgotten"

    def look_up(self) -> None:
        user, heads = self.draw.choice(self.users), self.some()
        count = user.contain([head.name for head in heads])
        if not self.is_damaged:
            assert fetched(user, heads, BLOCK) == count

    def forget(self) -> None:
        heads = self.draw.choice(CHAINS)
        head = self.draw.choice(heads)
        scope = self.draw.choice([Scope.BLOCK] * 6 + [Scope.PREFIX] * 6 + [Scope.TENANT, Scope.FINGERPRINT])
        target = {Scope.TENANT: head.tenant, Scope.FINGERPRINT: head.fingerprint}.get(scope, head.name)
        forget = Forget(scope, target)
        self.draw.choice(self.users).forget([forget])
        for heads in CHAINS:
            for index, head in enumerate(heads):
                if covers(forget, heads, index):
                    self.put.discard(head.name)

    def restart(self) -> None:
        index = self.draw.randrange(len(self.users))
        self.users[index].close()
        try:
            self.users[index] = self.open_level(self.directory)
        except LevelFailure:
            assert self.is_damaged
            for user in self.users[:index] + self.users[index + 1 :]:
                user.close()
            self.users = [self.open_level(self.directory) for _ in range(self.num_users)]

    def damage(self) -> None:
        path = self.draw.choice([path for path in self.directory.iterdir() if path.stat().st_size > 100])
        with path.open("r+b") as file:
            for _ in range(self.draw.randint(1, 20)):
                at = self.draw.randrange(path.stat().st_size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << self.draw.randrange(8)]))

    def check_bound(self) -> None:
        stats = self.users[0].stats()
        assert sum(path.stat().st_size for path in self.directory.iterdir()) <= stats.max_bytes
        assert stats.num_bytes <= stats.max_bytes


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize(("open_level", "num_users"), [(host, 1), (host, 3), (disk, 1)])
def test_no_block_is_wrong_or_forgotten_and_no_bound_exceeded(
    tmp_path: Path, open_level: Callable[[Path], BlockLevel], num_users: int, is_damaged: bool
) -> None:
    Traffic(tmp_path, open_level, num_users, is_damaged, random.Random(num_users)).run(NUM_OPERATIONS)


def test_a_level_of_all_prompts_gives_each_of_them(tmp_path: Path) -> None:
    level = HostLevel(BLOCK, Layout(BLOCK, 8 * len(CHAINS)).file_bytes, directory=tmp_path)
    for heads in CHAINS:
        assert level.put(stored(heads, BLOCK), level.log.version()) == 8
    assert [fetched(level, heads, BLOCK) for heads in CHAINS] == [8] * len(CHAINS)
    level.forget([Forget(Scope.TENANT, TENANTS[0])])
    assert level.stats().num_blocks == 4 * len(CHAINS)
