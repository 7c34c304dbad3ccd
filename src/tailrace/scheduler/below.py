"""What requests have to do with the levels below the engine: they look up, fetch, and have their blocks saved.

Decides and keeps count; who carries it out is a `BlockStore`, which never makes the step loop wait.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from tailrace.kvcache.block import Block, BlockName, BlockTable
from tailrace.kvcache.cache import KvCache, PrefixMatch
from tailrace.kvcache.fetching import FetchCosts
from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import (
    BlockStore,
    Fetch,
    FetchAnswer,
    ForgetNotice,
    Lookup,
    LookupAnswer,
    Save,
    SaveAnswer,
    StoreAnswer,
)
from tailrace.scheduler.level_modes import LevelModes
from tailrace.scheduler.level_uses import LevelUses
from tailrace.scheduler.live import Awaited, BelowState, LiveRequest
from tailrace.types import Level, LevelMode, MissReason, PrefixReport

__all__ = ["LevelsBelow", "NoStore"]

_FETCHING_SHARE = 4  # at most one block in so many is reserved for fetches
_FETCH_PATIENCE = 2.0  # times what computing takes: who tries a level that was slow loses no more
_MAX_REFILLS = 64  # that wait for room; the oldest are given up
_MAX_LOOKUPS = 10  # of one request that waits: room that was there for what it fetches may be gone when it has come


class NoStore:
    """A BlockStore without levels."""

    levels: tuple[Level, ...] = ()
    due_s: float | None = None

    def look_up(self, lookup: Lookup) -> None:
        raise AssertionError("there is no level to look into")

    def fetch(self, fetch: Fetch) -> None:
        raise AssertionError("there is no level to fetch from")

    def save(self, saves: tuple[Save, ...]) -> int:
        return 0

    def forget(self, forgets: tuple[Forget, ...]) -> None:
        pass

    def take(self) -> list[StoreAnswer]:
        return []

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Arriving:
    """A fetch under way, for a request that may have ended since. For a refill nobody waits: it is for the next one."""

    live: LiveRequest
    level: Level
    blocks: BlockTable
    is_refill: bool = False

    @property
    def first(self) -> int:
        """The index in its sequence of the first block that is fetched."""
        return self.blocks.num_sealed

    @property
    def names(self) -> Sequence[BlockName]:
        """Of the blocks that are fetched."""
        return self.blocks.names[self.first :]


class _Looked(NamedTuple):
    """A lookup under way for a request: blocks [first, end) of its sequence."""

    live: LiveRequest
    first: int
    end: int


class _Refill(NamedTuple):
    """Blocks [first, end) of a request's sequence lie on this level, for which it did not wait."""

    live: LiveRequest
    level: Level
    first: int
    end: int


class _Look(NamedTuple):
    """Somebody wants to know what there is of a prompt, and computes nothing."""

    table: BlockTable
    match: PrefixMatch
    token_ids: Sequence[int]
    tell: Callable[[PrefixReport], None]


