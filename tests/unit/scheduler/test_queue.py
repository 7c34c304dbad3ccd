from tailrace.kvcache.block import BlockTable
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.queue import WaitingQueue
from tests.support.simulation import make_request


def waiting(rank: int, num_tokens: int = 3) -> LiveRequest:
    request = make_request(f"r{rank}", range(num_tokens))
    return LiveRequest(
        request.request_id, request, rank, BlockTable(b""), list(request.prompt_ids), 100, 25, frozenset()
    )


def queue_of(*lives: LiveRequest) -> WaitingQueue:
    queue = WaitingQueue()
    for live in lives:
        queue.push(live)
    return queue


def ready(queue: WaitingQueue) -> list[int]:
    """Take out all that are ready, in order."""
    ranks = []
    while (live := queue.first) is not None:
        queue.remove(live)
        ranks.append(live.arrival_rank)
    return ranks


def test_the_first_to_come_is_the_first() -> None:
    assert ready(queue_of(waiting(0), waiting(1), waiting(2))) == [0, 1, 2]


def test_who_comes_back_goes_before_later_arrivals() -> None:
    queue = queue_of(waiting(3), waiting(5))
    queue.push(waiting(1))
    queue.push(waiting(4))
    assert ready(queue) == [1, 3, 4, 5]


def test_requests_and_tokens_are_counted_through_every_move() -> None:
    first, second, third = waiting(0, 3), waiting(1, 5), waiting(2, 7)
    queue = queue_of(first, second, third)
    queue.defer(second, b"name")
    assert (len(queue), queue.num_tokens, queue.num_deferred) == (3, 15, 1)
    queue.remove(first)
    queue.remove(second)
    assert (len(queue), queue.num_tokens, queue.num_deferred) == (1, 7, 0)


def test_the_deferred_let_others_pass_and_come_back_to_their_place() -> None:
    first, second, third, fourth = (waiting(rank) for rank in range(4))
    queue = queue_of(first, second, third, fourth)
    queue.defer(first, b"a")
    queue.defer(third, b"a")
    queue.defer(second, b"b")
    assert queue.first is fourth
    queue.wake(lambda name: name == b"b")
    assert queue.num_deferred == 1
    assert second.state is RequestState.DEFERRED
    assert ready(queue) == [0, 2, 3]


def test_a_deferred_request_can_leave_without_a_trace() -> None:
    live = waiting(0)
    queue = queue_of(live)
    queue.defer(live, b"a")
    queue.remove(live)
    asked: list[bytes] = []

    def is_in_flight(name: bytes) -> bool:
        asked.append(name)
        return False

    queue.wake(is_in_flight)
    assert asked == []
    assert len(queue) == 0
