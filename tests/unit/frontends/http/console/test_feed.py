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


async def test_there_is_a_bound_on_who_looks() -> None:
    feed = LiveFeed(Frames().make)
    readers = [feed.frames() for _ in range(33)]
    for reader in readers[:32]:
        await anext(reader)
    with pytest.raises(Overloaded, match="32 consoles"):
        await anext(readers[32])
    for reader in readers:
        await reader.aclose()
