"""The audit is what the property tests rely on: it must see each kind of damage."""

from collections.abc import Callable

import pytest

from tailrace.kvcache.audit import audit
from tailrace.kvcache.block import Block, BlockTable, Node, Owner
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import InFlight, PrefixIndex

OWNER = Owner(b"fingerprint", b"tenant", b"root")


def seal(block: Block, name: bytes, front: bytes) -> Block:
    block.node = Node(name, OWNER, front)
    return block


class Parts:
    """A cache of four blocks: a table with one sealed block and one being filled, one idle block, one free."""

    def __init__(self) -> None:
        self.config = KvCacheConfig(num_blocks=4, block_tokens=2, root_parts=())
        self.pool, self.index, self.in_flight = BlockPool(self.config), PrefixIndex(), InFlight()
        sealed, filling, self.idle = (self.pool.take() for _ in range(3))
        self.table = BlockTable(OWNER, [b"a", b"b"], [sealed, filling], num_sealed=1)
        for block in (sealed, self.idle):
            self.pool.seal(block)
        self.pool.fill(filling)
        self.index.add(seal(sealed, b"a", b"root"))
        self.index.add(seal(self.idle, b"c", b"a"))
        self.pool.put_idle(self.idle)
        self.in_flight.begin(self.table)
        self.held = {self.table}
        self.pinned: list[Block] = []

    def audit(self) -> None:
        audit(self.config, self.pool, self.index, self.in_flight, self.held, pinned=self.pinned)


def leak(parts: Parts) -> None:
    parts.pool.take()


def lose_the_table(parts: Parts) -> None:
    parts.held.clear()


def free_a_held_block(parts: Parts) -> None:
    parts.pool.put_free(parts.table.blocks[1])


def free_an_idle_block(parts: Parts) -> None:
    parts.pool.put_free(parts.idle)


def evict_a_held_block(parts: Parts) -> None:
    parts.table.blocks[1].state = BlockState.IDLE


def fill_a_free_block(parts: Parts) -> None:
    next(parts.pool.free_blocks()).state = BlockState.FILLING


def hide_an_idle_block_from_eviction(parts: Parts) -> None:
    node = parts.idle.node
    assert node is not None
    node.child = node
    parts.pool.leaf_changed(parts.idle)
    node.child = None


def hold_a_block_twice(parts: Parts) -> None:
    parts.table.blocks.append(parts.table.blocks[0])
    parts.pool.share(parts.table.blocks[0])


def share_before_the_seal(parts: Parts) -> None:
    block = parts.table.blocks[1]
    parts.pool.share(block)
    parts.held.add(BlockTable(OWNER, [], [block]))


def name_too_early(parts: Parts) -> None:
    seal(parts.table.blocks[1], b"b", b"a")


def name_wrongly(parts: Parts) -> None:
    parts.table.names[0] = b"z"


def forget_an_idle_block(parts: Parts) -> None:
    parts.index.remove(parts.idle)
    seal(parts.idle, b"c", b"a")


def list_a_name_of_nobody(parts: Parts) -> None:
    free = next(parts.pool.free_blocks())
    parts.index.add(seal(free, b"z", b"a"))


def await_a_sealed_name(parts: Parts) -> None:
    parts.table.num_sealed = 0
    parts.in_flight.begin(parts.table)
    parts.table.num_sealed = 1


def await_nobody(parts: Parts) -> None:
    parts.in_flight.begin(BlockTable(OWNER, [b"z"]))


def lose_a_pin(parts: Parts) -> None:
    parts.pool.share(parts.idle)


def seal_more_than_there_is(parts: Parts) -> None:
    parts.table.names.append(b"e")
    parts.table.num_sealed = 3
    parts.index.add(seal(parts.table.blocks[1], b"b", b"a"))
    parts.in_flight.abandon(parts.table)


def lose_the_first_block(parts: Parts) -> None:
    block = parts.table.blocks.pop(0)
    parts.table.first = 1
    block.num_users = 0
    parts.pool.put_idle(block)


def test_a_sound_cache_passes() -> None:
    Parts().audit()


def test_what_a_window_has_left_behind_may_go() -> None:
    parts = Parts()
    parts.config = KvCacheConfig(4, 2, (), window_tokens=2)
    lose_the_first_block(parts)
    parts.audit()


def test_a_pinned_block_is_held_by_nobody_else() -> None:
    parts = Parts()
    parts.pool.share(parts.idle)
    parts.pinned.append(parts.idle)
    parts.audit()


def test_what_a_window_shows_must_stay() -> None:
    parts = Parts()
    parts.config = KvCacheConfig(4, 2, (), window_tokens=3)
    lose_the_first_block(parts)
    with pytest.raises(AssertionError, match="block 0 is still seen"):
        parts.audit()


@pytest.mark.parametrize(
    "damage",
    [
        leak,
        lose_the_table,
        free_a_held_block,
        free_an_idle_block,
        evict_a_held_block,
        fill_a_free_block,
        hide_an_idle_block_from_eviction,
        hold_a_block_twice,
        share_before_the_seal,
        name_too_early,
        name_wrongly,
        forget_an_idle_block,
        list_a_name_of_nobody,
        await_a_sealed_name,
        await_nobody,
        lose_the_first_block,
        seal_more_than_there_is,
        lose_a_pin,
    ],
)
def test_the_audit_sees_damage(damage: Callable[[Parts], None]) -> None:
    parts = Parts()
    damage(parts)
    with pytest.raises(AssertionError):
        parts.audit()
