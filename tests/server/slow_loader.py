"""`tailrace` for which any model is a large one, whose weights take long to read: `-m tests.server.slow_loader serve`.

TEST_PIECE_S is what each piece of them takes; TEST_DAMAGED names a weight that turns out to be damaged.
"""

import os
import sys
import time

from tailrace import loading
from tailrace.cli import main
from tailrace.errors import CheckpointError
from tailrace.ops.cpu.store import Piece, WeightStore

PIECE_S = float(os.environ.get("TEST_PIECE_S", "0"))
DAMAGED = os.environ.get("TEST_DAMAGED")

_fill = WeightStore.fill_piece


def fill_piece(self: WeightStore, piece: Piece) -> None:
    time.sleep(PIECE_S)
    if piece.name == DAMAGED:
        raise CheckpointError(f"tensor {piece.name} is damaged")
    _fill(self, piece)


if __name__ == "__main__":
    loading._LARGE_BYTES = 1
    WeightStore.fill_piece = fill_piece  # type: ignore[method-assign]  # what is tested is what others do meanwhile
    sys.exit(main())
