from tailrace.kvcache.block import BlockName
from tailrace.scheduler.pending import PendingBlocks

NAMES = [BlockName(bytes([i] * 16)) for i in range(6)]


def test_what_many_wait_for_is_the_work_of_the_first() -> None:
    pending = PendingBlocks(is_in_flight=lambda name: False)
    assert pending.enter(NAMES[:4]) == 4
    assert pending.enter(NAMES[:6]) == 2
    assert pending.enter(NAMES[:6]) == 0


def test_what_a_running_request_computes_is_nobody_elses_work() -> None:
    pending = PendingBlocks(is_in_flight=lambda name: name == NAMES[0])
    assert pending.enter(NAMES[:3]) == 2


def test_nothing_is_kept_of_those_who_left() -> None:
    pending = PendingBlocks(is_in_flight=lambda name: False)
    for first in range(3):
        pending.enter(NAMES[first:])
    for first in range(3):
        pending.leave(NAMES[first:])
    assert len(pending) == 0
    assert pending.enter(NAMES) == 6
