"""Memory that forked processes share, as zeros."""

import mmap

__all__ = ["shared_memory"]


def shared_memory(num_bytes: int) -> memoryview:
    return memoryview(mmap.mmap(-1, num_bytes))[:num_bytes]
