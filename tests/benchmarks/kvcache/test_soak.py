from unittest.mock import patch

import pytest

from benchmarks.kvcache.soak import World, soak
from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache


def test_it_does_so_many_operations_and_says_what_came_of_them() -> None:
    said: list[int] = []
    report = soak(6_000, 7, said.append)
    assert report.num_operations == said[-1] == 6_000
    assert report.num_worlds == 2
    assert report.found_tokens["engine"] > 0
    assert report.num_audits == 240


def test_the_same_seed_does_the_same() -> None:
    first, second = soak(2_000, 3), soak(2_000, 3)
    assert (first.operations, first.found_tokens, first.num_faults) == (
        second.operations,
        second.found_tokens,
        second.num_faults,
    )


def test_a_cache_that_keeps_blocks_of_requests_that_ended_is_found_out_with_its_seed() -> None:
    def keep(_cache: KvCache, _table: BlockTable) -> None:
        pass

    with patch.object(KvCache, "release", keep), pytest.raises(AssertionError, match="in the world of seed 11"):
        soak(4_000, 11)


def test_every_operation_is_tried() -> None:
    world = World(1)
    names = {world.operate() for _ in range(2_000)}
    assert names == {
        "add",
        "abort",
        "plan_or_commit",
        "step",
        "tidy",
        "forget",
        "lose_a_level",
        "change_speed",
        "wait",
    }
