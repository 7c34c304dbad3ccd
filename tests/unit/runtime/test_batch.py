import numpy as np

from tailrace.ops.api import Limits
from tailrace.runtime.batch import SequenceTable
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice
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
        SequenceSlice("b", start=1, count=1, is_sampled=True),
        SequenceSlice("a", start=1, count=3, is_sampled=False),
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
        SequenceSlice("a", start=2, count=1, is_sampled=True),
        SequenceSlice("b", start=1, count=1, is_sampled=True),
    )

    step = table.step(slices, table.slots(slices))

    assert step.token_ids.tolist() == [3, 5]
    assert step.token_ids.dtype == np.int32
    assert step.sample_rows.tolist() == [0, 1]


def test_blocks_are_appended_where_the_sequence_stopped() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", *range(9)))
    table.append_blocks([SequenceSlice("a", start=0, count=8, is_sampled=False, new_blocks=(7, 3))])
    table.append_blocks([SequenceSlice("a", start=8, count=1, is_sampled=True, new_blocks=(5,))])

    assert table.block_tables[slot, :3].tolist() == [7, 3, 5]


def test_a_slot_given_back_starts_afresh() -> None:
    table = SequenceTable(LIMITS)
    slot = table.enter(entry("a", 1))
    table.append_blocks([SequenceSlice("a", start=0, count=1, is_sampled=True, new_blocks=(7,))])
    table.leave("a")

    assert table.enter(entry("b", 2)) == slot
    table.append_blocks([SequenceSlice("b", start=0, count=1, is_sampled=True, new_blocks=(4,))])
    assert table.block_tables[slot, 0] == 4
