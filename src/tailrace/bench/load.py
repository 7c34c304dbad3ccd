"""Sends requests at their due times, or as fast as a number of slots allows, and keeps what each one brought."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals

__all__ = ["LoadRun", "Sample", "Send", "offer_load"]

T = TypeVar("T")
Send = Callable[[T], Awaitable[Streamed]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: how long it waited in this client past its due time, and what came back."""

    queue_s: float
    streamed: Streamed


@dataclass(frozen=True, slots=True)
class LoadRun:
    samples: Sequence[Sample]  # one a request, in the order they were due
    started_s: float
    ended_s: float

    @property
    def duration_s(self) -> float:
        return self.ended_s - self.started_s


async def offer_load(
    requests: Sequence[T], send: Send[T], arrivals: Arrivals, seed: int, on_done: Callable[[Sample], None]
) -> LoadRun:
    """Send every request once. `on_done` hears of each as it ends.

    With a rate no arrival waits for an answer: a request is started when it is due, and only the bound on requests in
    flight can hold it back in the client, which its `queue_s` shows.
    """
    slots = asyncio.Semaphore(arrivals.concurrency)
    started_s = time.perf_counter()

    async def one(request: T, due_s: float) -> Sample:
        async with slots:
            queue_s = time.perf_counter() - due_s
            sample = Sample(queue_s if arrivals.rate is not None else 0.0, await send(request))
        on_done(sample)
        return sample

    async with asyncio.TaskGroup() as group:
        tasks = []
        for request, offset_s in zip(requests, arrivals.due_s(len(requests), seed), strict=True):
            due_s = started_s + offset_s
            await asyncio.sleep(due_s - time.perf_counter())
            tasks.append(group.create_task(one(request, due_s)))
    return LoadRun([task.result() for task in tasks], started_s, time.perf_counter())
