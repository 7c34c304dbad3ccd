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
    block_ids: list[int] = field(default_factory=list)


class CacheMachine(RuleBasedStateMachine):
    """`memory` is what lies in each block; a name is right when it leads to the contents it stands for."""

    lives = Bundle("lives")

    @initialize(num_blocks=st.integers(1, 24), block_tokens=st.integers(1, 3))
    def open_cache(self, num_blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.cache = KvCache(KvCacheConfig(num_blocks, block_tokens, ("model",)))
        self.memory: dict[int, list[Contents]] = {}
        self.running: list[Life] = []
        self.sealed: set[Contents] = set()

    def contents(self, life: Life, num_tokens: int) -> Contents:
        return life.salt, tuple(life.token_ids[:num_tokens])

    @rule(target=lives, salt=st.sampled_from(["", "tenant"]), token_ids=st.lists(TOKENS, min_size=1, max_size=12))
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
        until = min(life.num_computed + count, len(life.token_ids))
        for position in range(life.num_computed, until):
            block_id, offset = life.block_ids[position // self.block_tokens], position % self.block_tokens
            cells = self.memory.setdefault(block_id, [])
            del cells[offset:]
            cells.append(self.contents(life, position + 1))
        life.num_computed = until
        self.cache.seal(life.table, life.token_ids, until)
        for end in range(self.block_tokens, until + 1, self.block_tokens):
            self.sealed.add(self.contents(life, end))

    @rule(life=lives, token_id=TOKENS)
    def append(self, life: Life, token_id: int) -> None:
        if len(life.token_ids) == len(life.block_ids) * self.block_tokens:
            block_id = self.cache.grow(life.table)
            if block_id is None:
                assert self.cache.stats.num_cached == self.cache.stats.num_free == 0
                return
            life.block_ids.append(block_id)
        life.token_ids.append(token_id)

    def acquire(self, life: Life, spare: int) -> bool:
        match = self.cache.match(life.table, life.token_ids)
        blocks = self.cache.acquire(life.table, match, len(life.token_ids), spare)
        if blocks is None:
            return False
        life.block_ids = list(blocks)
        life.num_computed = len(match.blocks) * self.block_tokens
        assert life.num_computed < len(life.token_ids)
        assert len(blocks) == self.cache.config.blocks_for(len(life.token_ids))
        assert self.cache.stats.num_cached + self.cache.stats.num_free >= spare
        self.running.append(life)
        self.expect_everything_sealed_is_found(life)
        return True

    def expect_everything_sealed_is_found(self, life: Life) -> None:
        """Nothing is forgotten but by eviction."""
        if self.cache.stats.num_evicted:
            return
        end = life.num_computed + self.block_tokens
        assert end >= len(life.token_ids) or self.contents(life, end) not in self.sealed

    @invariant()
    def every_block_holds_what_its_sequence_computed(self) -> None:
        for life in self.running:
            for position in range(life.num_computed):
                cells = self.memory[life.block_ids[position // self.block_tokens]]
                assert cells[position % self.block_tokens] == self.contents(life, position + 1)

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
