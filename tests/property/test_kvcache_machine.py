"""Random lives of sequences against the cache alone: what it hands out must hold what it says."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig

TOKENS = st.integers(1, 2)
Contents = tuple[str, tuple[int, ...]]  # a tenant and all tokens up to the end of a block


@dataclass(eq=False)
class Life:
    """A sequence as its owner sees it."""

    salt: str
    token_ids: list[int]
    table: BlockTable
    num_computed: int = 0
    block_ids: list[int | None] = field(default_factory=list)  # None: given back


class CacheMachine(RuleBasedStateMachine):
    """`memory` is what lies in each block; a name is right when it leads to the contents it stands for."""

    lives = Bundle("lives")

    @initialize(
        num_blocks=st.integers(1, 40), block_tokens=st.integers(1, 3), window_tokens=st.none() | st.integers(1, 30)
    )
    def open_cache(self, num_blocks: int, block_tokens: int, window_tokens: int | None) -> None:
        self.block_tokens = block_tokens
        self.window_tokens = window_tokens
        self.cache = KvCache(KvCacheConfig(num_blocks, block_tokens, ("model",), window_tokens))
        self.memory: dict[int, list[Contents]] = {}
        self.running: list[Life] = []
        self.sealed: set[Contents] = set()

    def contents(self, life: Life, num_tokens: int) -> Contents:
        return life.salt, tuple(life.token_ids[:num_tokens])

    @rule(target=lives, salt=st.sampled_from(["", "tenant"]), token_ids=st.lists(TOKENS, min_size=1, max_size=40))
    def start(self, salt: str, token_ids: list[int]) -> object:
        life = Life(salt, token_ids, self.cache.open(salt))
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

    @rule(life=lives, count=st.integers(1, 6))
    def compute(self, life: Life, count: int) -> None:
        until = min(life.num_computed + count, len(life.token_ids), self.room(life))
        for position in range(life.num_computed, until):
            block_id, offset = life.block_ids[position // self.block_tokens], position % self.block_tokens
            assert block_id is not None
            cells = self.memory.setdefault(block_id, [])
            del cells[offset:]
            cells.append(self.contents(life, position + 1))
        life.num_computed = until
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
        life.num_computed = match.end * self.block_tokens
        assert life.num_computed < len(life.token_ids)
        assert match.first == self.first_seen(life.num_computed) // self.block_tokens
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
        """Nothing is forgotten but by eviction: no longer prefix has all in the cache that the row behind it sees."""
        if self.cache.stats.num_evicted:
            return
        for end in range(life.num_computed + self.block_tokens, len(life.token_ids), self.block_tokens):
            first = min(self.first_seen(end) // self.block_tokens, end // self.block_tokens - 1)
            ends = range((first + 1) * self.block_tokens, end + 1, self.block_tokens)
            assert not all(self.contents(life, seen) in self.sealed for seen in ends)

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
        self.cache.check()
        assert self.cache.stats.num_used == 0


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
