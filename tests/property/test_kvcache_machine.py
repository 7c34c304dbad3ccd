"""Random lives of sequences against the cache alone: what it hands out must hold what it says."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.config import SweepConfig
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.placement import NUM_GROUPS
from tests.support.simulation import restless

TOKENS = st.integers(1, 2)
EVICTION = EvictionConfig(ttl_s=60.0, once_idle_s=20.0, lapse_s=5.0)
SWEEP = SweepConfig(pass_period_s=10.0, num_passes=2, max_blocks=8)
Contents = tuple[str, tuple[int, ...]]  # a tenant and all tokens up to the end of a block


@dataclass(eq=False)
class Life:
    """A sequence as its owner sees it."""

    salt: str
    token_ids: list[int]
    table: BlockTable
    num_computed: int = 0
    block_ids: list[int | None] = field(default_factory=list)  # None: given back


def covers(scope: Scope, covered: Contents, contents: Contents) -> bool:
    """Whether what is forgotten by `covered` includes a block of these contents."""
    match scope:
        case Scope.BLOCK:
            return contents == covered
        case Scope.PREFIX:
            return contents[0] == covered[0] and contents[1][: len(covered[1])] == covered[1]
        case Scope.TENANT:
            return contents[0] == covered[0]
        case Scope.FINGERPRINT:
            return True


class CacheMachine(RuleBasedStateMachine):
    """`memory` is what lies in each block; a name is right when it leads to the contents it stands for.

    `committed` are the blocks that have memory, as far as the runtime has been told.
    """

    lives = Bundle("lives")

    @initialize(
        num_blocks=st.integers(1, 40),
        block_tokens=st.integers(1, 3),
        window_tokens=st.none() | st.integers(1, 30),
        chunk_tokens=st.integers(1, 12),
    )
    def open_cache(self, num_blocks: int, block_tokens: int, window_tokens: int | None, chunk_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.window_tokens = window_tokens
        self.cache = KvCache(
            KvCacheConfig(
                num_blocks,
                block_tokens,
                ("model",),
                window_tokens,
                chunk_tokens,
                EVICTION,
                SWEEP,
                compaction=restless(4),
            )
        )
        self.now_s = 0.0
        self.committed: set[int] = set()
        self.memory: dict[int, list[Contents]] = {}
        self.running: list[Life] = []
        self.sealed: set[Contents] = set()
        self.sealed_at: dict[int | None, int] = {}  # by block: how many times something had been forgotten by then
        self.forgotten: list[tuple[Scope, Contents]] = []

    def contents(self, life: Life, num_tokens: int) -> Contents:
        return life.salt, tuple(life.token_ids[:num_tokens])

    @rule(
        target=lives,
        salt=st.sampled_from(["", "tenant"]),
        group=st.integers(0, NUM_GROUPS - 1),
        token_ids=st.lists(TOKENS, min_size=1, max_size=40),
    )
    def start(self, salt: str, group: int, token_ids: list[int]) -> object:
        life = Life(salt, token_ids, self.cache.open(salt, group=group))
        return life if self.acquire(life, 0) else multiple()

    @rule(target=lives, life=consumes(lives), spare=st.integers(0, 3))
    def leave_and_come_back(self, life: Life, spare: int) -> object:
        self.cache.release(life.table)
        self.running.remove(life)
        return life if self.acquire(life, spare) else multiple()

    @rule(life=consumes(lives))
    def leave(self, life: Life) -> None:
        self.cache.release(life.table)
        self.running.remove(life)

    @rule(passed_s=st.sampled_from([0.0, 0.1, 0.3, 2.0, 30.0]))
    def let_time_pass(self, passed_s: float) -> None:
        self.now_s += passed_s
        self.cache.advance(self.now_s)

    @rule()
    def sweep(self) -> None:
        """Blocks in use stay; and where a sweep found all there was to find, the next is due when it says."""
        before, due_s = self.cache.stats, self.cache.sweep_due_s
        self.cache.sweep()
        after = self.cache.stats
        assert after.num_used == before.num_used
        if due_s is None or due_s > self.now_s:
            assert after == before
        self.change_memory()

    def change_memory(self) -> None:
        """What a runtime would do between two steps: what is released is gone, and what is used must have memory."""
        change = self.cache.take_memory_change()
        for block_id in (block_id for run in change.released for block_id in run):
            self.committed.remove(block_id)
            self.memory.pop(block_id, None)
        for block_id in (block_id for run in change.committed for block_id in run):
            assert block_id not in self.committed
            self.committed.add(block_id)

    @rule(life=lives, count=st.integers(1, 6))
    def compute(self, life: Life, count: int) -> None:
        self.change_memory()
        until = min(life.num_computed + count, len(life.token_ids), self.room(life))
        for position in range(life.num_computed, until):
            block_id, offset = life.block_ids[position // self.block_tokens], position % self.block_tokens
            assert block_id in self.committed
            cells = self.memory.setdefault(block_id, [])
            del cells[offset:]
            cells.append(self.contents(life, position + 1))
        life.num_computed = until
        for index in range(life.table.num_sealed, until // self.block_tokens):
            self.sealed_at[life.block_ids[index]] = len(self.forgotten)
        self.cache.seal(life.table, life.token_ids, until)
        for end in range(self.block_tokens, until + 1, self.block_tokens):
            self.sealed.add(self.contents(life, end))

    @rule(life=lives)
    def slide(self, life: Life) -> None:
        num_held = len(life.table.blocks)
        num_gone = life.block_ids.count(None)
        num_released = self.cache.slide(life.table, life.num_computed)
        assert len(life.table.blocks) == num_held - num_released
        life.block_ids[num_gone : num_gone + num_released] = [None] * num_released
        first_seen, stride = self.first_seen(life.num_computed) // self.block_tokens, self.cache.config.slide_blocks
        assert first_seen - stride < num_gone + num_released <= first_seen

    @rule()
    def compact(self) -> None:
        moves = self.cache.compact(is_quiet=True)
        places: dict[int | None, int] = dict(moves)
        for source, target in moves:
            if source in self.memory:
                self.memory[target] = self.memory.pop(source)
            self.sealed_at[target] = self.sealed_at.pop(source, 0)
        for life in self.running:
            life.block_ids = [places.get(block_id, block_id) for block_id in life.block_ids]

    @rule(life=lives, token_id=TOKENS)
    def append(self, life: Life, token_id: int) -> None:
        if len(life.token_ids) == self.room(life) and not self.grow(life):
            return
        life.token_ids.append(token_id)

    @rule(life=lives)
    def stretch(self, life: Life) -> None:
        """Take a block for tokens that are known and have no room yet: of a prompt longer than the window."""
        if self.room(life) < len(life.token_ids):
            self.grow(life)

    def grow(self, life: Life) -> bool:
        block_id = self.cache.grow(life.table)
        if block_id is None:
            assert self.cache.stats.num_cached == self.cache.stats.num_free == 0
            return False
        life.block_ids.append(block_id)
        return True

    def room(self, life: Life) -> int:
        return len(life.block_ids) * self.block_tokens

    def first_seen(self, position: int) -> int:
        return 0 if self.window_tokens is None else max(position + 1 - self.window_tokens, 0)

    def acquire(self, life: Life, spare: int) -> bool:
        match = self.cache.match(life.table, life.token_ids)
        blocks = self.cache.acquire(life.table, match, len(life.token_ids), spare)
        if blocks is None:
            return False
        life.block_ids = [*[None] * match.first, *blocks]
        life.num_computed = life.table.num_cached
        for index in range(match.first, match.end):
            self.expect_sealed_after_the_last_forget(life, index)
        self.change_memory()
        for copy in self.cache.take_copies():
            assert {copy.source, copy.target} <= self.committed
            assert copy.num_tokens < self.block_tokens
            self.memory[copy.target] = self.memory[copy.source][: copy.num_tokens]
        assert life.num_computed < len(life.token_ids)
        assert match.first == self.first_seen(match.end * self.block_tokens) // self.block_tokens
        assert life.num_computed < self.room(life)
        assert len(blocks) == min(
            self.cache.config.blocks_for(len(life.token_ids)) - match.first,
            self.cache.config.blocks_at_once(len(life.token_ids)),
        )
        assert self.cache.stats.num_cached + self.cache.stats.num_free >= spare
        self.running.append(life)
        self.expect_everything_sealed_is_found(life)
        return True

    def expect_everything_sealed_is_found(self, life: Life) -> None:
        """Nothing goes by itself but by eviction: no longer prefix has all there that the row behind it sees."""
        if self.cache.pool_record.num_removed_total or self.forgotten:
            return
        num_whole = life.num_computed // self.block_tokens * self.block_tokens
        for end in range(num_whole + self.block_tokens, len(life.token_ids), self.block_tokens):
            first = min(self.first_seen(end) // self.block_tokens, end // self.block_tokens - 1)
            ends = range((first + 1) * self.block_tokens, end + 1, self.block_tokens)
            assert not all(self.contents(life, seen) in self.sealed for seen in ends)

    @rule()
    def end_the_step(self) -> None:
        self.cache.copied()

    @rule(life=lives, scope=st.sampled_from(Scope), place=st.integers(0, 20))
    def forget(self, life: Life, scope: Scope, place: int) -> None:
        covered, target = (life.salt, tuple[int, ...]()), life.table.owner.tenant
        if scope is Scope.FINGERPRINT:
            target = life.table.owner.fingerprint
        elif scope is not Scope.TENANT:
            if not life.table.names:
                return
            index = place % len(life.table.names)
            covered, target = self.contents(life, (index + 1) * self.block_tokens), life.table.names[index]
        self.forgotten.append((scope, covered))
        self.cache.forget(Forget(scope, target))

    def expect_sealed_after_the_last_forget(self, life: Life, index: int) -> None:
        block_id = life.block_ids[index]
        assert block_id is not None
        contents = self.contents(life, (index + 1) * self.block_tokens)
        for place, (scope, covered) in enumerate(self.forgotten):
            assert self.sealed_at[block_id] > place or not covers(scope, covered, contents)

    @invariant()
    def every_block_holds_what_its_sequence_computed(self) -> None:
        for life in self.running:
            for position in range(self.first_seen(life.num_computed), life.num_computed):
                block_id = life.block_ids[position // self.block_tokens]
                assert block_id is not None
                assert self.memory[block_id][position % self.block_tokens] == self.contents(life, position + 1)

    @invariant()
    def the_cache_is_sound(self) -> None:
        self.cache.check()

    def teardown(self) -> None:
        for life in self.running:
            self.cache.release(life.table)
        self.cache.copied()
        self.cache.check()
        assert self.cache.stats.num_used == 0
        self.expect_all_memory_back_in_the_end()

    def expect_all_memory_back_in_the_end(self) -> None:
        """Left alone, the cache says when it wants to be swept until nothing is left to give back."""
        while (due_s := self.cache.sweep_due_s) is not None:
            self.now_s = max(self.now_s, due_s) + 1e-3
            assert self.now_s < 1e6, "it sweeps for ever"
            self.cache.advance(self.now_s)
            self.cache.sweep()
        self.cache.check()
        self.change_memory()
        assert not self.committed
        assert self.cache.stats.num_cached == 0


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=100, stateful_step_count=40)
