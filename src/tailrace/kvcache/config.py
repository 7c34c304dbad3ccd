"""Bounds of the KV cache, and how many blocks a sequence needs."""

from dataclasses import dataclass, field

from tailrace.errors import SetupError
from tailrace.kvcache.eviction import EvictionConfig

__all__ = ["CompactionConfig", "KvCacheConfig", "SweepConfig"]


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Shares of lost blocks, see `ChunkMap.lost_share`, between which blocks are moved, and how many in a step."""

    begin_above: float = 0.55
    end_below: float = 0.45
    urgent_above: float = 0.68
    urgent_until: float = 0.55
    moves_a_step: int = 4  # in quiet steps
    urgent_moves_a_step: int = 32  # in all

    def __post_init__(self) -> None:
        if not 0.0 <= self.end_below <= self.begin_above <= self.urgent_above <= 1.0:
            raise SetupError(
                f"compaction ends below {self.end_below}, begins above {self.begin_above}: give them order"
            )
        if not self.end_below <= self.urgent_until <= self.urgent_above:
            raise SetupError(f"urgent compaction ends at {self.urgent_until}: choose a share between the two others")
        if min(self.moves_a_step, self.urgent_moves_a_step) < 1:
            raise SetupError("compaction needs at least one move a step")


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """When idle blocks become free although nobody asks for one, and when free memory goes back to the system.

    Shares are of all blocks. Blocks that have been idle for `idle_s` go while less than `free_share` is free; those
    that `num_passes` sweeps have passed over, `pass_period_s` apart, go while less than `quiet_share` is occupied.
    """

    period_s: float = 0.2
    max_blocks: int = 128  # a sweep makes free: it delays a step by less than a millisecond
    idle_s: float = 0.2
    free_share: float = 0.15
    quiet_share: float = 0.70
    pass_period_s: float = 100.0
    num_passes: int = 3
    chunk_idle_s: float = 1.0  # a chunk keeps its memory for so long: a request that comes soon needs not wait for it

    def __post_init__(self) -> None:
        if min(self.period_s, self.max_blocks, self.num_passes) <= 0:
            raise SetupError("sweeps of the KV cache need a period, a bound and a number of passes above zero")


@dataclass(frozen=True, slots=True)
class KvCacheConfig:
    """`root_parts` name all that changes keys and values besides tokens: weights, KV format, rope settings.

    `window_tokens`: how many positions a row sees, its own included, in the layer that sees most; None: all. A block
    holds the keys and values of all layers, so that one layer which sees everything keeps all blocks.

    `chunk_tokens`: memory comes and goes for so many tokens at a time, rounded up to whole blocks.
    """

    num_blocks: int
    block_tokens: int
    root_parts: tuple[str, ...]
    window_tokens: int | None = None
    chunk_tokens: int = 128
    eviction: EvictionConfig = field(default_factory=EvictionConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    compaction: CompactionConfig | None = field(default_factory=CompactionConfig)

    def __post_init__(self) -> None:
        if self.num_blocks < 1 or self.block_tokens < 1:
            raise SetupError(
                f"the KV cache needs at least one block of at least one token, not {self.num_blocks} blocks "
                f"of {self.block_tokens} tokens: give it more memory"
            )
        if self.chunk_tokens < 1:
            raise SetupError(f"KV memory cannot come in chunks of {self.chunk_tokens} tokens: use one or more")
        if self.window_tokens is not None and self.window_tokens < 1:
            raise SetupError(f"a window of {self.window_tokens} tokens: a row sees at least itself")

    @property
    def num_tokens(self) -> int:
        return self.num_blocks * self.block_tokens

    @property
    def chunk_blocks(self) -> int:
        return min(self.blocks_for(self.chunk_tokens), self.num_blocks)

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_tokens)

    @property
    def slide_blocks(self) -> int:
        """Windows move on by so many blocks at a time, an eighth of their length, to places that are multiples of it.

        So sequences that share a prefix mostly begin with the same block, and back ends that look for a common
        beginning of their tables find it.
        """
        return 1 if self.window_tokens is None else max(self.window_tokens // self.block_tokens // 8, 1)

    def first_seen_block(self, position: int) -> int:
        """The first block that the row at `position` or one behind it sees."""
        if self.window_tokens is None:
            return 0
        return max(position + 1 - self.window_tokens, 0) // self.block_tokens

    def blocks_at_once(self, num_tokens: int) -> int:
        """Blocks that a sequence of `num_tokens` holds together at most, if it computes no more than a block a step."""
        num_blocks = self.blocks_for(num_tokens)
        if self.window_tokens is None:
            return num_blocks
        # A window touches most blocks when it begins with the last position of one, just before it moves on.
        return min(num_blocks, self.slide_blocks + self.blocks_for(self.window_tokens - 1))

    def can_hold(self, num_tokens: int) -> bool:
        """Whether a sequence of `num_tokens` can be computed to its end."""
        return self.blocks_at_once(num_tokens) <= self.num_blocks
