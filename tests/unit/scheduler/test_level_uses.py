"""What levels were asked for and gave, by hand."""

import pytest

from tailrace.kvcache.fetching import FetchCosts
from tailrace.kvcache.transfer import LookupAnswer
from tailrace.scheduler.level_modes import SAMPLE, LevelModes
from tailrace.scheduler.level_uses import LevelUses
from tailrace.types import Level, LevelMode

BLOCK_TOKENS = 16


def answer(*levels: Level, **asked: float) -> LookupAnswer:
    return LookupAnswer(1, levels, asked=tuple((Level(name), took_s) for name, took_s in asked.items()))


@pytest.fixture
def costs() -> FetchCosts:
    return FetchCosts(BLOCK_TOKENS)


@pytest.fixture
def modes() -> LevelModes:
    return LevelModes()


@pytest.fixture
def uses(costs: FetchCosts, modes: LevelModes) -> LevelUses:
    return LevelUses(costs, modes)


def test_a_level_is_asked_for_what_those_before_it_lack(uses: LevelUses) -> None:
    uses.looked_up(answer(Level.HOST, Level.HOST, Level.REDIS, host=0.001, redis=0.25), 10)
    assert uses.totals == {Level.HOST: (1, 10, 2, 0.001), Level.REDIS: (1, 8, 1, 0.25)}


def test_what_it_gave_is_worth_the_time_that_computing_takes_longer_than_fetching(
    uses: LevelUses, costs: FetchCosts
) -> None:
    costs.computed(10 * BLOCK_TOKENS, 5.0)  # half a second a block
    costs.fetched(Level.REDIS, 4, 0.4)  # a tenth
    uses.looked_up(answer(*[Level.REDIS] * 3, redis=0.25), 10)
    assert uses.totals[Level.REDIS].lost_s == pytest.approx(0.25 - 3 * (0.5 - 0.1))


def test_what_did_not_come_was_not_given_and_took_its_time(uses: LevelUses, costs: FetchCosts) -> None:
    costs.computed(10 * BLOCK_TOKENS, 5.0)
    uses.looked_up(answer(*[Level.REDIS] * 3, redis=0.25), 10)
    uses.failed(Level.REDIS, 3, 2.0)
    assert uses.totals[Level.REDIS] == pytest.approx((1, 10, 0, 2.25))


def test_a_request_of_the_sample_stands_for_all(uses: LevelUses, modes: LevelModes) -> None:
    modes.change({Level.REDIS: LevelMode.BYPASSED})
    uses.looked_up(answer(Level.REDIS, redis=0.5), 2)
    assert uses.totals[Level.REDIS] == (SAMPLE, 2 * SAMPLE, SAMPLE, SAMPLE * 0.5)
