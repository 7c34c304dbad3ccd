"""Words between who decides about blocks and who moves their bytes to and from the levels below the engine."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tailrace.kvcache.block import BlockName
from tailrace.kvcache.forget import Forget
from tailrace.types import Level

__all__ = [
    "BlockHead",
    "BlockStore",
    "Fetch",
    "FetchAnswer",
    "ForgetNotice",
    "Lookup",
    "LookupAnswer",
    "Save",
    "SaveAnswer",
    "StoreAnswer",
]


class BlockHead(NamedTuple):
    """What is known of a named block wherever it lies, besides its keys and values.

    `name` stands for the fingerprint, the tenant and all tokens up to the block's end, so equal names hold equal bytes.
    The others let a block be forgotten by what it belongs to. All have 16 bytes.
    """

    name: BlockName
    parent: BlockName  # the block before it; the root of its chain for the first
    tenant: bytes
    fingerprint: bytes
    content: bytes  # stands for all tokens up to the block's end alone: the same for all tenants and fingerprints


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which of these consecutive blocks lie below? They begin where the engine's own prefix ends.

    `content` is that of the first, as in its head; None: nobody wants to know of others with the same. After
    `patience_s` the levels that have not answered are down. Those in `skipped` are not asked.
    """

    lookup_id: int
    names: tuple[BlockName, ...]
    content: bytes | None
    patience_s: float = math.inf
    skipped: frozenset[Level] = frozenset()


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """`levels` says for the first blocks of the lookup the nearest level that has each; they end with the run.

    `down` are the levels that did not answer. Where none has the first, `elsewhere` is the head of a block of the same
    tokens, for another tenant or fingerprint, if there is one.
    """

    lookup_id: int
    levels: tuple[Level, ...]
    down: tuple[Level, ...] = ()
    elsewhere: BlockHead | None = None
    asked: tuple[tuple[Level, float], ...] = field(default=(), compare=False)  # and the seconds that each took


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read named blocks from one level into reserved blocks, which nobody else touches until the answer.

    `before` are the names of the same chain in front of them: if one was forgotten, so was what continues it. After
    `patience_s` it is given up, with what has arrived by then.
    """

    fetch_id: int
    level: Level
    names: tuple[BlockName, ...]
    block_ids: tuple[int, ...]
    before: tuple[BlockName, ...] = ()
    patience_s: float = math.inf


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """How many of the blocks arrived whole, from the first on: a block without the one before it is of no use."""

    fetch_id: int
    num_arrived: int
    took_s: float
    is_down: bool = False  # the level failed; else what did not arrive is not there any more


@dataclass(frozen=True, slots=True)
class Save:
    """Copy a sealed block to the levels below but those in `skipped`. It does not change, until the answer."""

    head: BlockHead
    block_id: int
    skipped: frozenset[Level] = frozenset()


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """These blocks need not be held any longer, whether or not they were written."""

    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetNotice:
    """Somebody else who shares a level has invalidated something."""

    forgets: tuple[Forget, ...]


StoreAnswer = LookupAnswer | FetchAnswer | SaveAnswer | ForgetNotice


class BlockStore(Protocol):
    """The levels below the engine as its step loop sees them. No call waits for a level; answers are fetched later.

    Each lookup, fetch and save that was taken is answered exactly once, whatever becomes of the level.
    """

    @property
    def levels(self) -> tuple[Level, ...]: ...

    def look_up(self, lookup: Lookup) -> None: ...

    def fetch(self, fetch: Fetch) -> None: ...

    def save(self, saves: tuple[Save, ...]) -> int:
        """Take as many of them as there is room for, from the first on; how many."""
        ...

    def forget(self, forgets: tuple[Forget, ...]) -> None:
        """Invalidate below, and tell all others who share a level."""
        ...

    def take(self) -> list[StoreAnswer]:
        """What was answered since the last call; lookups and fetches that are overdue are given up here."""
        ...

    @property
    def due_s(self) -> float | None:
        """When the next of them is overdue, on the clock of the step loop; None: nothing is waited for."""
        ...

    def close(self) -> None: ...
