"""One feed for all who look: made once, only while somebody looks, and never held up."""

import asyncio
from contextlib import aclosing

import pytest

from tailrace.errors import Overloaded
from tailrace.frontends.http.console.feed import LiveFeed


class Frames:
    def __init__(self) -> None:
        self.num_made = 0

    async def make(self) -> bytes:
        self.num_made += 1
        return b"%d" % self.num_made


async def test_frames_are_made_once_for_all_and_only_while_somebody_looks() -> None:
    frames = Frames()
    feed = LiveFeed(frames.make, every_s=0.001)
    await asyncio.sleep(0.01)
    assert frames.num_made == 0
    async with aclosing(feed.frames()) as one, aclosing(feed.frames()) as other:
        assert await anext(one) == b"1"
        assert await anext(other) in (b"1", b"2")
    made = frames.num_made
    await asyncio.sleep(0.01)
    assert frames.num_made == made
    async with aclosing(feed.frames()) as later:
        assert await anext(later) == b"%d" % (made + 1)


async def test_who_reads_slowly_gets_the_newest() -> None:
    frames = Frames()
    feed = LiveFeed(frames.make, every_s=0.0)
    async with aclosing(feed.frames()) as reader:
        await anext(reader)
        while frames.num_made < 20:
            await asyncio.sleep(0)
        assert int(await anext(reader)) >= 19


async def test_a_closed_feed_ends() -> None:
    feed = LiveFeed(Frames().make, every_s=0.0)
    async with aclosing(feed.frames()) as reader:
        await anext(reader)
        feed.close()
        assert [frame async for frame in reader] == []
    async with aclosing(feed.frames()) as late:
        assert [frame async for frame in late] == []


async def test_what_keeps_a_frame_from_being_made_is_told() -> None:
    async def fail() -> bytes:
        raise ValueError("no")

    async with aclosing(LiveFeed(fail).frames()) as reader:
        with pytest.raises(ValueError, match="no"):
            await anext(reader)


async def test_after_a_failure_it_is_tried_again_for_who_comes_though_somebody_has_not_heard_of_it_yet() -> None:
    frames = Frames()

    async def make() -> bytes:
        frame = await frames.make()
        if frame == b"2":
            raise ValueError("no")
        return frame

    feed = LiveFeed(make, every_s=0.0)
    async with aclosing(feed.frames()) as quick, aclosing(feed.frames()) as slow:
        assert [await anext(quick), await anext(slow)] == [b"1", b"1"]
        with pytest.raises(ValueError, match="no"):
            await anext(quick)
        async with aclosing(feed.frames()) as late, asyncio.timeout(5):
            assert await anext(late) == b"3"


async def test_who_comes_as_the_last_one_goes_is_not_sent_away() -> None:
    frames = Frames()

    async def make() -> bytes:
        await asyncio.sleep(0.001)
        return await frames.make()

    feed = LiveFeed(make)
    first, second = feed.frames(), feed.frames()
    assert await anext(first) == b"1"
    await first.aclose()  # before anything else runs, the next one is there
    async with aclosing(second), asyncio.timeout(5):
        assert await anext(second) == b"2"


async def test_there_is_a_bound_on_who_looks() -> None:
    feed = LiveFeed(Frames().make)  # who comes later has the latest at once, and waits for no other
    readers = [feed.frames() for _ in range(33)]
    assert [await anext(reader) for reader in readers[:32]] == [b"1"] * 32
    with pytest.raises(Overloaded, match="32 consoles"):
        await anext(readers[32])
    for reader in readers:
        await reader.aclose()
