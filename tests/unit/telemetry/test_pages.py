import asyncio
import os

import pytest

from tailrace.telemetry.pages import MetricsPage, collect, publish_from_thread


def test_nothing_is_there_before_somebody_wrote() -> None:
    assert MetricsPage().read() == b""


def test_another_process_reads_what_was_wanted() -> None:
    page = MetricsPage()
    child = os.fork()
    if child == 0:
        os.eventfd_read(page.wakes)
        page.publish(lambda: b"from the child")
        os._exit(0)
    assert asyncio.run(collect([page])) == [b"from the child"]
    os.waitpid(child, 0)


def test_who_does_not_answer_is_not_waited_for_and_what_it_wrote_last_counts() -> None:
    page, silent = MetricsPage(), MetricsPage()
    page.publish(lambda: b"earlier")
    assert asyncio.run(collect([page, silent])) == [b"earlier"]


class Deadly:
    """Memory whose writer dies when it has written a byte."""

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory

    def __setitem__(self, place: slice, data: bytes) -> None:
        self.memory[place.start] = data[0]
        raise KeyboardInterrupt


@pytest.mark.parametrize("num_before", [1, 2, 3])
def test_who_dies_while_it_writes_leaves_what_was_there_before(
    num_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = MetricsPage()
    numbers = iter(range(num_before))
    for _ in range(num_before):
        page.publish(lambda: b"whole %d" % next(numbers))
    with monkeypatch.context() as dying:
        dying.setattr(page, "_memory", Deadly(page._memory))
        with pytest.raises(KeyboardInterrupt):
            page.publish(lambda: b"never")
    assert page.read() == b"whole %d" % (num_before - 1)
    page.publish(lambda: b"the next")
    assert page.read() == b"the next"


def test_more_than_a_page_holds_is_not_written() -> None:
    page = MetricsPage()
    page.publish(lambda: b"fits")
    wanted = page.want()
    page.publish(lambda: bytes(5 << 20))
    assert page.is_given(wanted)
    assert page.read() == b"fits"


async def test_a_thread_writes_whenever_somebody_looks() -> None:
    page = MetricsPage()
    numbers = iter(range(10))
    publish_from_thread(page, lambda: b"%d" % next(numbers))
    assert await collect([page]) == [b"0"]
    assert await collect([page]) == [b"1"]