class LevelsBelow:
    """A request asks what lies below, then fetches run by run, one level at a time, what is worth it.

    While it waits it is deferred: on the number of its lookup, or on the last name of a fetch, like all others that
    need this name. Whatever comes of it, each step makes `levels` of what it knows shorter, so that it starts in the
    end. Levels that are not waited for, as `modes` has it, are asked when it has heard of the others and goes on.
    """

    def __init__(self, store: BlockStore, cache: KvCache) -> None:
        self.store = store
        self._cache = cache
        self._costs = FetchCosts(cache.config.block_tokens)
        self._max_arriving = max(cache.config.num_blocks // _FETCHING_SHARE, 1)
        self.modes = LevelModes()
        self.uses = LevelUses(self._costs, self.modes)
        self._lookups: dict[int, _Looked] = {}
        self._behind: dict[int, _Looked] = {}  # lookups that nobody waits for
        self._refills: deque[_Refill] = deque(maxlen=_MAX_REFILLS)
        self._looks: dict[int, _Look] = {}
        self._fetches: dict[int, _Arriving] = {}
        self._num_asked = 0

    @property
    def is_empty(self) -> bool:
        return not self.store.levels

    def is_pending(self, awaited: Awaited) -> bool:
        return awaited in self._lookups if isinstance(awaited, int) else self._cache.is_in_flight(awaited)

    def is_from_below(self, awaited: Awaited) -> bool:
        """Whether a level is to give it, or to say what it has, and no running request computes it."""
        return isinstance(awaited, int) or any(
            awaited in fetch.names for fetch in self._fetches.values() if not fetch.is_refill
        )

    def ask(self, live: LiveRequest, match: PrefixMatch, spare: int, now_s: float) -> Awaited | None:
        """Look up, or fetch, what lies behind the engine's own prefix. Returns what the request has to wait for."""
        below = live.below
        if self.is_empty or below.is_content_with(match.end):
            return None
        limit = (len(live.token_ids) - 1) // self._cache.config.block_tokens
        levels = below.levels_behind(match.end)
        if below.num_lookups and self._cache.num_lacking(match, len(live.token_ids), spare):
            return None  # what it fetched would be evicted before it starts: it asks again when there is room
        if levels is None and match.end < limit and below.num_lookups < _MAX_LOOKUPS:
            return self._look_up(live, match, limit)
        return self._fetch(live, match, levels or (), spare, now_s)

    def explain(self, table: BlockTable, token_ids: Sequence[int], tell: Callable[[PrefixReport], None]) -> None:
        """Tell what the engine has of a prompt and what lies below, once the levels have said; counts as no use.

        The table is an empty one; it has the names of the prompt then, and holds nothing.
        """
        match = self._cache.match(table, token_ids)
        limit = (len(token_ids) - 1) // self._cache.config.block_tokens
        if self.is_empty or match.end >= limit:
            tell(self._cache.report(table, match, token_ids))
            return
        self._num_asked += 1
        self._looks[self._num_asked] = _Look(table, match, token_ids, tell)
        content = self._cache.content_behind(match, token_ids)
        names, skipped = tuple(table.names[match.end : limit]), self.modes.unawaited
        self.store.look_up(Lookup(self._num_asked, names, content, skipped=skipped))

    def refill(self, spare: int) -> None:
        """Fetch what was found on levels that nobody waits for, as far as `spare` blocks stay available."""
        while self._refills and self._cache.num_arriving < self._max_arriving:
            self._fetch_behind(self._refills.popleft(), spare)

    def absorb(self, answers: Iterable[StoreAnswer]) -> None:
        """Take in what the store has answered."""
        for answer in answers:
            match answer:
                case LookupAnswer() if answer.lookup_id in self._looks:
                    self._explained(answer)
                case LookupAnswer() if answer.lookup_id in self._behind:
                    self._found_behind(answer)
                case LookupAnswer():
                    self._found(answer)
                case FetchAnswer():
                    self._land(answer)
                case SaveAnswer(block_ids=block_ids):
                    self._cache.unpin(block_ids)
                case ForgetNotice(forgets=forgets):
                    self._cache.forget(*forgets)

    def save(self, table: BlockTable, blocks: Sequence[Block]) -> None:
        """Have newly named blocks copied to the levels below; those the store has no room for are not."""
        if not blocks or self.is_empty:
            return
        skipped = self.modes.not_saved_to(table.request_id)
        if skipped.issuperset(self.store.levels):
            return
        saves = tuple(Save(self._cache.head(block), block.block_id, skipped) for block in blocks)
        for block in blocks[: self.store.save(saves)]:
            self._cache.pin(block)

    def computed(self, num_prompt_tokens: int, took_s: float) -> None:
        """A step computed so many tokens of prompts."""
        if num_prompt_tokens:
            self._costs.computed(num_prompt_tokens, took_s)

    def _look_up(self, live: LiveRequest, match: PrefixMatch, limit: int) -> int | None:
        live.below = BelowState(live.below.num_lookups + 1)
        looked, skipped = _Looked(live, match.end, limit), self.modes.unawaited
        if skipped.issuperset(self.store.levels):
            live.below.settled_end, live.below.reason = match.end, MissReason.LEVEL_BYPASSED
            self._look_behind(looked)
            return None
        self._num_asked += 1
        self._lookups[self._num_asked] = looked
        names, patience_s = tuple(live.table.names[match.end : limit]), self._costs.patience_s(limit - match.end)
        content = self._cache.content_behind(match, live.token_ids)
        self.store.look_up(Lookup(self._num_asked, names, content, patience_s, skipped))
        return self._num_asked

    def _found(self, answer: LookupAnswer) -> None:
        looked = self._lookups.pop(answer.lookup_id)
        live, first, end = looked
        self.uses.looked_up(answer, end - first)
        live.below.first, live.below.levels = first, answer.levels
        live.below.found(answer, live.table)
        if self.modes.unawaited and first + len(answer.levels) < end:
            live.below.reason = live.below.reason or MissReason.LEVEL_BYPASSED
            self._look_behind(looked._replace(first=first + len(answer.levels)))

    def _look_behind(self, looked: _Looked) -> None:
        """Ask the levels that the request does not wait for, as far as it is their turn."""
        asked = self.modes.asked_behind(looked.live.request_id)
        if not asked:
            return
        self._num_asked += 1
        self._behind[self._num_asked] = looked
        names = tuple(looked.live.table.names[looked.first : looked.end])
        self.store.look_up(Lookup(self._num_asked, names, None, skipped=frozenset(self.store.levels) - asked))

    def _found_behind(self, answer: LookupAnswer) -> None:
        live, first, end = self._behind.pop(answer.lookup_id)
        self.uses.looked_up(answer, end - first)
        if answer.levels and self.modes.of(level := answer.levels[0]) is LevelMode.ASYNCHRONOUS:
            count = sum(1 for _ in takewhile(level.__eq__, answer.levels))
            self._refills.append(_Refill(live, level, first, first + count))

    def _fetch_behind(self, refill: _Refill, spare: int) -> None:
        """Fetch what the engine has not computed meanwhile; who wants it before it has come need not wait for it."""
        live = refill.live
        table = self._cache.open(live.request.cache_salt, group=live.table.group)
        match = self._cache.match(table, live.token_ids)
        count = min(refill.end - match.end, self._max_arriving - self._cache.num_arriving)
        if match.end < refill.first or count <= 0:
            return
        arriving = self._cache.reserve(table, match, count, spare)
        if arriving is not None:
            self._cache.disclaim(arriving)
            self._start_fetch(_Arriving(live, refill.level, arriving, is_refill=True), count)

    def _explained(self, answer: LookupAnswer) -> None:
        table, match, token_ids, tell = self._looks.pop(answer.lookup_id)
        state, end = BelowState(), match.end
        state.found(answer, table)
        for level in answer.levels:
            state.fetched.append((level, end, end + 1))
            end += 1
        if self.modes.unawaited:
            state.reason = state.reason or MissReason.LEVEL_BYPASSED
        engine = self._cache.report(table, PrefixMatch(end, []) if answer.levels else match, token_ids)
        tell(state.report(engine, self._cache.config.block_tokens))

    def _fetch(
        self, live: LiveRequest, match: PrefixMatch, levels: tuple[Level, ...], spare: int, now_s: float
    ) -> Awaited | None:
        num_free = self._max_arriving - self._cache.num_arriving
        if levels and num_free <= 0:  # the share of all fetches is used up: ask again when one of them is over
            return next(iter(self._fetches.values())).blocks.names[-1]
        if levels:
            level = levels[0]
            count = min(sum(1 for _ in takewhile(level.__eq__, levels)), num_free)
            if self._costs.is_worth_trying(level, count, now_s):
                return self._reserve(live, match, level, count, spare)
            live.below.reason = MissReason.SLOWER_THAN_RECOMPUTE
        live.below.settled_end = match.end
        return None

    def _reserve(self, live: LiveRequest, match: PrefixMatch, level: Level, count: int, spare: int) -> Awaited | None:
        arriving = self._cache.reserve(live.table, match, count, spare)
        if arriving is None:
            return None  # nor is there room to start: it asks again when there is
        self._start_fetch(_Arriving(live, level, arriving), count)
        return arriving.names[-1]

    def _start_fetch(self, fetched: _Arriving, count: int) -> None:
        self._num_asked += 1
        self._fetches[self._num_asked] = fetched
        block_ids = tuple(block.block_id for block in fetched.blocks.blocks[-count:])
        before, names = tuple(fetched.blocks.names[:-count]), tuple(fetched.blocks.names[-count:])
        patience_s = _FETCH_PATIENCE * self._costs.patience_s(count)
        self.store.fetch(Fetch(self._num_asked, fetched.level, names, block_ids, before, patience_s))

    def _land(self, answer: FetchAnswer) -> None:
        fetched = self._fetches.pop(answer.fetch_id)
        live, first, end = fetched.live, fetched.first, fetched.blocks.end
        below = BelowState() if fetched.is_refill else live.below
        if answer.num_arrived < end - first:
            self.uses.failed(fetched.level, end - first - answer.num_arrived, answer.took_s)
        self._costs.fetched(fetched.level, end - first, answer.took_s)
        arrived = self._cache.land(fetched.blocks, live.token_ids, answer.num_arrived)
        if fetched.level is not self.store.levels[0]:
            self.save(fetched.blocks, arrived)  # for the levels that are nearer
        self._cache.release(fetched.blocks)
        if answer.num_arrived:
            below.fetched.append((fetched.level, first, first + answer.num_arrived))
        below.levels = below.levels_behind(end) or () if first + answer.num_arrived == end else ()
        below.first = end
        if answer.is_down:
            below.reason = MissReason.LEVEL_DOWN
