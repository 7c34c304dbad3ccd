"""A level in memory that does what a test tells it: wait, fail, lie, be full."""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure, LevelStats, Outdated, StoredBlock
from tailrace.levels.delta_log import Deltas
from tailrace.types import Level

__all__ = ["Gate", "MemoryLevel", "MemoryLog"]

_WAIT_S = 20.0


class Gate:
    """Holds up who calls a level."""

    def __init__(self, call: str) -> None:
        self._call = call
        self._reached = threading.Event()
        self._opened = threading.Event()

    def pass_through(self, call: str) -> None:
        if call == self._call:
            self._reached.set()
            assert self._opened.wait(_WAIT_S)

    def await_arrival(self) -> None:
        assert self._reached.wait(_WAIT_S)

    def open(self) -> None:
        self._opened.set()


class MemoryLog:
    """A DeltaLog, as if others appended to it. Its versions are 1, 2, ... `reaches` back to one of them."""

    def __init__(self) -> None:
        self.forgets: list[Forget] = []
        self.reaches = 0
        self.is_down = False

    def append(self, *forgets: Forget) -> None:
        self.forgets += forgets

    def version(self) -> int:
        if self.is_down:
            raise LevelFailure("no answer")
        return 1 + len(self.forgets)

    def read(self, since: int) -> Deltas:
        version = self.version()
        if since < max(self.reaches, 1):
            return Deltas(version, is_complete=False)
        return Deltas(version, tuple(self.forgets[since - 1 :]))


class MemoryLevel:
    """A BlockLevel. Set `before` to have something happen before each call, such as waiting or failing."""

    log: MemoryLog | None = None
    told: int = 0

    def __init__(self, level: Level = Level.HOST, max_blocks: int = 1_000_000) -> None:
        self.blocks: dict[bytes, tuple[BlockHead, bytes]] = {}
        self.before: Callable[[str], None] = lambda call: None
        self.overstated = 0  # says that it has so many blocks more than there are
        self.calls: list[str] = []
        self.before_names: tuple[bytes, ...] = ()  # of the latest `get`
        self.is_closed = threading.Event()
        self._level = level
        self._max_blocks = max_blocks

    @property
    def level(self) -> Level:
        return self._level

    def fail(self, only: str | None = None) -> None:
        """From now on every call fails, or every one of this name."""

        def failing(call: str) -> None:
            if only in (None, call):
                raise LevelFailure(f"{call}: no connection")

        self.before = failing

    def hold(self, call: str) -> "Gate":
        """Every call of this name waits until the gate is opened."""
        gate = Gate(call)
        self.before = gate.pass_through
        return gate

    def recover(self) -> None:
        self.before = lambda call: None
        self.overstated = 0

    def contain(self, names: Sequence[bytes]) -> int:
        self._called("contain")
        return self._run(names) + self.overstated

    def elsewhere(self, content: bytes) -> BlockHead | None:
        self._called("elsewhere")
        return next((head for head, _ in self.blocks.values() if head.content == content), None)

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        self.before_names = tuple(before)
        count = self._run(names)
        for name, buffer in zip(names[:count], into, strict=False):
            half = len(buffer) // 2
            buffer[:half] = self.blocks[name][1][:half]
        self._called("get")  # half of each is written by then
        for name, buffer in zip(names[:count], into, strict=False):
            buffer[:] = self.blocks[name][1]
        return count + self.overstated

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        self._called("put")
        if self.log is not None and self.log.version() != version:
            raise Outdated
        for count, block in enumerate(blocks):
            if len(self.blocks) >= self._max_blocks:
                return count
            self.blocks.setdefault(block.head.name, (block.head, bytes(block.data)))
        return len(blocks)

    def forget(self, forgets: Sequence[Forget]) -> int:
        self._called("forget")
        gone = [name for name, (head, _) in self.blocks.items() if any(self._covers(each, head) for each in forgets)]
        for name in gone:
            del self.blocks[name]
        return len(gone)

    def stats(self) -> LevelStats:
        num_bytes = sum(len(data) for _, data in self.blocks.values())
        return LevelStats(len(self.blocks), num_bytes, self._max_blocks, 0, 0)

    def close(self) -> None:
        self.is_closed.set()

    def _called(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)

    def _run(self, names: Sequence[bytes]) -> int:
        return next((index for index, name in enumerate(names) if name not in self.blocks), len(names))

    def _covers(self, forget: Forget, head: BlockHead) -> bool:
        match forget.scope:
            case Scope.BLOCK:
                return head.name == forget.target
            case Scope.PREFIX:
                return self._continues(head, forget.target)
            case Scope.TENANT:
                return head.tenant == forget.target
            case Scope.FINGERPRINT:
                return head.fingerprint == forget.target

    def _continues(self, head: BlockHead, name: bytes) -> bool:
        while head.name != name:
            if head.parent not in self.blocks:
                return False
            head, _ = self.blocks[head.parent]
        return True


class RandomFaults:
    """What may happen before a call of a level: mostly nothing."""

    def __init__(self, level: MemoryLevel, seed: int) -> None:
        self._level = level
        self._random = Random(seed)
        level.before = self.strike

    def strike(self, call: str) -> None:
        self._level.overstated = 0
        match self._random.randrange(12):
            case 0:
                raise LevelFailure(f"{call}: no answer")
            case 1:
                raise OSError(f"{call}: a fault of the level")
            case 2:
                self._level.overstated = 100  # more than there can be
            case 3:
                time.sleep(self._random.random() * 0.02)  # longer than the deadline, at times
            case _:
                pass
