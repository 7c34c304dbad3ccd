"""The audit is what the property tests rely on: it must see each kind of damage."""

from collections.abc import Callable

import pytest

from tailrace.kvcache.audit import audit
from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import InFlight, PrefixIndex


class Parts:
    """A cache of four blocks: a table with one sealed block and one being filled, one idle block, one free."""

    def __init__(self) -> None:
        self.config = KvCacheConfig(num_blocks=4, block_tokens=2, root_parts=())
        self.pool, self.index, self.in_flight = BlockPool(4), PrefixIndex(), InFlight()
        sealed, filling, self.idle = (self.pool.take() for _ in range(3))
        self.table = BlockTable(b"root", [b"a", b"b"], [sealed, filling], num_sealed=1)
        sealed.name, sealed.parent = b"a", b"root"
        self.idle.name, self.idle.parent = b"c", b"a"
        self.index.add(b"a", sealed)
        self.index.add(b"c", self.idle)
        self.pool.put_idle(self.idle)
        self.in_flight.begin(self.table)
        self.held = {self.table}

    def audit(self) -> None:
        audit(self.config, self.pool, self.index, self.in_flight, self.held)


def leak(parts: Parts) -> None:
    parts.pool.take()


def lose_the_table(parts: Parts) -> None:
    parts.held.clear()


def free_a_held_block(parts: Parts) -> None:
    parts.pool.put_free(parts.table.blocks[1])


def free_an_idle_block(parts: Parts) -> None:
    parts.pool.put_free(parts.idle)


def free_a_block_twice(parts: Parts) -> None:
    free = next(parts.pool.free_blocks())
    parts.pool.put_free(free)


def hold_a_block_twice(parts: Parts) -> None:
    parts.table.blocks.append(parts.table.blocks[0])
    parts.pool.share(parts.table.blocks[0])


def share_before_the_seal(parts: Parts) -> None:
    block = parts.table.blocks[1]
    parts.pool.share(block)
    parts.held.add(BlockTable(b"root", [], [block]))


def name_too_early(parts: Parts) -> None:
    parts.table.blocks[1].name = b"b"


def name_wrongly(parts: Parts) -> None:
    parts.table.names[0] = b"z"


def forget_an_idle_block(parts: Parts) -> None:
    parts.index.remove(b"c")


def list_a_name_of_nobody(parts: Parts) -> None:
    parts.index.add(b"z", parts.idle)


def await_a_sealed_name(parts: Parts) -> None:
    parts.table.num_sealed = 0
    parts.in_flight.begin(parts.table)
    parts.table.num_sealed = 1


def await_nobody(parts: Parts) -> None:
    parts.in_flight.begin(BlockTable(b"root", [b"z"]))


def age_a_head_before_its_tail(parts: Parts) -> None:
    tail = parts.pool.take()
    tail.name, tail.parent = b"d", b"c"
    parts.index.add(b"d", tail)
    parts.pool.put_idle(tail)


def seal_more_than_there_is(parts: Parts) -> None:
    parts.table.names.append(b"e")
    parts.table.num_sealed = 3
    parts.table.blocks[1].name = b"b"
    parts.index.add(b"b", parts.table.blocks[1])
    parts.in_flight.abandon(parts.table)


def lose_the_first_block(parts: Parts) -> None:
    block = parts.table.blocks.pop(0)
    parts.table.first = 1
    block.num_users = 0
    parts.pool.put_idle(block)


def test_a_sound_cache_passes() -> None:
    Parts().audit()


def test_what_a_window_has_left_behind_may_go_and_its_end_may_stay_longer() -> None:
    parts = Parts()
    parts.config = KvCacheConfig(4, 2, (), window_tokens=2)
    lose_the_first_block(parts)
    age_a_head_before_its_tail(parts)
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
        free_a_block_twice,
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
        age_a_head_before_its_tail,
    ],
)
def test_the_audit_sees_damage(damage: Callable[[Parts], None]) -> None:
    parts = Parts()
    damage(parts)
    with pytest.raises(AssertionError):
        parts.audit()
