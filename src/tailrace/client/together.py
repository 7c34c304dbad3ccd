"""Several works at once, as one."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["together"]

_Result = TypeVar("_Result")


async def together(works: Iterable[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Their results, in order. Raises the first failure (a task group: a group of them) once all others have ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
