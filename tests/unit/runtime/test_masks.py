import threading
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.reference_masks import ReferenceMasks
from tailrace.runtime.masks import MaskWriter
from tests.support.steps import sampling


def write_word(word: int, row: NDArray[np.uint32]) -> None:
    row[:] = word


def allowed(masks: ReferenceMasks, row: int, position: int) -> list[int]:
    inputs = sampling(1, first_position=position)
    object.__setattr__(inputs, "mask_rows", np.array([row], np.int32))
    found = masks.allowed(inputs)
    assert found is not None
    assert found[0] is not None
    return np.flatnonzero(found[0]).tolist()


def test_rows_are_written_in_the_order_in_which_that_was_asked_for() -> None:
    masks = ReferenceMasks(num_rows=4, vocab=40)
    writer = MaskWriter(masks)
    row = writer.take_row()
    for position in range(20):
        writer.write(row, position, partial(write_word, 1 << position))

        assert allowed(masks, row, position) == [position, *([32 + position] if position < 8 else [])]
    writer.close()


def test_what_cannot_be_written_allows_nothing() -> None:
    masks = ReferenceMasks(num_rows=2, vocab=40)
    writer = MaskWriter(masks)
    row = writer.take_row()
    writer.write(row, 0, partial(write_word, 7))

    def fail(_: NDArray[np.uint32]) -> None:
        raise KeyboardInterrupt  # no Exception, as a panic of a library is none

    writer.write(row, 1, fail)
    assert allowed(masks, row, 1) == []
    writer.write(row, 2, partial(write_word, 2))  # and the thread lives on
    assert 1 in allowed(masks, row, 2)
    writer.close()


def test_a_row_is_nobody_elses_before_all_is_written_into_it() -> None:
    masks = ReferenceMasks(num_rows=2, vocab=32)
    writer = MaskWriter(masks)
    row, other = writer.take_row(), writer.take_row()
    gate, begun = threading.Event(), threading.Event()

    def slow(words: NDArray[np.uint32]) -> None:
        begun.set()
        gate.wait()
        write_word(1, words)

    writer.write(row, 0, slow)
    writer.give_back(row)
    begun.wait()
    taken: list[int] = []
    taker = threading.Thread(target=lambda: taken.append(writer.take_row()))
    taker.start()
    assert taken == []
    gate.set()
    taker.join()
    assert taken == [row]
    assert masks.rows[row].tolist() == [1]
    assert other != row
    writer.close()


def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    writer = MaskWriter(ReferenceMasks(num_rows=2, vocab=32))
    writer.close()  # there is none yet
    writer.write(writer.take_row(), 0, partial(write_word, 1))
    writer.close()

    assert set(threading.enumerate()) <= before


def test_a_row_that_was_given_back_holds_for_no_position() -> None:
    masks = ReferenceMasks(num_rows=1, vocab=32)
    writer = MaskWriter(masks)
    row = writer.take_row()
    writer.write(row, 7, partial(write_word, 1))
    writer.give_back(row)
    assert writer.take_row() == row  # by another sequence, which draws its first token at the same position

    drawn: list[list[int]] = []
    draw = threading.Thread(target=lambda: drawn.append(allowed(masks, row, 7)))
    gate = threading.Event()

    def slow(words: NDArray[np.uint32]) -> None:
        gate.wait()
        write_word(2, words)

    writer.write(row, 7, slow)
    assert masks._positions[row] != 7
    draw.start()
    gate.set()
    draw.join()
    assert drawn == [[1]]
    writer.close()
