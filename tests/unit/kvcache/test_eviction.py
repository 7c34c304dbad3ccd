"""The policy, by its sentences, and the queue against the policy."""

import random

import pytest

from tailrace.kvcache.eviction import EvictionConfig, EvictionQueue, Standing, Uses

CONFIG = EvictionConfig(ttl_s=1000.0, once_idle_s=300.0, lapse_s=30.0)


@pytest.mark.parametrize(
    ("uses", "now_s", "standing"),
    [
        (Uses(0.0), 1001.0, Standing.EXPIRED),
        (Uses(0.0), 1000.0, Standing.ONCE_IDLE),
        (Uses(0.0), 300.0, Standing.ONCE_IDLE),
        (Uses(0.0), 299.0, Standing.ONCE),
        (Uses(100.0, 69.0), 100.0, Standing.LAPSED),
        (Uses(100.0, 70.0), 100.0, Standing.REGULAR),
        (Uses(100.0, 70.0), 1101.0, Standing.EXPIRED),
    ],
)
def test_standing(uses: Uses, now_s: float, standing: Standing) -> None:
    assert uses.standing(now_s, CONFIG)[0] is standing


def test_the_expired_go_before_the_idle_the_idle_before_the_lapsed_and_regulars_by_their_last_use_but_one() -> None:
    queue = EvictionQueue[str](CONFIG)
    queue.add("young regular", Uses(1990.0, 1985.0))
    queue.add("old regular", Uses(1999.0, 1980.0))
    queue.add("once", Uses(1995.0))
    queue.add("lapsed", Uses(1998.0, 1900.0))
    queue.add("idle", Uses(1600.0))
    queue.add("expired", Uses(900.0, 899.0))
    order = []
    while (victim := queue.victim(2000.0)) is not None:
        order.append(victim[0])
        queue.remove(victim[0])
    assert order == ["expired", "idle", "lapsed", "once", "old regular", "young regular"]


def test_the_queue_agrees_with_the_policy_over_random_uses() -> None:
    rng = random.Random(5)
    queue, known = EvictionQueue[int](CONFIG), dict[int, Uses]()
    now_s = 0.0
    for _ in range(4_000):
        now_s += rng.choice((0.5, 5.0, 40.0))
        key = rng.randrange(60)
        if key not in known:
            known[key] = Uses(now_s)
            queue.add(key, known[key])
        elif rng.random() < 0.7:
            known[key] = known[key].again(now_s)
            queue.add(key, known[key])
        else:
            assert queue.remove(key) == known.pop(key)
        victim = queue.victim(now_s)
        if known:
            assert victim is not None
            assert known[victim[0]].standing(now_s, CONFIG) == min(
                uses.standing(now_s, CONFIG) for uses in known.values()
            )
            assert victim[1] is known[victim[0]].standing(now_s, CONFIG)[0]
        else:
            assert victim is None
    assert set(queue) == set(known)


def test_uses_over_and_over_leave_nothing_behind() -> None:
    queue = EvictionQueue[str](CONFIG)
    for second in range(10_000):
        queue.add("only", Uses(float(second), second - 1.0))
    assert len(queue._by_last) + len(queue._regular) < 300


def test_a_use_that_lasts_keeps_the_gap_before_it() -> None:
    uses = Uses(10.0).again(15.0).until(100.0)
    assert (uses.last_s, uses.last_s - uses.previous_s) == (100.0, 5.0)
    assert Uses(10.0).until(100.0) == Uses(100.0)
