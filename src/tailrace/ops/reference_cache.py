"""The KV pool of the reference, and where the rows of a step stand in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import StepInputs
from tailrace.ops.program import KvCacheSpec
from tailrace.ops.reference_math import Array

__all__ = ["KvCache", "Rows", "caches_within"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Where each token of a step stands: its position, and the block table of its sequence. All [T, ...]."""

    positions: NDArray[np.int64]
    tables: NDArray[np.int32]

    @classmethod
    def of(cls, step: StepInputs) -> "Rows":
        counts = np.diff(step.row_starts)
        sequences = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(step.token_ids)) - step.row_starts[sequences]
        return cls(step.starts[sequences] + within, step.block_tables[step.slots[sequences]])


@dataclass(frozen=True, slots=True)
class Pool:
    """One kind of row of one layer, [num_blocks, block_tokens, G, D]."""

    blocks: Array

    def store(self, rows: Rows, heads: Array) -> None:
        """Keep heads [T, G, D], each at its token's position."""
        block_tokens = self.blocks.shape[1]
        blocks = rows.tables[np.arange(len(heads)), rows.positions // block_tokens]
        self.blocks[blocks, rows.positions % block_tokens] = heads

    def up_to(self, table: NDArray[np.int32], position: int) -> Array:
        """What a sequence's positions hold up to this one, [position + 1, G, D], gathered from its blocks."""
        block_tokens, *head_shape = self.blocks.shape[1:]
        used = table[: position // block_tokens + 1]
        return self.blocks[used].reshape(-1, *head_shape)[: position + 1]


@dataclass(frozen=True, slots=True)
class KvCache:
    """The keys of one layer, and its values: without `spec.has_values` rows of no numbers."""

    spec: KvCacheSpec
    keys: Pool
    values: Pool

    @classmethod
    def within(cls, blocks: Array, first: int, spec: KvCacheSpec, block_tokens: int) -> "KvCache":
        """The rows of `blocks` [num_blocks, floats of a block] from `first` on: the keys, then the values."""
        pools = []
        for dim in (spec.head_dim, spec.head_dim if spec.has_values else 0):
            end = first + block_tokens * spec.num_kv_heads * dim
            pools.append(Pool(blocks[:, first:end].reshape(len(blocks), block_tokens, spec.num_kv_heads, dim)))
            first = end
        return cls(spec, *pools)

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        for pool in (self.keys, self.values):
            pool.blocks[target, :num_tokens] = pool.blocks[source, :num_tokens]


def caches_within(blocks: Array, specs: Sequence[KvCacheSpec], block_tokens: int) -> list[KvCache]:
    """The caches whose rows lie one behind the other in `blocks` [num_blocks, floats of a block]."""
    caches, first = [], 0
    for spec in specs:
        caches.append(KvCache.within(blocks, first, spec, block_tokens))
        first += spec.num_values * block_tokens
    return caches
