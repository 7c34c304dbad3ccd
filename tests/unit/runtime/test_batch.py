import numpy as np

from tailrace.ops.api import Limits
from tailrace.runtime.batch import SequenceTable
from tailrace.scheduler.plan import BlockMove, SequenceEntry, SequenceSlice
from tailrace.types import SamplingParams

LIMITS = Limits(
    max_tokens=64, max_samples=4, max_sequences=4, max_model_tokens=32, num_blocks=16, block_tokens=4, num_threads=1
)


def entry(name: str, *token_ids: int) -> SequenceEntry:
    return SequenceEntry(name, token_ids, len(token_ids), SamplingParams(max_tokens=4))


def test_a_mixed_step_lays_rows_end_to_end() -> None:
    table = SequenceTable(LIMITS)
    table.enter(entry("a", 10, 11, 12, 13, 14))
    table.enter(entry("b", 20, 21))
    slices = (
        SequenceSlice("b", start=1, num_tokens=1, is_sampled=True),
        SequenceSlice("a", start=1, num_tokens=3, is_sampled=False),
    )

    step = table.step(slices, table.slots(slices))

    assert step.token_ids.tolist() == [21, 11, 12, 13]
    assert step.row_starts.tolist() == [0, 1, 4]
    assert step.starts.tolist() == [1, 1]
    assert step.sample_rows.tolist() == [0]


def test_steady_decode_reads_one_token_a_sequence() -> None:
    table = SequenceTable(LIMITS)
    for name, token_ids in (("a", (1, 2, 3)), ("b", (4, 5))):
        table.enter(entry(name, *token_ids))
    slices = (
        SequenceSlice("a", start=2, num_tokens=1, is_sampled=True),
        SequenceSlice("b", start=1, num_tokens=1, is_sampled=True),
    )

    step = table.step(slices, table.slots(slices))

    assert step.token_ids.tolist() == [3, 5]
    assert step.token_ids.dtype == np.int32
    assert step.sample_rows.tolist() == [0, 1]


def test_blocks_are_appended_where_the_sequence_stopped() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", *range(9)))
    table.move_blocks([SequenceSlice("a", start=0, num_tokens=8, is_sampled=False, new_blocks=(7, 3))])
    table.move_blocks([SequenceSlice("a", start=8, num_tokens=1, is_sampled=True, new_blocks=(5,))])

    assert table.block_tables[slot, :3].tolist() == [7, 3, 5]


def test_a_slot_given_back_starts_afresh() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", 1))
    table.move_blocks([SequenceSlice("a", start=0, num_tokens=1, is_sampled=True, new_blocks=(7,))])
    table.leave("a")

    assert table.enter(entry("b", 2)) == slot
    table.move_blocks([SequenceSlice("b", start=0, num_tokens=1, is_sampled=True, new_blocks=(4,))])
    assert table.block_tables[slot, 0] == 4


def test_places_left_behind_name_a_block_that_is_still_the_sequences_own() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", *range(20)))
    table.move_blocks([SequenceSlice("a", 0, 8, is_sampled=False, new_blocks=(7, 3))])
    table.move_blocks([SequenceSlice("a", 8, 8, is_sampled=False, new_blocks=(5, 9), num_released=1)])
    assert table.block_tables[slot, :4].tolist() == [3, 3, 5, 9]

    table.move_blocks([SequenceSlice("a", 16, 4, is_sampled=True, new_blocks=(1,), num_released=2)])
    assert table.block_tables[slot, :5].tolist() == [9, 9, 9, 9, 1]


def test_a_sequence_may_leave_behind_all_it_had() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", *range(20)))
    table.move_blocks([SequenceSlice("a", 0, 4, is_sampled=False, new_blocks=(7,))])
    table.move_blocks([SequenceSlice("a", 4, 4, is_sampled=False, new_blocks=(5,), num_released=1)])
    table.move_blocks([SequenceSlice("a", 8, 4, is_sampled=True, new_blocks=(2,))])
    assert table.block_tables[slot, :3].tolist() == [5, 5, 2]


def test_a_sequence_may_enter_behind_blocks_that_were_never_there() -> None:
    table = SequenceTable(LIMITS)
    for name in ("before", "a"):
        slot = table.enter(entry(name, *range(20)))
        table.move_blocks([SequenceSlice(name, 12, 4, is_sampled=False, new_blocks=(6, 8), num_released=2)])
        table.move_blocks([SequenceSlice(name, 16, 4, is_sampled=True, new_blocks=(4,))])
        assert table.block_tables[slot, :5].tolist() == [6, 6, 6, 8, 4]
        table.leave(name)


def test_a_moved_block_is_read_at_its_new_place_in_all_tables() -> None:
    table = SequenceTable(LIMITS)
    slots = [table.enter(entry(name, *range(12))) for name in "ab"]
    table.move_blocks([SequenceSlice("a", 0, 12, is_sampled=True, new_blocks=(7, 3, 9))])
    table.move_blocks([SequenceSlice("b", 0, 12, is_sampled=True, new_blocks=(7, 3, 2))])
    tables = table.block_tables

    table.relocate([BlockMove(9, 0), BlockMove(7, 14)])

    assert [tables[slot, :3].tolist() for slot in slots] == [[14, 3, 0], [14, 3, 2]]


def test_the_only_block_of_a_table_is_moved() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", 1))
    table.move_blocks([SequenceSlice("a", 0, 1, is_sampled=True, new_blocks=(15,))])
    table.relocate([BlockMove(15, 0)])
    assert table.block_tables[slot, 0] == 0


def test_a_place_left_behind_follows_the_block_it_names() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", *range(20)))
    table.move_blocks([SequenceSlice("a", 0, 8, is_sampled=False, new_blocks=(7, 3))])
    table.move_blocks([SequenceSlice("a", 8, 8, is_sampled=False, new_blocks=(5, 9), num_released=1)])
    table.relocate([BlockMove(3, 4)])
    assert table.block_tables[slot, :4].tolist() == [4, 4, 5, 9]
