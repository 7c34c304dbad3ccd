import itertools

import pytest

from tailrace.errors import EngineError
from tailrace.kvcache.lifecycle import BlockState, moved

LEGAL = {
    ("released", "free"),
    ("free", "reserved"),
    ("free", "released"),
    ("reserved", "filling"),
    ("reserved", "sealed"),
    ("reserved", "free"),
    ("filling", "sealed"),
    ("filling", "free"),
    ("sealed", "idle"),
    ("sealed", "free"),
    ("idle", "sealed"),
    ("idle", "free"),
}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(BlockState, BlockState)))
def test_only_moves_of_the_table_are_legal(state: BlockState, to: BlockState) -> None:
    if (state, to) in LEGAL:
        assert moved(state, to) is to
    else:
        with pytest.raises(EngineError, match=f"from {state} to {to}"):
            moved(state, to)
