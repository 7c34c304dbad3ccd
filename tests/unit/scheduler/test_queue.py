from collections.abc import Iterable

from tailrace.classes import STANDARD, ServiceClass, ServiceClasses
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import Awaited, LiveRequest
from tailrace.scheduler.queue import WaitingQueue
from tests.support.lives import make_waiting


def queue_of(*lives: LiveRequest) -> WaitingQueue:
    queue = WaitingQueue(STANDARD)
    for live in lives:
        queue.push(live)
    return queue


def admit_next(queue: WaitingQueue, now_s: float = 0.0) -> LiveRequest | None:
    live = queue.first(now_s)
    if live is not None:
        queue.admitted(live, live.work_tokens, now_s)
    return live


def admit_all(queue: WaitingQueue, now_s: float = 0.0) -> list[int]:
    """Admit all that are ready, in order."""
    ranks = []
    while (live := admit_next(queue, now_s)) is not None:
        ranks.append(live.arrival_rank)
    return ranks


def look_again(_awaited: Awaited, lives: Iterable[LiveRequest], work_tokens: int = 3) -> None:
    for live in lives:
        live.work_tokens = work_tokens


def test_of_one_class_and_tenant_the_first_to_come_is_the_first() -> None:
    assert admit_all(queue_of(make_waiting(0), make_waiting(1), make_waiting(2))) == [0, 1, 2]


def test_who_comes_back_goes_before_later_arrivals() -> None:
    queue = queue_of(make_waiting(3), make_waiting(5))
    queue.push(make_waiting(1))
    queue.push(make_waiting(4))
    assert admit_all(queue) == [1, 3, 4, 5]


def test_a_better_class_goes_first() -> None:
    queue = queue_of(
        make_waiting(0, class_name="bronze"), make_waiting(1, class_name="silver"), make_waiting(2, class_name="gold")
    )
    assert admit_all(queue, 2.0) == [2, 1, 0]


def test_who_is_favoured_goes_before_all_others_once() -> None:
    first, favoured = make_waiting(0, class_name="gold"), make_waiting(1, class_name="bronze")
    queue = queue_of(first, favoured)
    queue.favour(favoured)
    assert admit_next(queue) is favoured
    assert queue.favoured is None
    assert admit_next(queue) is first


def test_who_leaves_or_is_set_aside_is_favoured_no_more() -> None:
    for leave in (WaitingQueue.remove, lambda queue, live: queue.defer(live, 1)):
        queue = queue_of(make_waiting(0), live := make_waiting(1))
        queue.favour(live)
        leave(queue, live)
        assert queue.favoured is None
        assert admit_all(queue) == [0]


def test_the_front_of_each_class_is_known_but_for_those_set_aside() -> None:
    lives = [make_waiting(number, class_name=name) for number, name in enumerate(("bronze", "gold", "bronze", "gold"))]
    queue = queue_of(*lives)
    assert [live.arrival_rank for live in queue.fronts()] == [1, 0]
    queue.defer(lives[1], 1)
    queue.remove(lives[0])
    assert [live.arrival_rank for live in queue.fronts()] == [3, 2]
    assert not list(queue_of().fronts())


def better_and_worse() -> tuple[WaitingQueue, ServiceClass, ServiceClass]:
    better, worse = (
        ServiceClass(name, priority, ttft_s=1.0, itl_s=0.1, min_share=0.0, queue_ttl_s=60.0)
        for name, priority in (("better", 1.5), ("worse", 1.0))
    )
    return WaitingQueue(ServiceClasses((better, worse), "better")), better, worse


def enter(queue: WaitingQueue, rank: int, arrival_s: float, service_class: ServiceClass) -> LiveRequest:
    live = make_waiting(rank, arrival_s=arrival_s)
    live.service_class = service_class
    queue.push(live)
    return live


def test_a_class_weighs_more_as_its_oldest_grows_older() -> None:
    queue, better, worse = better_and_worse()
    old, new = enter(queue, 0, 0.0, worse), enter(queue, 1, 7.0, better)
    assert queue.first(7.0) is old  # twice its priority
    enter(queue, 2, 7.0, worse)
    queue.admitted(old, 3, 7.0)
    assert queue.first(8.0) is new


def test_a_wait_is_long_beside_those_that_ended_within_a_minute() -> None:
    queue, better, worse = better_and_worse()
    queue.admitted(enter(queue, 0, 0.0, worse), 3, 100.0)
    long, new = enter(queue, 1, 100.0, worse), enter(queue, 2, 110.0, better)
    assert queue.first(110.0) is new
    enter(queue, 3, 170.0, better)
    queue.remove(new)
    assert queue.first(170.0) is long


def test_what_was_preempted_is_old_but_has_not_waited_all_the_time() -> None:
    queue, better, worse = better_and_worse()
    back = make_waiting(0, arrival_s=0.0)
    back.service_class, back.started_s = worse, 1.0
    queue.push(back)
    queue.admitted(back, 3, 100.0)
    long = enter(queue, 1, 100.0, worse)
    enter(queue, 2, 110.0, better)
    assert queue.first(110.0) is long


def test_fresh_work_goes_before_fully_aged_work_of_half_its_priority() -> None:
    queue = queue_of(make_waiting(0, class_name="silver"), make_waiting(9, class_name="gold"))
    assert admit_all(queue, 9.0) == [9, 0]


