"""The KV pool: what its blocks are, why idle ones went, and the memory under them, read when somebody looks."""

from collections.abc import Callable

from tailrace.records import PoolRecord
from tailrace.telemetry.catalogs import kv as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["PoolMetrics"]

_STATES = ("released", "free", "reserved", "filling", "sealed", "idle")
_CAUSES = ("evicted", "expired", "released", "invalidated")


class PoolMetrics:
    """Shows no bytes until `watch` has said whom to ask."""

    def __init__(self) -> None:
        self._read: Callable[[], int] = int
        self._shown: PoolRecord | None = None
        self._blocks = LabelledNumber(catalog.KV_BLOCKS_BY_STATE, [(state,) for state in _STATES])
        self._removed = LabelledNumber(catalog.KV_BLOCKS_REMOVED, [(cause,) for cause in _CAUSES])
        self._chunks = Number(catalog.KV_CHUNKS_COMMITTED)
        self._partial = Number(catalog.KV_CHUNKS_PARTIAL)
        self._fragmentation = Number(catalog.KV_CHUNK_FRAGMENTATION)
        self._longest_free = Number(catalog.KV_LONGEST_FREE_CHUNKS)
        self._moved = Number(catalog.KV_BLOCKS_MOVED)
        self._resident = Number(catalog.KV_RESIDENT_BYTES)
        self.series: tuple[Series, ...] = (
            self._blocks,
            self._removed,
            self._chunks,
            self._partial,
            self._fragmentation,
            self._longest_free,
            self._moved,
            self._resident,
        )

    def record(self, pool: PoolRecord) -> None:
        """Take in the pool as it is after a step. From the engine's thread only."""
        if pool is self._shown:
            return  # as it mostly is: one record serves many steps
        self._shown = pool
        self._blocks.set(pool.num_released, "released")
        self._blocks.set(pool.num_free, "free")
        self._blocks.set(pool.num_reserved, "reserved")
        self._blocks.set(pool.num_filling, "filling")
        self._blocks.set(pool.num_sealed, "sealed")
        self._blocks.set(pool.num_idle, "idle")
        self._removed.follow(pool.num_evicted_total, "evicted")
        self._removed.follow(pool.num_expired_total, "expired")
        self._removed.follow(pool.num_swept_total, "released")
        self._removed.follow(pool.num_invalidated_total, "invalidated")
        self._chunks.value = pool.num_committed_chunks
        self._partial.value = pool.num_partial_chunks
        self._fragmentation.value = pool.chunk_fragmentation
        self._longest_free.value = pool.longest_free_chunks
        self._moved.follow(pool.num_moved_total)

    def watch(self, read: Callable[[], int]) -> None:
        """Ask `read` for the resident bytes, in any thread."""
        self._read = read

    def refresh(self) -> None:
        """Bring the resident bytes up to date."""
        self._resident.value = self._read()
