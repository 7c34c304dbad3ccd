"""Which blocks are to be computed for somebody who waits: what many wait for is the work of one."""

from collections.abc import Callable, Sequence

from tailrace.kvcache.block import BlockName

__all__ = ["PendingBlocks"]


class PendingBlocks:
    """Counts names. A burst of prompts that begin alike is little work, though no cache has its beginning yet."""

    def __init__(self, is_in_flight: Callable[[BlockName], bool]) -> None:
        self._is_in_flight = is_in_flight
        self._num_waiting: dict[BlockName, int] = {}

    def __len__(self) -> int:
        return len(self._num_waiting)

    def enter(self, names: Sequence[BlockName]) -> int:
        """Somebody waits for these. Returns how many of them nobody else does, and no running request computes."""
        num_own = 0
        for name in names:
            num_others = self._num_waiting.get(name, 0)
            num_own += not num_others and not self._is_in_flight(name)
            self._num_waiting[name] = num_others + 1
        return num_own

    def leave(self, names: Sequence[BlockName]) -> None:
        """Who entered these waits no longer."""
        for name in names:
            num_others = self._num_waiting[name] - 1
            if num_others:
                self._num_waiting[name] = num_others
            else:
                del self._num_waiting[name]