def test_a_class_that_lags_its_share_goes_first_with_its_oldest() -> None:
    bronze = [make_waiting(rank, 10, class_name="bronze", ttft_s=100.0 - rank) for rank in range(2)]
    gold = [make_waiting(rank, 10, class_name="gold") for rank in range(2, 50)]
    order = admit_all(queue_of(*bronze, *gold), 50.0)
    assert [order.index(live.arrival_rank) for live in bronze] == [20, 40]  # one token in twenty, each time


def test_a_tenant_waits_less_the_less_it_had() -> None:
    queue = queue_of(*(make_waiting(rank, tenant="a") for rank in range(3)), make_waiting(3, tenant="b"))
    assert admit_all(queue, 3.0) == [0, 3, 1, 2]


def test_a_stream_counts_for_its_tenant_when_it_ends() -> None:
    stream = make_waiting(0, tenant="a")
    queue = queue_of(stream, make_waiting(1, tenant="a"), make_waiting(2, 6, tenant="b"), make_waiting(3, tenant="b"))
    admit_next(queue, 3.0)
    queue.served(stream, 4)
    assert admit_all(queue, 3.0) == [2, 3, 1]


def test_requests_and_tokens_are_counted_through_every_move() -> None:
    first, second, third = make_waiting(0, 3), make_waiting(1, 5), make_waiting(2, 7, class_name="gold")
    queue = queue_of(first, second, third)
    queue.defer(second, b"name")
    assert (len(queue), queue.num_tokens, queue.num_deferred) == (3, 15, 1)
    assert [queue.tokens_ahead(each, "") for each in STANDARD] == [7, 15, 15]
    queue.remove(first)
    queue.remove(second)
    assert (len(queue), queue.num_tokens, queue.num_deferred) == (1, 7, 0)
    queue.admitted(third, 7, 3.0)
    assert (len(queue), queue.num_tokens) == (0, 0)


def test_the_deferred_let_others_pass_and_come_back_to_their_place() -> None:
    first, second, third, fourth = (make_waiting(rank) for rank in range(4))
    queue = queue_of(first, second, third, fourth)
    queue.defer(first, b"a")
    queue.defer(third, b"a")
    queue.defer(second, b"b")
    assert queue.first(4.0) is fourth
    queue.wake(lambda name: name == b"b", look_again)
    assert queue.num_deferred == 1
    assert second.state is RequestState.DEFERRED
    assert admit_all(queue) == [0, 2, 3]


def test_who_is_woken_may_have_less_work() -> None:
    live = make_waiting(0, 30)
    queue = queue_of(live)
    queue.defer(live, b"a")
    assert queue.num_tokens == 30
    queue.wake(lambda name: False, lambda awaited, lives: look_again(awaited, lives, 2))
    assert queue.num_tokens == 2


def test_a_deferred_request_can_leave_without_a_trace() -> None:
    live = make_waiting(0)
    queue = queue_of(live)
    queue.defer(live, b"a")
    queue.remove(live)
    asked: list[bytes | int] = []

    def is_in_flight(awaited: bytes | int) -> bool:
        asked.append(awaited)
        return False

    queue.wake(is_in_flight, look_again)
    assert asked == []
    assert len(queue) == 0


def test_those_who_have_no_time_left_are_taken_out() -> None:
    lives = [make_waiting(rank, expires_s=10.0 - rank) for rank in range(4)]
    queue = queue_of(*lives)
    queue.defer(lives[3], b"a")
    assert queue.next_expiry_s == 7.0
    assert queue.expire(6.9) == []
    assert queue.expire(8.0) == [lives[3], lives[2]]
    assert (len(queue), queue.num_deferred, queue.next_expiry_s) == (2, 0, 9.0)
    assert admit_all(queue) == [0, 1]
    assert queue.next_expiry_s is None


def test_who_has_started_once_does_not_expire() -> None:
    live = make_waiting(0, expires_s=5.0)
    live.started_s = 1.0
    queue = queue_of(live)
    assert queue.next_expiry_s is None
    assert queue.expire(6.0) == []


def test_ahead_of_a_tenant_is_what_others_may_have_before_its_turn() -> None:
    burst = [make_waiting(rank, 10, tenant="a") for rank in range(50)]
    queue = queue_of(*burst, make_waiting(50, 10, tenant="b"))
    silver = STANDARD.default
    assert queue.tokens_ahead(silver, "a") == 510
    assert queue.tokens_ahead(silver, "b") == 30, "its own, as much of the other's, and one that may be first"
    assert queue.requests_ahead(silver, "b") == 3
    assert queue.tokens_ahead(silver, "c") == 20
    assert queue.tokens_ahead(STANDARD.least, "c") == 510, "better classes come first, whoever asks"


def test_ahead_of_a_tenant_that_had_more_is_what_others_may_catch_up() -> None:
    queue = queue_of(*(make_waiting(rank, 10, tenant="a") for rank in range(20)))
    stream = make_waiting(20, tenant="b")
    queue.push(stream)
    admit_next(queue, 20.0)
    queue.remove(stream)
    queue.served(stream, 60)
    assert 60 <= queue.tokens_ahead(STANDARD.default, "b") <= 80
