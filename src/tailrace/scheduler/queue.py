"""Who waits: first come, first served, except those set aside until a prefix they share is sealed."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from tailrace.kvcache.block import BlockName
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import LiveRequest

__all__ = ["WaitingQueue"]


def _rank(live: LiveRequest) -> int:
    return live.arrival_rank


class WaitingQueue:
    """A preempted or deferred request comes back to its place by arrival, before all that came later."""

    def __init__(self) -> None:
        self._ready: list[LiveRequest] = []  # by arrival
        self._deferred: dict[BlockName, dict[str, LiveRequest]] = {}  # by the name awaited
        self._awaited: dict[str, BlockName] = {}
        self._num_tokens = 0

    def __len__(self) -> int:
        return len(self._ready) + len(self._awaited)

    @property
    def num_tokens(self) -> int:
        return self._num_tokens

    @property
    def num_deferred(self) -> int:
        return len(self._awaited)

    @property
    def first(self) -> LiveRequest | None:
        return self._ready[0] if self._ready else None

    def push(self, live: LiveRequest) -> None:
        self._num_tokens += len(live.token_ids)
        insort(self._ready, live, key=_rank)

    def remove(self, live: LiveRequest) -> None:
        """Take out a request, ready or deferred."""
        self._num_tokens -= len(live.token_ids)
        if live.state is RequestState.DEFERRED:
            self._leave_group(live)
        else:
            del self._ready[self._place(live)]

    def defer(self, live: LiveRequest, awaited: BlockName) -> None:
        """Set a ready request aside until `awaited` is no longer in flight."""
        del self._ready[self._place(live)]
        live.move(RequestState.DEFERRED)
        self._deferred.setdefault(awaited, {})[live.request_id] = live
        self._awaited[live.request_id] = awaited

    def wake(self, is_in_flight: Callable[[BlockName], bool]) -> None:
        """Put back those whose prefix is sealed, or whose leader is gone."""
        for name in [name for name in self._deferred if not is_in_flight(name)]:
            for live in self._deferred.pop(name).values():
                del self._awaited[live.request_id]
                live.move(RequestState.WAITING)
                insort(self._ready, live, key=_rank)

    def __iter__(self) -> Iterator[LiveRequest]:
        yield from self._ready
        for group in self._deferred.values():
            yield from group.values()

    def _leave_group(self, live: LiveRequest) -> None:
        name = self._awaited.pop(live.request_id)
        group = self._deferred[name]
        del group[live.request_id]
        if not group:
            del self._deferred[name]

    def _place(self, live: LiveRequest) -> int:
        return bisect_left(self._ready, live.arrival_rank, key=_rank)
