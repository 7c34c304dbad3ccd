"""How much memory of the pool lies between what is used, and in how long a run. Decides nothing.

    chunk       [## #    ]  [########]  [        ]      # held, reserved or idle; blank: free
                 partial      full        empty, or without memory

`ChunkMap` counts along what is lost in partial chunks; the longest run is looked for now and then.
"""

__all__ = ["longest_free_run"]


def longest_free_run(is_touched: bytes | bytearray) -> int:
    """The most zero bytes in a row, found by bisection at the speed of a search for bytes."""
    low, high = 0, len(is_touched)
    while low < high:
        length = (low + high + 1) // 2
        if is_touched.find(bytes(length)) >= 0:
            low = length
        else:
            high = length - 1
    return low
