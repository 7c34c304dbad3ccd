"""A cache of prompts' blocks as a simulation: only names, no bytes. A block is of use with all blocks before it."""

from collections import Counter

from tailrace.measure.eviction_orders import EvictionOrder, Turn

__all__ = ["ChainCache"]


class ChainCache:
    """At most `num_blocks` blocks, each with its parent: a block goes only when nothing that is here continues it."""

    def __init__(self, num_blocks: int, order: EvictionOrder) -> None:
        self._capacity = num_blocks
        self._order = order
        self._parents: dict[int, int | None] = {}  # of the blocks that are here
        self._num_children: Counter[int] = Counter()
        self._offered: set[int] = set()
        self._pinned: set[int] = set()  # those of the prompt that is being served

    def __len__(self) -> int:
        return len(self._parents)

    def __contains__(self, block: object) -> bool:
        return block in self._parents

    def serve(self, chain: tuple[int, ...], turn: Turn) -> int:
        """A prompt of these blocks comes, and leaves behind what there is room for; how many of them were here."""
        num_hits = self._num_here(chain)
        if self._order.may_decline:
            self._take(chain, num_hits, turn)
            self._offer_all(chain)
            self._make_room(0, turn)
        else:
            chain = chain[: self._capacity]
            self._hold(chain[:num_hits])
            self._pinned = set(chain)
            self._make_room(len(chain) - num_hits, turn)
            self._pinned = set()
            self._take(chain, num_hits, turn)
            self._offer_all(chain)
        return num_hits

    def _num_here(self, chain: tuple[int, ...]) -> int:
        for index, block in enumerate(chain):
            if block not in self._parents:
                return index
        return len(chain)

    def _take(self, chain: tuple[int, ...], num_hits: int, turn: Turn) -> None:
        self._hold(chain[:num_hits])
        for index in range(num_hits, len(chain)):
            parent = chain[index - 1] if index else None
            self._parents[chain[index]] = parent
            if parent is not None:
                self._num_children[parent] += 1
        for depth, block in enumerate(chain):
            self._order.use(block, depth, turn)

    def _hold(self, blocks: tuple[int, ...]) -> None:
        """Keep these from going until they are offered again."""
        for block in blocks:
            if block in self._offered:
                self._offered.remove(block)
                self._order.withdraw(block)

    def _offer_all(self, chain: tuple[int, ...]) -> None:
        for block in chain:
            if not self._num_children[block]:
                self._offer(block)

    def _offer(self, block: int) -> None:
        self._offered.add(block)
        self._order.offer(block)

    def _make_room(self, num_blocks: int, turn: Turn) -> None:
        while len(self._parents) + num_blocks > self._capacity:
            victim = self._order.victim(turn)
            assert victim is not None, "blocks in the way that may not go"
            self._evict(victim)

    def _evict(self, block: int) -> None:
        self._hold((block,))
        self._order.drop(block)
        parent = self._parents.pop(block)
        del self._num_children[block]
        if parent is not None:
            self._num_children[parent] -= 1
            if not self._num_children[parent] and parent not in self._pinned:
                self._offer(parent)
