import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.kvcache.eviction import EvictionConfig, Standing, Uses
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.slots import SlotTable, table_bytes
from tailrace.levels.victims import Victims, first_to_go, standings
from tests.support.blocks import chain

CONFIG = EvictionConfig(ttl_s=1000.0, once_idle_s=300.0, lapse_s=30.0)


@given(st.lists(st.tuples(st.integers(0, 1200), st.none() | st.integers(0, 60)), min_size=1))
def test_columns_are_ranked_as_the_policy_ranks_entries(pairs: list[tuple[int, int | None]]) -> None:
    uses = [Uses(float(last), -math.inf if gap is None else float(last - gap)) for last, gap in pairs]
    standing, time_s = standings(
        np.array([use.last_s for use in uses]), np.array([use.previous_s for use in uses]), 1200.0, CONFIG
    )
    assert [(Standing(s), t) for s, t in zip(standing, time_s, strict=True)] == [
        use.standing(1200.0, CONFIG) for use in uses
    ]


def table_of(heads: list[BlockHead], uses: list[Uses]) -> SlotTable:
    table = SlotTable(memoryview(bytearray(table_bytes(len(heads)))), len(heads))
    slots = list(range(len(heads)))
    table.publish(slots, heads, [0] * len(heads), 0.0)
    table.last[:] = [use.last_s for use in uses]
    table.previous[:] = [use.previous_s for use in uses]
    return table


def test_the_order_is_that_of_the_policy() -> None:
    uses = {
        "expired": Uses(1.0),
        "once, idle": Uses(600.0),
        "lapsed": Uses(1190.0, 1100.0),
        "once, older": Uses(1195.0),
        "once": Uses(1196.0),
        "regular, older": Uses(1199.0, 1171.0),
        "regular": Uses(1198.0, 1172.0),
    }
    heads = [chain(label, 1)[0] for label in uses]
    table = table_of(heads[::-1], list(uses.values())[::-1])
    victims = Victims(CONFIG)
    evicted = [victims.evict(table, 1, set(), 1200.0) for _ in heads]
    assert [heads[::-1][slot] for [slot] in evicted] == heads
    assert victims.evict(table, 1, set(), 1200.0) == []


def test_a_chain_goes_from_its_end_however_old_its_beginning_is() -> None:
    table = table_of(chain("a", 4), [Uses(float(index)) for index in range(4)])
    assert Victims(CONFIG).evict(table, 3, set(), 10.0) == [3, 2, 1]
    assert table.num_ready == 1


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1200), st.none() | st.integers(0, 60)), max_size=8))
def test_who_goes_first_is_who_would_go_one_by_one(chains: list[tuple[int, int, int | None]]) -> None:
    heads = [head for label, (length, *_) in enumerate(chains) for head in chain(str(label), length)]
    uses = [
        Uses(float(last - index), -math.inf if gap is None else float(last - index - gap))
        for length, last, gap in chains
        for index in range(length)
    ]
    table = table_of(heads, uses) if heads else SlotTable(memoryview(bytearray(table_bytes(1))), 1)
    together = first_to_go(table, len(heads), 1200.0, CONFIG)
    assert first_to_go(table, len(heads) // 2, 1200.0, CONFIG) == together[: len(heads) // 2]
    victims = Victims(CONFIG)
    one_by_one = [slot for _ in heads for slot in victims.evict(table, 1, set(), 1200.0)]
    times = [(uses[slot].standing(1200.0, CONFIG)) for slot in together]
    assert times == [uses[slot].standing(1200.0, CONFIG) for slot in one_by_one]
    assert sorted(together) == sorted(one_by_one) == list(range(len(heads)))


def test_what_must_stay_stays() -> None:
    table = table_of(chain("a", 2) + chain("b", 1), [Uses(0.0), Uses(1.0), Uses(2.0)])
    assert Victims(CONFIG).evict(table, 3, {1}, 10.0) == [2]


def test_what_was_used_since_it_was_chosen_is_passed_over() -> None:
    table = table_of([chain(str(label), 1)[0] for label in range(512)], [Uses(float(label)) for label in range(512)])
    victims = Victims(CONFIG)
    assert victims.evict(table, 1, set(), 600.0) == [0]
    table.use([1], 600.0)
    assert victims.evict(table, 2, set(), 600.0) == [2, 3]
