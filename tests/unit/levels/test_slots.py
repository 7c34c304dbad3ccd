import random

import numpy as np
import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.slots import FREE, SlotTable, table_bytes
from tests.support.blocks import chain, word


def table_of(heads: list[BlockHead], num_slots: int = 64) -> SlotTable:
    table = SlotTable(memoryview(bytearray(table_bytes(num_slots))), num_slots)
    table.publish(list(range(len(heads))), heads, list(range(len(heads))), 1.0)
    return table


def found(table: SlotTable, heads: list[BlockHead]) -> list[int | None]:
    return table.find([head.name for head in heads])


def test_what_is_published_is_found_under_its_name_and_nothing_else() -> None:
    heads = chain("a", 40)
    table = table_of(heads)
    assert found(table, heads) == list(range(40))
    assert found(table, chain("b", 3)) == [None] * 3
    assert [table.checksum(slot) for slot in (0, 39)] == [0, 39]


@pytest.mark.parametrize("count", [1, 31, 60])
def test_what_was_dropped_is_not_found_and_all_else_is(count: int) -> None:
    heads = chain("a", 64)
    table = table_of(heads)
    gone = random.Random(count).sample(range(64), count)
    table.drop(gone)
    assert found(table, heads) == [None if slot in gone else slot for slot in range(64)]


def test_an_index_that_was_damaged_is_made_anew() -> None:
    heads = chain("a", 50)
    table = table_of(heads)
    noise = np.random.default_rng(1)
    table.buckets[:] = noise.integers(0, 2**32, len(table.buckets), np.uint32)
    assert found(table, heads) == list(range(50))
    table.next[:] = np.arange(1, 65)  # each its own next
    assert found(table, [*heads, *chain("b", 50)]) == [*range(50), *[None] * 50]
    table.next[:] = np.arange(1, 65)
    table.drop([7])
    assert found(table, heads) == [None if slot == 7 else slot for slot in range(50)]


def test_a_record_that_was_changed_is_not_taken_into_the_index() -> None:
    heads = chain("a", 10)
    table = table_of(heads)
    table.records[3, 9] ^= np.uint64(1)
    assert not table.is_sealed(3)
    table.rebuild()
    assert found(table, heads) == [None if slot == 3 else slot for slot in range(10)]
    assert table.state[3] == FREE


def test_of_two_slots_with_one_name_one_stays() -> None:
    [head] = chain("a", 1)
    table = table_of([head, head])
    table.rebuild()
    assert table.num_ready == 1
    assert found(table, [head]) in ([0], [1])


def test_children_are_counted() -> None:
    heads = chain("a", 3) + chain("b", 2)
    table = table_of(heads)
    assert table.children[:5].tolist() == [1, 1, 0, 1, 0]
    table.drop([2])
    assert table.children[:5].tolist() == [1, 0, 0, 1, 0]
    table.children[:] = 9
    table.parents()
    assert table.children[:5].tolist() == [1, 0, 0, 1, 0]


def test_all_that_continues_a_prefix_is_forgotten_with_it() -> None:
    heads = chain("a", 30) + chain("b", 5)
    table = table_of(heads)
    table.forget([Forget(Scope.PREFIX, heads[10].name)])
    assert found(table, heads) == [*range(10), *[None] * 20, *range(30, 35)]


def test_what_may_continue_a_prefix_behind_a_gap_is_forgotten_with_it() -> None:
    heads = chain("a", 5) + chain("b", 2)
    table = table_of(heads)
    table.forget([Forget(Scope.BLOCK, heads[2].name)])
    assert found(table, heads) == [0, 1, None, 3, 4, 5, 6]
    table.forget([Forget(Scope.PREFIX, heads[1].name)])
    assert found(table, heads) == [0, None, None, None, None, 5, 6]


def test_a_prefix_that_is_not_there_itself_is_forgotten_all_the_same() -> None:
    heads = chain("a", 5)
    table = table_of(heads[1:])
    table.forget([Forget(Scope.PREFIX, heads[0].name)])
    assert table.num_ready == 0


def test_tenants_and_fingerprints_are_forgotten_whole() -> None:
    a, b, f, g = map(word, "abfg")
    heads = chain("x", 3, a, f) + chain("x", 3, b, f) + chain("x", 3, b, g)
    table = table_of(heads)
    table.forget([Forget(Scope.TENANT, a)])
    assert found(table, heads) == [None] * 3 + list(range(3, 9))
    table.forget([Forget(Scope.FINGERPRINT, g)])
    assert found(table, heads) == [None] * 3 + list(range(3, 6)) + [None] * 3


@pytest.mark.parametrize("is_prefix_first", [True, False])
def test_a_prefix_and_the_blocks_before_it_are_forgotten_together_in_any_order(is_prefix_first: bool) -> None:
    heads = chain("a", 12) + chain("b", 5)
    table = table_of(heads)
    prefix, blocks = Forget(Scope.PREFIX, heads[6].name), [Forget(Scope.BLOCK, head.name) for head in heads[:6]]
    table.forget([prefix, *blocks] if is_prefix_first else [*blocks, prefix])
    assert found(table, heads) == [*[None] * 12, *range(12, 17)]
