"""When idle blocks become free although nobody asks for one. It picks them; the cache removes their names.

expired     not used for its time to live
evicted     too few blocks are free, and it is idle for a moment: the next request need not wait for it
released    several sweeps, far apart, have passed it over while much of the pool was free: memory is to go back
"""

from collections import deque
from collections.abc import Iterator

from tailrace.kvcache.block import Block
from tailrace.kvcache.config import SweepConfig
from tailrace.kvcache.eviction import Standing
from tailrace.kvcache.pool import BlockPool
from tailrace.types import MissReason

__all__ = ["Sweeper"]


class Sweeper:
    """Times are those that the pool was told."""

    def __init__(self, config: SweepConfig, pool: BlockPool) -> None:
        self._config = config
        self._pool = pool
        self._passes: deque[float] = deque(maxlen=config.num_passes)
        self._swept_s: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the last sweep lies a period back."""
        return self._swept_s is None or self._pool.now_s - self._swept_s >= self._config.period_s

    def victims(self, num_aside: int) -> Iterator[tuple[Block, MissReason]]:
        """Blocks to make free, and why; each must be free before the next is asked for.

        `num_aside` blocks are as good as free.
        """
        self._swept_s = self._pool.now_s
        self._pass(num_aside)
        for _ in range(self._config.max_blocks):
            found = self._next(num_aside)
            if found is None:
                return
            yield found

    def due_s(self, num_aside: int) -> float | None:
        """When a sweep will next find something to do, if nothing else happens; None: never."""
        config, pool = self._config, self._pool
        times = [] if pool.empty_chunk_s is None else [pool.empty_chunk_s + config.chunk_idle_s]
        oldest = pool.oldest()
        if oldest is not None:
            times.append(oldest.uses.last_s + pool.ttl_s)
            if self._free_share(num_aside) < config.free_share:
                times.append(pool.now_s)
            elif self._is_quiet(num_aside):
                times.append(pool.now_s if self._was_passed_over(oldest) else self._next_pass_s)
        if not times:
            return None
        earliest_s = pool.now_s if self._swept_s is None else self._swept_s + config.period_s
        return max(min(times), earliest_s)

    def _next(self, num_aside: int) -> tuple[Block, MissReason] | None:
        config, pool = self._config, self._pool
        victim = pool.victim()
        if victim is None:
            return None
        block, standing = victim
        if standing is Standing.EXPIRED:
            return block, MissReason.EXPIRED
        if self._free_share(num_aside) < config.free_share:
            return (block, MissReason.EVICTED) if pool.now_s - block.uses.last_s >= config.idle_s else None
        oldest = pool.oldest()
        if oldest is not None and self._is_quiet(num_aside) and self._was_passed_over(oldest):
            return oldest, MissReason.RELEASED
        return None

    def _pass(self, num_aside: int) -> None:
        """Pass over all that is idle now, if it is time to and the pool is quiet."""
        if self._is_quiet(num_aside) and self._pool.now_s >= self._next_pass_s:
            self._passes.append(self._pool.now_s)

    @property
    def _next_pass_s(self) -> float:
        return self._passes[-1] + self._config.pass_period_s if self._passes else self._pool.now_s

    def _was_passed_over(self, block: Block) -> bool:
        """Whether an idle block has been so since before the first of the last few passes."""
        return len(self._passes) == self._config.num_passes and block.uses.last_s <= self._passes[0]

    def _free_share(self, num_aside: int) -> float:
        return (self._pool.num_free + num_aside) / len(self._pool.blocks)

    def _is_quiet(self, num_aside: int) -> bool:
        return 1.0 - self._free_share(num_aside) < self._config.quiet_share
