"""Several works are one: all results in order, or the first failure and nothing left running."""

import asyncio

import pytest

from tailrace.client.together import together


async def test_results_come_in_the_order_of_the_works_whichever_ends_first() -> None:
    first_may_end = asyncio.Event()

    async def first() -> str:
        await first_may_end.wait()
        return "first"

    async def second() -> str:
        first_may_end.set()
        return "second"

    assert await together([first(), second()]) == ["first", "second"]


async def test_a_failure_ends_the_others_before_it_is_raised() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await together([waits(), fails()])
    assert ended == ["waits"]
