"""The life of a block in the engine's pool, as a table.

    released <-> free -> reserved -> filling -> sealed <-> idle
                  ^         |          |          |         |
                  +---------+----------+----------+---------+

Memory is given back in chunks of free blocks, so that every block is free before it is released.
"""

from enum import StrEnum

from tailrace.errors import EngineError

__all__ = ["BlockState", "moved"]


class BlockState(StrEnum):
    RELEASED = "released"  # an address without memory
    FREE = "free"  # has memory, and nothing in it that counts
    RESERVED = "reserved"  # held by one sequence, or for what is being fetched; nothing in it yet
    FILLING = "filling"  # the block that the next rows of its sequence go to
    SEALED = "sealed"  # full, named and held
    IDLE = "idle"  # named, and held by nobody


_MOVES: dict[BlockState, frozenset[BlockState]] = {
    BlockState.RELEASED: frozenset({BlockState.FREE}),
    BlockState.FREE: frozenset({BlockState.RESERVED, BlockState.RELEASED}),
    # SEALED: fetched from a level below, or filled by one step together with the block before it.
    BlockState.RESERVED: frozenset({BlockState.FILLING, BlockState.SEALED, BlockState.FREE}),
    BlockState.FILLING: frozenset({BlockState.SEALED, BlockState.FREE}),
    BlockState.SEALED: frozenset({BlockState.IDLE, BlockState.FREE}),  # FREE: a twin, or its name was forgotten
    BlockState.IDLE: frozenset({BlockState.SEALED, BlockState.FREE}),  # SEALED: used again; FREE: evicted or forgotten
}


def moved(state: BlockState, to: BlockState) -> BlockState:
    """The new state. Raises EngineError for a move that the table does not have."""
    if to not in _MOVES[state]:
        raise EngineError(f"a block cannot go from {state} to {to}: this is a fault of the cache, please report it")
    return to
