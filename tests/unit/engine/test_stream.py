import asyncio
import threading
from collections.abc import Sequence

import pytest

from tailrace.engine.stream import MAX_UNTAKEN, EventBuffer, EventStream, StreamTable
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
    async def scenario() -> list[Sequence[TokenEvent]]:
        table = StreamTable(asyncio.get_running_loop())
        stream = table.open("a")
        for event in (TokenEvent("a", 1), TokenEvent("a", 2, finish_reason=FinishReason.LENGTH)):
            table.publish([event])
        await asyncio.sleep(0)
        return [events async for events in stream]

    (events,) = asyncio.run(scenario())
    assert [event.token_id for event in events] == [1, 2]


def test_a_reader_is_woken_once_for_all_that_comes_before_it_takes() -> None:
    stream, wakes = EventStream(), list[int]()
    stream.push(TokenEvent("a", 1))
    stream.watch(lambda: wakes.append(1))
    stream.push(TokenEvent("a", 2))
    assert len(wakes) == 1
    assert [event.token_id for event in stream.take()] == [1, 2]
    assert not stream.take()
    stream.push(TokenEvent("a", 3))
    assert len(wakes) == 2


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


class Flow:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def pause(self, request_id: str) -> None:
        self.said.append(f"pause {request_id}")

    def proceed(self, request_id: str) -> None:
        self.said.append(f"proceed {request_id}")


def test_a_reader_that_lags_has_its_request_paused_once_and_loses_nothing() -> None:
    flow = Flow()
    stream = EventStream("a", flow)
    for token_id in range(MAX_UNTAKEN - 1):
        stream.push(TokenEvent("a", token_id))
    assert flow.said == []
    for token_id in range(MAX_UNTAKEN - 1, MAX_UNTAKEN + 20):  # some were under way
        stream.push(TokenEvent("a", token_id))
    assert flow.said == ["pause a"]
    assert stream.is_paused

    assert [event.token_id for event in stream.take()] == list(range(MAX_UNTAKEN + 20))
    assert flow.said == ["pause a", "proceed a"]
    assert not stream.take()
    assert flow.said == ["pause a", "proceed a"]


def test_nobody_goes_on_with_a_request_that_has_ended() -> None:
    flow = Flow()
    stream = EventStream("a", flow)
    for token_id in range(MAX_UNTAKEN):
        stream.push(TokenEvent("a", token_id))
    stream.push(TokenEvent("a", None, finish_reason=FinishReason.ABORT))
    stream.take()
    assert flow.said == ["pause a"]


def test_a_buffer_has_places_for_twice_what_is_in_flight_and_a_fifth_more() -> None:
    buffer = EventBuffer(bound=128)
    sizes = [buffer.num_places]
    for token_id in range(128):
        buffer.push(TokenEvent("a", token_id))
        if buffer.num_places != sizes[-1]:
            sizes.append(buffer.num_places)
    assert sizes == [8, 19, 45, 108, 128]
    assert len(buffer.take()) == 128
    buffer.push(TokenEvent("a", 7))
    assert [event.token_id for event in buffer.take()] == [7]
    assert buffer.num_places == 128  # which are there to stay


def test_what_comes_beyond_the_bound_of_a_buffer_is_kept() -> None:
    buffer = EventBuffer(bound=4)
    for token_id in range(13):
        buffer.push(TokenEvent("a", token_id))
    assert [event.token_id for event in buffer.take()] == list(range(13))
