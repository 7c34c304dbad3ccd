"""Token masks of the reference back end: rows of bits, and a condition to wait on."""

import threading
import time

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import SamplingInputs

__all__ = ["ReferenceMasks"]


class ReferenceMasks:
    def __init__(self, num_rows: int, vocab: int) -> None:
        self.rows = np.zeros((num_rows, -(-vocab // 32)), np.uint32)
        self.waited_s = 0.0
        self._vocab = vocab
        self._positions = [-1] * num_rows  # what each row holds for
        self._told = threading.Condition()

    def tell(self, row: int, position: int) -> None:
        with self._told:
            self._positions[row] = position
            self._told.notify_all()

    def allowed(self, sampling: SamplingInputs) -> list[NDArray[np.bool_] | None] | None:
        """Of each row that is sampled what may be drawn, by token; None where everything may. Waits for all of them."""
        if sampling.mask_rows is None:
            return None
        rows = zip(sampling.mask_rows.tolist(), sampling.position.tolist(), strict=True)
        return [None if row < 0 else self._wait_for(row, position) for row, position in rows]

    def _wait_for(self, row: int, position: int) -> NDArray[np.bool_]:
        began_s = time.perf_counter()
        with self._told:
            self._told.wait_for(lambda: self._positions[row] == position)
        self.waited_s += time.perf_counter() - began_s
        words = self.rows[row].astype("<u4").view(np.uint8)
        return np.unpackbits(words, count=self._vocab, bitorder="little").astype(np.bool_)
