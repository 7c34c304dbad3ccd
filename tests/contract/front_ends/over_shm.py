"""The front end in shared memory, as the tests of all front ends see it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tailrace.client.client import Client, ClientOptions
from tailrace.client.joining import join
from tailrace.client.stream import TextStream
from tailrace.errors import ContextTooLong, EngineError, Overloaded, RequestError, TailraceError, UnavailableError
from tailrace.frontends.shm.lobby import Lobby
from tailrace.frontends.shm.server import serve_shm
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics
from tests.contract.front_ends.adapter import FrontEnd, Piece, Refused, Wish, counts

__all__ = ["ShmFrontEnd", "over_shm", "refused_by"]


@asynccontextmanager
async def over_shm(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[FrontEnd]:
    stop = asyncio.Event()
    with Lobby.claim("contract", directory) as lobby:
        serving = asyncio.create_task(serve_shm(lobby, service, metrics.shm, stop=stop, grace_s=0))
        try:
            with Client(await asyncio.to_thread(join, "contract", directory)) as client:
                yield ShmFrontEnd(client)
        finally:
            stop.set()
            await serving


class ShmFrontEnd:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self, wish: Wish) -> "ShmReading":
        options = ClientOptions(
            max_tokens=wish.max_tokens,
            temperature=wish.temperature,
            top_p=wish.top_p,
            n=wish.n,
            stop=wish.stop,
            service_class=wish.service_class,
            tenant=wish.tenant,
        )
        if wish.seed is not None:
            options["seed"] = wish.seed
        if wish.logprobs is not None:
            options["logprobs"] = wish.logprobs
        try:
            return ShmReading(await self.client.astream(wish.prompt, **options))
        except TailraceError as error:
            raise refused_by(error) from error


class ShmReading:
    def __init__(self, stream: TextStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Piece]:
        try:
            async for delta in self._stream.adeltas():
                yield Piece.of_delta(delta)
        except TailraceError as error:
            raise refused_by(error) from error

    @property
    def usage(self) -> tuple[int, int]:
        return counts(self._stream.usage)

    async def leave(self) -> None:
        await self._stream.aclose()


def refused_by(error: TailraceError) -> Refused:
    if isinstance(error, Overloaded):
        return Refused("overloaded", None, error.retry_after_s)
    if isinstance(error, RequestError):
        return Refused("too long" if isinstance(error, ContextTooLong) else "invalid", error.param)
    if isinstance(error, UnavailableError):
        return Refused("unavailable", None, error.retry_after_s)
    assert isinstance(error, EngineError)
    return Refused("failed")
