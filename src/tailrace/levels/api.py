"""What a level below the engine must offer: places for named blocks, and nothing that decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.delta_log import DeltaLog
from tailrace.types import Level

__all__ = ["BlockLevel", "LevelFailure", "LevelStats", "Outdated", "StoredBlock", "TooSmall", "Unreachable", "checked"]


class LevelFailure(Exception):
    """The level cannot do what it was asked, now: it is down, slow, full of errors or lying. Costs a miss, no more."""


class TooSmall(LevelFailure):
    """The level's bound has no room for one block."""


class Unreachable(LevelFailure):
    """Whatever it is asked: the level as a whole is down."""


class Outdated(Exception):
    """Something was forgotten since the version that a put names: what it brings may be covered. Nothing was written.

    Whoever puts drops it, as it drops saves it has no time for.
    """


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A named block with its bytes, all keys and values of its positions in the engine's own layout."""

    head: BlockHead
    data: memoryview


@dataclass(frozen=True, slots=True)
class LevelStats:
    num_blocks: int
    num_bytes: int
    max_bytes: int
    num_evicted: int  # since this process opened it, like the next
    num_corrupt: int  # blocks that failed their checksum and were dropped


class BlockLevel(Protocol):
    """Calls come in batches and block; one thread at a time makes them. Each may raise LevelFailure.

    A block that is wrong in any way (checksum, length, name, torn by a crash) is dropped and counted, never given out.
    No entry is larger than the level's bound allows, and its bytes never exceed the bound.
    """

    @property
    def level(self) -> Level: ...

    def contain(self, names: Sequence[bytes]) -> int:
        """How many of these consecutive blocks are there, from the first on."""
        ...

    def elsewhere(self, content: bytes) -> BlockHead | None:
        """A block of the same tokens, whatever its name; None too where the level has no index of them."""
        ...

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        """Copy blocks from the first on, until one is missing; how many. Counts as a use of each.

        `before` are the names in front of them, for levels where what continues a forgotten prefix can still lie about.
        Buffers behind the last block that arrived are left in any state.
        """
        ...

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        """Keep blocks, evicting others where needed; how many were written or there already.

        `version` is that of the newest forget in `log` that the engine had taken in when it saved them. Raises Outdated
        when the log is further: to compare and to write is one, as is to drop and to append in `forget`, so that what
        was forgotten never comes back. A level of one engine alone, without a log, ignores it.
        """
        ...

    def forget(self, forgets: Sequence[Forget]) -> int:
        """Drop all that they cover, and append them to the log, if there is one; how many blocks went."""
        ...

    told: int
    """For the log of a level that reaches further: up to which version what others have forgotten was forgotten here.

    Kept as long as the blocks are; 0: nobody has told it of any. A level that reaches furthest has no use for it.
    """

    @property
    def log(self) -> DeltaLog | None:
        """What was forgotten here, by whomever; None when nobody else uses this level. May be read by any thread."""
        ...

    def stats(self) -> LevelStats: ...

    def close(self) -> None: ...


def checked(count: int, limit: int) -> int:
    """Raises LevelFailure for an answer that cannot be true."""
    if not 0 <= count <= limit:
        raise LevelFailure(f"it says that {count} of {limit} blocks are there")
    return count
