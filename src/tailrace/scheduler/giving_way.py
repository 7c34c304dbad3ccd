"""Who leaves the running set, as things are: for blocks that streams need, and for those who would come too late."""

from collections.abc import Collection

from tailrace.kvcache.cache import KvCache
from tailrace.records import PreemptionCount
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.preemption import Need, PreemptionConfig, Preemptor
from tailrace.scheduler.queue import WaitingQueue
from tailrace.scheduler.restoring import RestoreCosts, lost_share
from tailrace.types import PreemptionCause

__all__ = ["GivingWay"]


class GivingWay:
    """Asked before a step takes in what runs; who is to leave must `leave` before its blocks are given back.

    `is_lossless`: a level below keeps all sealed blocks.
    """

    def __init__(
        self, config: PreemptionConfig, cache: KvCache, queue: WaitingQueue, *, is_lossless: bool = False
    ) -> None:
        self._preemptor = Preemptor(config)
        self._cache = cache
        self._queue = queue
        self._is_lossless = is_lossless

    @property
    def counts(self) -> tuple[PreemptionCount, ...]:
        """What was preempted and lost since the start."""
        return self._preemptor.counts

    def for_room(self, running: Collection[LiveRequest], now_s: float) -> LiveRequest:
        """Who gives its blocks to the others. Somebody must be running."""
        return self._preemptor.victim_for_room(running, self._costs(), now_s)

    def for_deadlines(
        self, running: Collection[LiveRequest], spare: int, max_running: int, now_s: float
    ) -> tuple[LiveRequest, ...]:
        """Who gives way to the first request of a class that would come too late, having what it lacks.

        That one is next in the queue then, and until it has started, or is too late after all, nobody else gives way.
        Where it lacks nothing it only goes before one of a lower class that does not find room: this one gives way.
        """
        if not running or self._is_one_favoured(now_s):
            return ()
        for live in self._queue.fronts():
            if self._preemptor.is_pressed(live, self._queue.seconds_per_token, now_s):
                need = Need(self._num_lacking(live, spare), max(len(running) + 1 - max_running, 0))
                if not need:
                    self._pass_over(live, spare, now_s)
                elif victims := self._preemptor.victims_for(live, need, running, self._costs(), now_s):
                    self._queue.favour(live)
                    return victims
        return ()

    def leave(self, live: LiveRequest, cause: PreemptionCause, now_s: float) -> None:
        """A request is about to give its blocks back."""
        self._preemptor.preempted(live, cause, self._costs(), now_s)

    def come_back(self, live: LiveRequest, now_s: float) -> None:
        """A request has blocks; a newcomer's first ones, maybe."""
        self._preemptor.resumed(live, now_s)

    def computed(self, num_tokens: int) -> None:
        """A step computed so many tokens."""
        self._preemptor.computed(num_tokens)

    def _is_one_favoured(self, now_s: float) -> bool:
        """Whether others gave way to somebody who has not started, and still can in time."""
        favoured = self._queue.favoured
        if favoured is None:
            return False
        is_in_time = self._preemptor.is_pressed(favoured, self._queue.seconds_per_token, now_s)
        if not is_in_time:
            self._queue.disfavour(favoured)
        return is_in_time

    def _pass_over(self, pressed: LiveRequest, spare: int, now_s: float) -> None:
        first = self._queue.first(now_s)
        if first is None or first.service_class.priority >= pressed.service_class.priority:
            return
        if first.may_yield and self._num_lacking(first, spare):
            first.num_yields += 1
            self._queue.favour(pressed)

    def _num_lacking(self, live: LiveRequest, spare: int) -> int:
        match = self._cache.match(live.table, live.token_ids)
        return self._cache.num_lacking(match, len(live.token_ids), spare)

    def _costs(self) -> RestoreCosts:
        kv = self._cache.stats
        share = 0.0 if self._is_lossless else lost_share(kv.num_free + kv.num_aside + kv.num_cached, kv.num_total)
        return RestoreCosts(self._cache.config.block_tokens, self._queue.seconds_per_token, share)
