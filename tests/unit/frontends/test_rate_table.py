"""Accounts in memory that processes share: none gets lost, whoever writes and whoever dies."""

import fcntl
import os
import signal
from collections.abc import Callable
from functools import partial

from tailrace.frontends.rate_table import Account, RateTable

NOW_NS = 10**15


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big", signed=False)[::-1]


def account(table: RateTable, name: bytes, process: int = 0, now_ns: int = NOW_NS) -> Account:
    with table.account(name, process, now_ns) as found:
        assert found is not None
        return found


def in_process(work: Callable[[], None]) -> int:
    """A forked process that does it and ends without any of what belongs to this one."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def has_done_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def enter(table: RateTable, name: bytes, process: int, times: int = 1) -> None:
    for _ in range(times):
        with table.account(name, process, NOW_NS) as found:
            assert found is not None
            found.here[process] += 1
            found.requests_full_ns = max(found.requests_full_ns, NOW_NS) + 1


def test_what_is_counted_is_there_again() -> None:
    for table in (RateTable.alone(), RateTable.shared(128)):
        enter(table, digest(1), 3)
        enter(table, digest(2), 0)
        found = account(table, digest(1))
        assert (found.here[3], sum(found.here), found.requests_full_ns) == (1, 1, NOW_NS + 1)


def test_names_that_want_the_same_place_have_one_each() -> None:
    table = RateTable.alone(8)
    names = [digest(1 + 8 * number) for number in range(8)]
    for number, name in enumerate(names):
        enter(table, name, 0, times=number + 1)
    assert [account(table, name).here[0] for name in names] == [1, 2, 3, 4, 5, 6, 7, 8]
    with table.account(digest(99), 0, NOW_NS) as found:
        assert found is None


def test_a_place_is_given_away_once_it_says_nothing() -> None:
    table = RateTable.alone(1)
    enter(table, digest(1), 0)
    with table.account(digest(2), 0, NOW_NS + 10) as found:
        assert found is None  # somebody is here
    table.forget_process(0)
    with table.account(digest(2), 0, NOW_NS) as found:
        assert found is None  # somebody has to wait
    assert account(table, digest(2), now_ns=NOW_NS + 1).requests_full_ns == 0
    assert sum(account(table, digest(1), now_ns=NOW_NS + 1).here) == 0


def test_processes_count_together() -> None:
    table, name = RateTable.shared(64), digest(7)
    children = [in_process(partial(enter, table, name, process, times=500)) for process in range(4)]
    assert all(has_done_well(child) for child in children)
    found = account(table, name)
    assert found.here[:5] == [500, 500, 500, 500, 0]
    assert found.requests_full_ns == NOW_NS + 2000


def test_what_a_dead_process_had_here_is_forgotten_and_nothing_else() -> None:
    table, name = RateTable.shared(64), digest(7)
    enter(table, name, 0, times=2)
    assert has_done_well(in_process(lambda: enter(table, name, 1, times=3)))
    table.forget_process(1)
    found = account(table, name)
    assert (found.here[:2], found.requests_full_ns) == ([2, 0], NOW_NS + 5)


def test_a_process_that_dies_or_is_held_up_inside_does_not_hold_up_others() -> None:
    table, name = RateTable.shared(64), digest(7)
    ready, told = os.pipe()

    def stay() -> None:
        with table.account(name, 1, NOW_NS):
            os.write(told, b"!")
            signal.pause()

    child = in_process(stay)
    assert os.read(ready, 1) == b"!"
    enter(table, name, 0)
    assert account(table, name).here[:2] == [1, 0]
    os.kill(child, signal.SIGKILL)
    assert not has_done_well(child)
    enter(table, name, 0)
    assert account(table, name).here[:2] == [2, 0]
    os.close(ready)
    os.close(told)


def test_the_memory_has_no_name_and_the_lock_is_let_go() -> None:
    table = RateTable.shared(64)
    enter(table, digest(7), 0)

    def look() -> None:
        descriptor = table._lock_fd
        assert descriptor is not None
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert has_done_well(in_process(look))
