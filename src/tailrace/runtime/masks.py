"""Writes the token masks of guided sequences, on a thread of its own beside the steps that draw with them."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import TokenMasks

__all__ = ["Fill", "MaskRow", "MaskWriter"]

logger = logging.getLogger(__name__)

_NOWHERE = -1  # the position of a row that holds for none

MaskRow: TypeAlias = NDArray[np.uint32]
Fill: TypeAlias = Callable[[MaskRow], None]


class MaskWriter:
    """Whoever takes a row has it until it gives it back. What is asked for is done in that order.

    So a row is given to somebody else only once all that was asked for before has been written into it.
    """

    def __init__(self, masks: TokenMasks) -> None:
        self._masks = masks
        self._rows = list(masks.rows)
        self._free: SimpleQueue[int] = SimpleQueue()
        for row in range(len(self._rows)):
            self._free.put(row)
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take_row(self) -> int:
        """There are twice as many as sequences run; should all others be still to come back, this waits for one."""
        return self._free.get()

    def give_back(self, row: int) -> None:
        self._do(lambda: self._free_row(row))

    def write(self, row: int, position: int, fill: Fill) -> None:
        """Have `fill` write a row, for the token at `position`. Nothing is allowed there if it raises."""
        self._do(lambda: self._write(row, position, fill))

    def close(self) -> None:
        """End the thread, once all is written. No step that waits for a row may be running."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _do(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tailrace-masks", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _free_row(self, row: int) -> None:
        self._masks.tell(row, _NOWHERE)  # else its last mask would be the next sequence's, at the same position
        self._free.put(row)

    def _write(self, row: int, position: int, fill: Fill) -> None:
        try:
            fill(self._rows[row])
        except BaseException:  # a library's panic is no Exception; a step waits, whatever it was
            logger.exception("a mask could not be written")
            self._rows[row][:] = 0
        self._masks.tell(row, position)
