"""How a long put is done: part by part, and without what would continue a block that there was no room for."""

from collections.abc import Callable, Sequence

from tailrace.levels.api import StoredBlock

__all__ = ["put_in_parts"]


def put_in_parts(
    blocks: Sequence[StoredBlock], at_once: int, put: Callable[[Sequence[StoredBlock]], set[bytes]]
) -> int:
    """How many of the blocks are kept. `put` takes at most `at_once`, and names those it refuses."""
    refused: set[bytes] = set()
    for start in range(0, len(blocks), at_once):
        wanted: dict[bytes, StoredBlock] = {}
        for block in blocks[start : start + at_once]:
            if block.head.parent in refused:
                refused.add(block.head.name)
            else:
                wanted[block.head.name] = block
        refused |= put(list(wanted.values()))
    return sum(block.head.name not in refused for block in blocks)
