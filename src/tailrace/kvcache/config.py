"""Bounds of the KV cache, and how many blocks a sequence needs."""

from dataclasses import dataclass

from tailrace.errors import SetupError

__all__ = ["KvCacheConfig"]


@dataclass(frozen=True, slots=True)
class KvCacheConfig:
    """`root_parts` name all that changes keys and values besides tokens: weights, KV format, rope settings.

    `window_tokens`: how many positions a row sees, its own included, in the layer that sees most; None: all. A block
    holds the keys and values of all layers, so that one layer which sees everything keeps all blocks.
    """

    num_blocks: int
    block_tokens: int
    root_parts: tuple[str, ...]
    window_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.num_blocks < 1 or self.block_tokens < 1:
            raise SetupError(
                f"the KV cache needs at least one block of at least one token, not {self.num_blocks} blocks "
                f"of {self.block_tokens} tokens: give it more memory"
            )
        if self.window_tokens is not None and self.window_tokens < 1:
            raise SetupError(f"a window of {self.window_tokens} tokens: a row sees at least itself")

    @property
    def num_tokens(self) -> int:
        return self.num_blocks * self.block_tokens

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
