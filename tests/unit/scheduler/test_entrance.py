import math
from dataclasses import replace

import pytest

from tailrace.classes import STANDARD
from tailrace.errors import RefusalReason
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.arrivals import Arrivals
from tailrace.scheduler.below import LevelsBelow, NoStore
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.entrance import Entrance, Outlook
from tailrace.scheduler.foresight import Foresight
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.prediction import Ahead
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.scheduler.targets import Targets
from tailrace.types import Request
from tests.support.simulation import make_request

CONFIG = SchedulerConfig(budget_tokens=64, max_running=4, max_model_tokens=2_000, eos_ids=())
PROMPT = range(1, 1_001)


class Door:
    """An entrance; `num_ahead` tokens are before whoever comes, at a thousand a second."""

    def __init__(self) -> None:
        cache = KvCache(KvCacheConfig(200, 16, ("model",)))
        self.num_ahead = 0
        arrivals = Arrivals(CONFIG, cache, Foresight(), Targets(CONFIG.classes, 1.0, StepTimeModel(), 4))
        self.entrance = Entrance(CONFIG, cache, LevelsBelow(NoStore(), cache), arrivals, self._outlook)

    def _outlook(self, _live: LiveRequest) -> Outlook:
        return Outlook(Ahead(self.num_ahead, 1, 4, 3_200), alone_rate=1_000.0)

    def take(self, request: Request, now_s: float = 0.0) -> LiveRequest:
        """Queue a request, or have it refused."""
        live = self.entrance.take(replace(request, class_name=request.class_name or "gold", arrival_s=now_s))
        if self.entrance.refusal_of(live, now_s) is None:
            self.entrance.wait(live)
        return live


def test_who_is_let_in_knows_what_was_predicted() -> None:
    live = Door().take(make_request("a", PROMPT))
    assert live.refused_for is None
    assert live.prediction == pytest.approx((1.0, 1.0, 0.0, 1_000))
    assert live.work_tokens == 1_000


def test_who_would_come_too_late_is_turned_away_and_leaves_nothing_behind() -> None:
    door = Door()
    door.num_ahead = 30_000
    live = door.take(make_request("a", PROMPT))
    assert live.refused_for is RefusalReason.TARGET_UNREACHABLE
    assert live.prediction is None
    assert len(door.entrance.queue) == 0
    door.num_ahead = 0
    assert door.take(make_request("b", PROMPT)).work_tokens == 1_000, "nobody computes it for them"


@pytest.mark.parametrize(
    "request_",
    [
        replace(make_request("a", PROMPT), class_name="bronze"),
        replace(make_request("a", PROMPT), ttft_s=40.0),
        replace(make_request("a", PROMPT), is_warmup=True),
        make_request("a", PROMPT, output_ids=(7,)),
    ],
    ids=["class", "own target", "warm-up", "handed back"],
)
def test_who_was_promised_no_more_or_is_owed_an_answer_is_let_in(request_: Request) -> None:
    door = Door()
    door.num_ahead = 30_000
    assert door.take(request_).refused_for is None


def test_what_a_leader_leaves_to_compute_is_the_work_of_one_of_those_who_waited_for_it() -> None:
    door = Door()
    lives = [door.take(make_request(name, [*PROMPT, rank])) for rank, name in enumerate("abc")]
    leader, *followers = lives
    for live in followers:
        door.entrance.queue.defer(live, leader.missing[-1])
    door.entrance.leave(leader)
    assert [live.work_tokens for live in lives] == [1_001, 9, 9]
    door.entrance.wake(0.0)
    assert [live.work_tokens for live in followers] == [1_001, 9]
    assert door.entrance.queue.num_tokens == 1_010


def test_an_answer_of_the_levels_alone_changes_no_work() -> None:
    door = Door()
    first, second = (door.take(make_request(name, [*PROMPT, rank])) for rank, name in enumerate("ab"))
    door.entrance.queue.defer(first, 7)
    door.entrance.wake(0.0)
    assert [first.work_tokens, second.work_tokens] == [1_001, 9]


def test_who_has_waited_for_too_long_is_given_up_as_if_it_came_now() -> None:
    door = Door()
    live = door.take(make_request("a", PROMPT))
    later = door.take(make_request("b", range(2_001, 2_011)), now_s=5.0)
    assert door.entrance.expire(9.9) == []
    door.num_ahead = 4_000
    ((given_up, refusal),) = door.entrance.expire(10.5)
    assert given_up is live
    assert live.refused_for is refusal.reason is RefusalReason.QUEUE_TIMEOUT
    assert "after 10.5 s in the queue, as long as class gold waits" in refusal.message
    assert refusal.retry_after_s == pytest.approx(4.0 + 1.0 - STANDARD.named("gold").ttft_s)
    assert list(door.entrance.queue) == [later]


def test_a_class_that_is_shed_is_turned_away_until_it_may_come_and_others_are_not() -> None:
    door = Door()
    door.entrance.shed_until_s = {"bronze": 40.0}
    live = door.entrance.take(replace(make_request("a", PROMPT), class_name="bronze", arrival_s=10.0))
    refusal = door.entrance.refusal_of(live, 10.0)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after_s) == (RefusalReason.SHED, 30.0)
    assert "bronze" in refusal.message
    assert live.refused_for is RefusalReason.SHED
    assert door.take(make_request("b", PROMPT), 10.0).refused_for is None


def test_who_comes_to_a_class_that_is_shed_is_told_a_later_time_where_many_are_ahead() -> None:
    door = Door()
    door.num_ahead = 200_000
    door.entrance.shed_until_s = {"bronze": 12.0}
    live = door.entrance.take(replace(make_request("a", PROMPT), class_name="bronze", arrival_s=10.0))
    refusal = door.entrance.refusal_of(live, 10.0)
    assert refusal is not None
    assert 2.0 < refusal.retry_after_s <= 60.0


def test_it_tells_how_long_first_tokens_took_and_who_was_refused_for_being_late() -> None:
    door = Door()
    live = door.take(make_request("a", PROMPT), 10.0)
    live.started_s = 10.25
    door.entrance.settle(live, 10.5)
    door.num_ahead = 30_000
    door.take(make_request("b", PROMPT), 11.0)
    gold = STANDARD.named("gold")
    assert door.entrance.take_first_tokens() == [("gold", 0.5 / gold.ttft_s, 0.25), ("gold", math.inf, 0.0)]
    assert door.entrance.take_first_tokens() == []


def test_first_tokens_of_who_was_owed_them_are_not_told() -> None:
    door = Door()
    request = make_request("a", PROMPT)
    for owed in (replace(request, is_warmup=True), replace(request, is_resumed=True)):
        live = door.take(owed)
        live.started_s = 1.0
        door.entrance.settle(live, 2.0)
    assert door.entrance.take_first_tokens() == []


def test_what_a_request_asks_for_itself_says_nothing_of_its_class() -> None:
    door = Door()
    live = door.take(replace(make_request("a", PROMPT), ttft_s=0.01))
    live.started_s = 0.0
    door.entrance.settle(live, 0.5)
    door.num_ahead = 30_000
    assert door.take(replace(make_request("b", PROMPT), ttft_s=0.01)).refused_for is not None
    assert door.entrance.take_first_tokens() == [("gold", 0.5 / STANDARD.named("gold").ttft_s, 0.0)]
