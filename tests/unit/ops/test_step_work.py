"""Quantities of a step, against counting rows and positions one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.ops.step_work import AnyRows, ChosenExperts, MetPositions, NumRows, ReadPositions, Sight, StepWork

BLOCK_TOKENS = 4
NUM_BLOCKS = 8  # of a table: positions 0 to 31

SEQUENCES = st.lists(st.tuples(st.integers(0, 24), st.integers(1, 7)), max_size=4)
TABLES = st.lists(st.permutations(range(10)).map(lambda blocks: blocks[:NUM_BLOCKS]), min_size=4, max_size=4)
SIGHTS = st.one_of(
    st.just(Sight()),
    st.builds(Sight, window=st.integers(1, 20)),
    st.builds(Sight, num_free=st.integers(0, 20)),
)


def work_of(sequences: list[tuple[int, int]], tables: list[list[int]], num_samples: int = 0) -> StepWork:
    starts, counts = (np.array([pair[place] for pair in sequences], np.int64) for place in (0, 1))
    table = np.array(tables[: len(sequences)], np.int32).reshape(len(sequences), NUM_BLOCKS)
    return StepWork(starts, counts, table, BLOCK_TOKENS, num_samples, chosen=(3, 5))


def seen(position: int, sight: Sight) -> list[int]:
    if position + 1 <= sight.num_free:
        return []
    return [other for other in range(position + 1) if sight.window is None or position - other < sight.window]


@settings(max_examples=60, deadline=None)
@given(SEQUENCES, TABLES, SIGHTS)
def test_positions_are_counted_as_one_by_one(
    sequences: list[tuple[int, int]], tables: list[list[int]], sight: Sight
) -> None:
    num_met, read = 0, set()
    # A block that several sequences have is the same part of each, as blocks of prefixes are.
    tables = [[NUM_BLOCKS * block + place for place, block in enumerate(table)] for table in tables]
    for (start, count), table in zip(sequences, tables, strict=False):
        for position in range(start, start + count):
            met = seen(position, sight)
            num_met += len(met)
            read |= {(table[other // BLOCK_TOKENS], other % BLOCK_TOKENS) for other in met}
    work = work_of(sequences, tables)

    assert MetPositions(sight).of(work) == num_met
    if sight.window is None:  # else two windows in one block may leave a gap, which is counted
        assert ReadPositions(sight).of(work) == len(read)
    else:
        assert ReadPositions(sight).of(work) >= len(read)


def test_a_shared_prefix_is_read_once() -> None:
    work = work_of([(9, 1), (10, 1)], [[0, 1, 2, *range(10, 15)], [0, 1, 3, *range(20, 25)]])

    assert ReadPositions(Sight()).of(work) == 8 + 2 + 3
    assert MetPositions(Sight()).of(work) == 10 + 11


def test_a_window_reads_its_end_alone() -> None:
    work = work_of([(20, 2)], [list(range(NUM_BLOCKS))])

    assert ReadPositions(Sight(window=6)).of(work) == 7  # positions 15 to 21
    assert MetPositions(Sight(window=6)).of(work) == 12


@pytest.mark.parametrize(
    ("start", "count", "num_read"),
    [(20, 1, 5), (20, 2, 10), (20, 7, 27), (2, 2, 4), (4, 1, 5)],  # 27: no more than there are
)
def test_what_rows_select_is_read_as_often_as_it_is_selected(start: int, count: int, num_read: int) -> None:
    work = work_of([(start, count)], [list(range(NUM_BLOCKS))])

    assert ReadPositions(Sight(num_selected=5)).of(work) == num_read


def test_a_row_that_may_see_all_has_nothing_to_choose() -> None:
    work = work_of([(3, 4)], [list(range(NUM_BLOCKS))])  # positions 3 to 6

    assert MetPositions(Sight(num_free=5)).of(work) == 6 + 7
    assert ReadPositions(Sight(num_free=5)).of(work) == 7
    assert ReadPositions(Sight(num_free=7)).of(work) == 0


def test_rows_and_experts_are_counted() -> None:
    work = work_of([(0, 3), (5, 1)], [list(range(NUM_BLOCKS))] * 2, num_samples=0)

    assert [NumRows(rows).of(work) for rows in ("tokens", "samples")] == [4, 0]
    assert [AnyRows(rows).of(work) for rows in ("tokens", "samples")] == [1, 0]
    assert [ChosenExperts(mixture).of(work) for mixture in (0, 1)] == [3, 5]
