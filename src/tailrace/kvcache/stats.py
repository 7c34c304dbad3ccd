"""How full the cache is, and what it has given since the start."""

from typing import NamedTuple

__all__ = ["KvCacheStats"]


class KvCacheStats(NamedTuple):
    num_used: int  # held by a sequence
    num_cached: int  # idle, named, reusable
    num_free: int
    num_aside: int  # for running sequences, most likely; given to whoever needs one
    num_total: int
    num_query_tokens: int  # asked for at first admissions, since the start
    num_hit_tokens: int  # of these, found
    num_evicted: int  # idle blocks given to others, since the start
