"""A level behind a circuit breaker: while it is down, calls fail at once, and now and then one is let through.

    CLOSED  --failures in a row-->  OPEN  --after a wait-->  TRYING  --success-->  CLOSED
                                     ^                          |
                                     +---------failure----------+   and twice the wait, up to a bound

What a level was told to forget while it could not, it is told again before anything else is asked of it.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import Lock
from typing import TypeVar

from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import BlockLevel, LevelFailure, LevelStats, Outdated, StoredBlock, Unreachable, checked
from tailrace.levels.delta_log import DeltaLog, Deltas
from tailrace.levels.health import LevelHealth, Part
from tailrace.records import Tell, untold
from tailrace.types import Level

__all__ = ["Breaker", "BreakerConfig", "BreakerState", "Circuit"]

Answer = TypeVar("Answer")

_MAX_LOG_WAIT_S = 1.0  # as long as it cannot be read, nobody knows what others forget


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    failures_to_open: int = 3  # in a row
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    jitter: float = 0.2  # each wait is shorter or longer by up to this share, so that hosts do not come all at once
    max_owed: int = 256  # forgets to be made up for; more are taken together


class Circuit:
    """The states, of which `health` hears, as of a part of the level. One call at a time.

    What shows that the level as a whole cannot be reached opens the circuit of the `whole`. Counts may be read by any
    thread.
    """

    def __init__(
        self,
        part: Part,
        health: LevelHealth,
        config: BreakerConfig,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        *,
        whole: "Circuit | None" = None,
    ) -> None:
        self._part = part
        self._health = health
        self._whole = whole
        self._config = config
        self._clock = clock
        self._draw = draw
        self._num_in_row = 0
        self._wait_s = config.first_wait_s
        self._retry_s = 0.0
        self._reason = ""
        self.state = BreakerState.CLOSED
        self.num_failed = 0
        self.num_opened = 0
        self.num_refused = 0  # answered at once

    def call(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` answers. Raises LevelFailure if it does, or at once while the circuit is open."""
        self._admit()
        try:
            answer = ask()
        except LevelFailure as failure:
            self._failed(failure)
            raise
        except Outdated:  # an answer, too
            self._succeeded()
            raise
        except Exception as error:  # a fault of ours, and no better than any other
            self._failed(LevelFailure(f"{type(error).__name__}, a fault of the level"))
            raise
        self._succeeded()
        return answer

    def require_closed(self) -> None:
        """Raise LevelFailure unless all is well."""
        if self.state is not BreakerState.CLOSED:
            raise LevelFailure(self._reason)

    def _admit(self) -> None:
        if self.state is not BreakerState.OPEN:
            return
        if self._clock() < self._retry_s:
            self.num_refused += 1
            raise LevelFailure(self._reason)
        self.state = BreakerState.TRYING

    def _failed(self, failure: LevelFailure) -> None:
        self.num_failed += 1
        self._num_in_row += 1
        if self.state is BreakerState.TRYING:
            self._wait_s = min(2 * self._wait_s, self._config.max_wait_s)
            self._open(str(failure))
        elif self._num_in_row >= self._config.failures_to_open:
            self._give_up(failure)

    def _give_up(self, failure: LevelFailure) -> None:
        if self._whole is not None and isinstance(failure, Unreachable):
            self._num_in_row = 0
            self._whole._open(str(failure))
        else:
            self._open(str(failure))

    def _open(self, reason: str) -> None:
        self._reason = reason
        self.num_opened += self.state is BreakerState.CLOSED
        self.state = BreakerState.OPEN
        self._retry_s = self._clock() + self._wait_s * (1 + self._config.jitter * (2 * self._draw() - 1))
        self._health.down(self._part, reason)

    def _succeeded(self) -> None:
        if self.state is BreakerState.TRYING:
            self._health.up(self._part)
        self.state = BreakerState.CLOSED
        self._num_in_row = 0
        self._wait_s = self._config.first_wait_s


class Breaker:
    """A `BlockLevel` around another; `circuit` tells how it is, `writes` how writing to it is, `health` all together.

    A level that is full and evicts nothing, or that may only be read, is still good for reading.

    `everything` covers all that the level can give: what is owed instead of too many forgets. `tell` hears, on any
    thread, when the level goes down and when it works again.
    """

    def __init__(
        self,
        inner: BlockLevel,
        everything: Forget,
        config: BreakerConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        *,
        tell: Tell = untold,
    ) -> None:
        config = config or BreakerConfig()
        log = inner.log
        self._inner = inner
        self._everything = everything
        self._max_owed = config.max_owed
        self._owed: dict[Forget, None] = {}
        self.health = LevelHealth(inner.level, tell)
        self.circuit = Circuit(Part.READING, self.health, config, clock, draw)
        self.writes = Circuit(Part.WRITING, self.health, config, clock, draw, whole=self.circuit)
        self.log: DeltaLog | None = None
        if log is not None:
            often = replace(config, max_wait_s=min(config.max_wait_s, _MAX_LOG_WAIT_S))
            self.log = _GuardedLog(log, Circuit(Part.LOG, self.health, often, clock, draw))

    @property
    def level(self) -> Level:
        return self._inner.level

    @property
    def told(self) -> int:
        return self._inner.told

    @told.setter
    def told(self, version: int) -> None:
        self._inner.told = version

    def contain(self, names: Sequence[bytes]) -> int:
        return self._call(lambda: checked(self._inner.contain(names), len(names)))

    def elsewhere(self, content: bytes) -> BlockHead | None:
        return self._call(lambda: self._inner.elsewhere(content))

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        return self._call(lambda: checked(self._inner.get(names, into, before), len(names)))

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        self.circuit.require_closed()
        return self.writes.call(lambda: self._made_up(lambda: self._inner.put(blocks, version)))

    def forget(self, forgets: Sequence[Forget]) -> int:
        try:
            return self._call(lambda: self._inner.forget(forgets))
        except LevelFailure:
            self._owe(forgets)
            raise

    def stats(self) -> LevelStats:
        """Tells nothing of the level's health: who may read blocks may be forbidden to look at the server."""
        self.circuit.require_closed()
        return self._inner.stats()

    def close(self) -> None:
        """What is owed is tried once more, for nobody makes up for it later."""
        with suppress(LevelFailure):
            self._made_up(lambda: None)
        self._inner.close()

    def _call(self, ask: Callable[[], Answer]) -> Answer:
        return self.circuit.call(lambda: self._made_up(ask))

    def _made_up(self, ask: Callable[[], Answer]) -> Answer:
        if self._owed:
            self._inner.forget(tuple(self._owed))
            self._owed.clear()
        return ask()

    def _owe(self, forgets: Sequence[Forget]) -> None:
        self._owed.update(dict.fromkeys(forgets))
        if len(self._owed) > self._max_owed:
            self._owed = {self._everything: None}


class _GuardedLog:
    """A `DeltaLog` that is not waited for while it is down."""

    def __init__(self, inner: DeltaLog, circuit: Circuit) -> None:
        self._inner = inner
        self._circuit = circuit
        self._lock = Lock()

    def version(self) -> int:
        with self._lock:
            return self._circuit.call(self._inner.version)

    def read(self, since: int) -> Deltas:
        with self._lock:
            return self._circuit.call(lambda: self._inner.read(since))
