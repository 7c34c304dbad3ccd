"""Answers what is asked about the cache, between two steps: what there is of a prompt, and to forget."""

import time
from collections.abc import Callable

from tailrace.kvcache.cache import KvCache
from tailrace.kvcache.invalidate import forgets_of
from tailrace.scheduler.below import LevelsBelow
from tailrace.types import CacheAnswer, CacheQuery, Explain, Explanation, Invalidate, Invalidated, Level, PrefixReport

__all__ = ["CacheControl"]


class CacheControl:
    """Runs on the thread of the step loop. `reply` may be called after `answer`, once the levels have answered too."""

    def __init__(
        self,
        cache: KvCache,
        below: LevelsBelow,
        reply: Callable[[CacheAnswer], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._below = below
        self._reply = reply
        self._clock = clock
        self._version = 0

    def answer(self, query: CacheQuery) -> None:
        self._below.absorb(self._below.store.take())  # what others have forgotten until now, above all
        if isinstance(query, Explain):
            self._explain(query)
        else:
            self._reply(self._invalidate(query))

    def _explain(self, query: Explain) -> None:
        table = self._cache.open(query.cache_salt)

        def tell(report: PrefixReport) -> None:
            self._reply(
                Explanation(
                    query_id=query.query_id,
                    num_prompt_tokens=len(query.prompt_ids),
                    prefix=report,
                    block_tokens=self._cache.config.block_tokens,
                    names=tuple(table.names),
                    fingerprint=table.owner.fingerprint,
                )
            )

        self._below.explain(table, query.prompt_ids, tell)

    def _invalidate(self, query: Invalidate) -> Invalidated:
        """The engine's own blocks are forgotten at once; the levels below are told, and do it when they get there."""
        started_s = self._clock()
        forgets = forgets_of(query.target, self._cache)
        num_dropped = self._cache.forget(*forgets)
        self._version += len(forgets)
        store = self._below.store
        if forgets:
            store.forget(forgets)
        return Invalidated(
            query_id=query.query_id,
            num_forgets=len(forgets),
            num_dropped=((Level.ENGINE, num_dropped), *((level, None) for level in store.levels)),
            version=self._version,
            block_tokens=self._cache.config.block_tokens,
            took_s=self._clock() - started_s,
        )
