"""When idle blocks go by themselves: on a pool of twenty blocks, each a chunk of its own."""

from tailrace.kvcache.block import Block, Node, Owner
from tailrace.kvcache.config import KvCacheConfig, SweepConfig
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.sweep import Sweeper
from tailrace.types import MissReason

OWNER = Owner(b"fingerprint", b"tenant", b"root")
SWEEP = SweepConfig(idle_s=0.2, free_share=0.15, quiet_share=0.7, pass_period_s=100.0, num_passes=3, chunk_idle_s=1.0)


class Swept:
    def __init__(self, sweep: SweepConfig = SWEEP) -> None:
        self.pool = BlockPool(KvCacheConfig(20, 1, (), None, 1, EvictionConfig(ttl_s=1_000.0), sweep))
        self.sweeper = Sweeper(sweep, self.pool)

    def idle(self, *blocks: Block) -> None:
        for block in blocks:
            self.pool.seal(block)
            block.node = Node(b"%d" % block.block_id, OWNER, None)
            self.pool.put_idle(block)

    def sweep(self, now_s: float, num_aside: int = 0) -> list[tuple[int, MissReason]]:
        """Which blocks it makes free, and why."""
        self.pool.advance(now_s)
        gone = []
        for block, reason in self.sweeper.victims(num_aside):
            block.node = None
            self.pool.put_free(block)
            gone.append((block.block_id, reason))
        return gone


def test_idle_blocks_go_when_few_are_free_until_enough_are_and_the_policy_says_which() -> None:
    swept = Swept()
    blocks = swept.pool.take_all(20)
    for place, block in enumerate(blocks[:6]):
        swept.pool.advance(place * 0.01)
        swept.idle(block)
    assert swept.sweep(0.5) == [(0, MissReason.EVICTED), (1, MissReason.EVICTED), (2, MissReason.EVICTED)]
    assert swept.sweep(0.7) == []


def test_what_is_set_aside_counts_as_free() -> None:
    swept = Swept()
    swept.idle(*swept.pool.take_all(20)[:6])
    assert len(swept.sweep(0.5, num_aside=2)) == 1


def test_a_block_must_have_been_idle_for_a_moment() -> None:
    swept = Swept()
    swept.idle(*swept.pool.take_all(20)[:6])
    assert swept.sweep(0.1) == []
    assert len(swept.sweep(0.3)) == 3


def test_idle_blocks_stay_while_enough_are_free() -> None:
    swept = Swept()
    swept.idle(*swept.pool.take_all(17))
    assert swept.sweep(0.5) == []
    assert swept.sweep(999.0) == []


def test_a_block_that_three_passes_passed_over_goes_while_much_is_free() -> None:
    swept = Swept()
    swept.idle(*swept.pool.take_all(2))
    assert [swept.sweep(now_s) for now_s in (1.0, 100.0, 101.0, 200.0)] == [[]] * 4
    assert swept.sweep(201.0) == [(0, MissReason.RELEASED), (1, MissReason.RELEASED)]


def test_a_pass_while_little_is_free_does_not_count() -> None:
    swept = Swept()
    blocks = swept.pool.take_all(15)
    swept.idle(blocks[0])
    assert swept.sweep(1.0) == []
    for block in blocks[1:]:
        swept.pool.put_free(block)
    assert [swept.sweep(now_s) for now_s in (101.0, 201.0, 300.0)] == [[]] * 3
    assert swept.sweep(301.0) == [(0, MissReason.RELEASED)]


def test_a_block_used_between_two_passes_begins_anew() -> None:
    swept = Swept()
    (block,) = swept.pool.take_all(1)
    swept.idle(block)
    for now_s in (1.0, 101.0):
        assert swept.sweep(now_s) == []
    swept.pool.advance(150.0)
    swept.pool.share(block)
    swept.pool.put_idle(block)
    assert [swept.sweep(now_s) for now_s in (201.0, 301.0)] == [[], []]
    assert swept.sweep(401.0) == [(0, MissReason.RELEASED)]


def test_the_expired_go_in_any_case() -> None:
    swept = Swept()
    swept.idle(*swept.pool.take_all(16)[:1])
    assert swept.sweep(1_000.5) == [(0, MissReason.EXPIRED)]


def test_a_sweep_frees_no_more_than_its_bound() -> None:
    swept = Swept(SweepConfig(max_blocks=2))
    swept.idle(*swept.pool.take_all(20))
    assert len(swept.sweep(0.5)) == 2
    assert len(swept.sweep(0.7)) == 1


def test_sweeps_are_a_period_apart() -> None:
    swept = Swept()
    swept.sweep(5.0)
    due = []
    for now_s in (5.0, 5.19, 5.21):
        swept.pool.advance(now_s)
        due.append(swept.sweeper.is_due)
    assert due == [False, False, True]


def test_it_says_when_it_wants_to_be_woken() -> None:
    swept = Swept()
    assert swept.sweeper.due_s(0) is None
    swept.sweep(10.0)
    (block,) = swept.pool.take_all(1)
    assert swept.sweeper.due_s(0) is None
    swept.pool.advance(10.1)
    swept.idle(block)
    assert swept.sweeper.due_s(0) == 110.0  # the next pass
    for now_s in (110.0, 210.0):
        assert swept.sweep(now_s) == []
    assert swept.sweeper.due_s(0) == 310.0
    assert swept.sweep(310.0) != []
    assert swept.sweeper.due_s(0) == 311.0  # the chunk has been empty for a second
    swept.pool.chunks.release_empty(311.0)
    assert swept.sweeper.due_s(0) is None


def test_it_wants_to_be_woken_soon_while_few_blocks_are_free() -> None:
    swept = Swept()
    swept.sweep(10.0)
    swept.idle(*swept.pool.take_all(20)[:1])
    assert swept.sweeper.due_s(0) == 10.2
