"""Who runs: the requests that hold blocks, in the order in which they started."""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.scheduler.live import LiveRequest

__all__ = ["Occupied", "RunningSet"]


class Occupied(NamedTuple):
    """What a newcomer comes behind."""

    num_places: int
    num_tokens: int  # of prompts, still to be computed
    num_blocks: int


class RunningSet:
    def __init__(self, classes: ServiceClasses) -> None:
        self._lives: dict[str, LiveRequest] = {}
        self.num_by_class = {each.name: 0 for each in classes}  # best first

    def __len__(self) -> int:
        return len(self._lives)

    def __contains__(self, live: object) -> bool:
        return isinstance(live, LiveRequest) and live.request_id in self._lives

    def __iter__(self) -> Iterator[LiveRequest]:
        return iter(self._lives.values())

    def add(self, live: LiveRequest) -> None:
        self._lives[live.request_id] = live
        self.num_by_class[live.service_class.name] += 1

    def remove(self, live: LiveRequest) -> None:
        del self._lives[live.request_id]
        self.num_by_class[live.service_class.name] -= 1

    @property
    def num_spare_blocks(self) -> int:
        """Blocks to leave for these beside a newcomer: with one each, it does not preempt them at once.

        A request alone needs none: when it came, it was made sure that it fits.
        """
        return sum([live.may_need_blocks for live in self._lives.values()])

    def ahead_of(self, service_class: ServiceClass) -> Occupied:
        """What one of this class comes behind: places and blocks that are not given up for it, and tokens of prompts.

        Places and blocks are those of its class and better ones, and of who gives way no more; but no prompt of a lower
        class is computed before its own.
        """
        rank = service_class.priority
        peers = [live for live in self._lives.values() if live.service_class.priority >= rank]
        others = [live for live in self._lives.values() if live.service_class.priority < rank and not live.may_yield]
        num_blocks = sum([len(live.table.blocks) for live in (*peers, *others)])
        return Occupied(len(peers) + len(others), sum([live.gap - 1 for live in peers]), num_blocks)
