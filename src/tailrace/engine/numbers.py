"""Numbers by which API processes and the engine know requests and questions: no two of a server are alike.

| 8 bits: API process | 16 bits: its generation | 40 bits: counted |
"""

__all__ = ["Numbers", "generation_of", "worker_of"]

_WORKER_SHIFT, _GENERATION_SHIFT, _GENERATION_MASK = 56, 40, 0xFFFF


class Numbers:
    """Those of one API process. `generation` tells it from those that were in its place before."""

    def __init__(self, worker: int, generation: int) -> None:
        self._last = self._first = worker << _WORKER_SHIFT | (generation & _GENERATION_MASK) << _GENERATION_SHIFT

    def __contains__(self, number: int) -> bool:
        """Whether it is one of these, and was given already."""
        return self._first < number <= self._last

    def next(self) -> int:
        self._last += 1
        return self._last


def worker_of(number: int) -> int:
    """The index of the API process that gave it."""
    return number >> _WORKER_SHIFT


def generation_of(number: int) -> int:
    """The generation of that process, modulo 2^16."""
    return number >> _GENERATION_SHIFT & _GENERATION_MASK
