import asyncio
import threading

import pytest

from tailrace.engine.stream import StreamTable
from tailrace.types import FinishReason, TokenEvent


def test_events_published_by_another_thread_arrive_in_order_and_the_stream_ends() -> None:
    async def scenario() -> list[int | None]:
        table = StreamTable(asyncio.get_running_loop())
        stream = table.open("a")

        def publish() -> None:
            for token_id in range(5):
                table.publish([TokenEvent("a", token_id), TokenEvent("b", 99)])
            table.publish([TokenEvent("a", 5, finish_reason=FinishReason.STOP)])

        thread = threading.Thread(target=publish)
        thread.start()
        seen = [event.token_id async for events in stream for event in events]
        thread.join()
        assert table.num_open == 0
        return seen

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4, 5]


def test_a_late_reader_gets_everything_at_once() -> None:
    async def scenario() -> list[tuple[TokenEvent, ...]]:
        table = StreamTable(asyncio.get_running_loop())
        stream = table.open("a")
        for event in (TokenEvent("a", 1), TokenEvent("a", 2, finish_reason=FinishReason.LENGTH)):
            table.publish([event])
        await asyncio.sleep(0)
        return [events async for events in stream]

    (events,) = asyncio.run(scenario())
    assert [event.token_id for event in events] == [1, 2]


def test_an_id_in_use_is_refused() -> None:
    async def scenario() -> None:
        table = StreamTable(asyncio.get_running_loop())
        table.open("a")
        with pytest.raises(KeyError, match="in use"):
            table.open("a")

    asyncio.run(scenario())


def test_events_of_a_closed_stream_are_dropped() -> None:
    async def scenario() -> int:
        table = StreamTable(asyncio.get_running_loop())
        table.open("a")
        table.close("a")
        table.publish([TokenEvent("a", 1)])
        await asyncio.sleep(0)
        return table.num_open

    assert asyncio.run(scenario()) == 0
