"""The front end in shared memory: lets clients of this machine in, and serves them until it is told to stop."""

import asyncio
import os
import stat
from contextlib import ExitStack, suppress

from tailrace.errors import UnavailableError
from tailrace.frontends.shm.config import ShmConfig
from tailrace.frontends.shm.connection import Connection, Pipes
from tailrace.frontends.shm.layout import LAYOUT_VERSION, SEGMENT_BYTES, Segment
from tailrace.frontends.shm.lobby import DOOR_RECORD_BYTES, Knock, Lobby, Verdict, open_own
from tailrace.service.api import Service
from tailrace.telemetry.shm import ShmMetrics

__all__ = ["serve_shm"]

_LAST_WORDS_S = 1.0  # for clients to be told that the server ends
_PIPE_BYTES = 65536


async def serve_shm(
    lobby: Lobby,
    service: Service,
    metrics: ShmMetrics,
    config: ShmConfig | None = None,
    *,
    stop: asyncio.Event,
    grace_s: float = 30.0,
) -> None:
    """Serves until `stop`; answers under way have `grace_s` to end then. Does not close the lobby.

    Several processes that have inherited one lobby may serve it together: a client belongs to one of them.
    """
    server = _Server(lobby, service, metrics, config or ShmConfig())
    try:
        await stop.wait()
        await server.drain(grace_s)
    finally:
        await server.close()


class _NoClient(Exception):
    """What knocked has not what a client has."""


class _Server:
    def __init__(self, lobby: Lobby, service: Service, metrics: ShmMetrics, config: ShmConfig) -> None:
        self._lobby = lobby
        self._service = service
        self._metrics = metrics
        self._config = config
        self._connections: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(lobby.door, self._on_knock)

    @property
    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for connection in self._connections for task in connection.tasks]

    async def drain(self, grace_s: float) -> None:
        """Wait for the answers under way; tell those that are too late."""
        await _wait(self._tasks, grace_s)
        for connection in self._connections:
            connection.end_answers(UnavailableError("the server is shutting down; send the request again"))
        await _wait(self._tasks, _LAST_WORDS_S)

    async def close(self) -> None:
        self._loop.remove_reader(self._lobby.door)
        tasks = self._tasks
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_knock(self) -> None:
        try:
            knock = Knock.decode(os.read(self._lobby.door, DOOR_RECORD_BYTES))
        except BlockingIOError:
            return
        if knock is None:  # from here on no record would begin where one should; clients knock again
            self._metrics.client_turned_away("nonsense")
            with suppress(BlockingIOError):
                os.read(self._lobby.door, _PIPE_BYTES)
            return
        try:
            self._let_in(knock)
        except (_NoClient, OSError):
            self._metrics.client_turned_away("nonsense")

    def _let_in(self, knock: Knock) -> None:
        with ExitStack() as undo:
            down = self._open(f"{knock.token}.down", os.O_WRONLY, stat.S_IFIFO, undo)
            if knock.version != LAYOUT_VERSION:
                self._turn_away(down, Verdict.REFUSED, "version")
                return
            if len(self._connections) >= self._config.max_clients:
                self._turn_away(down, Verdict.FULL, "full")
                return
            segment = self._open_segment(f"{knock.token}.segment")
            up = self._open(f"{knock.token}.up", os.O_RDONLY, stat.S_IFIFO, undo)
            for suffix in ("segment", "up", "down"):
                self._unlink(f"{knock.token}.{suffix}")
            os.write(down, Verdict.WELCOME)
            undo.pop_all()
        self._connect(segment, Pipes(up, down))

    def _connect(self, segment: Segment, pipes: Pipes) -> None:
        connection = Connection(
            segment, pipes, self._service, config=self._config, metrics=self._metrics, on_end=self._gone
        )
        self._connections.add(connection)
        self._metrics.num_clients(len(self._connections))

    def _turn_away(self, down: int, verdict: bytes, reason: str) -> None:
        os.write(down, verdict)
        self._metrics.client_turned_away(reason)

    def _gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._metrics.num_clients(len(self._connections))

    def _open_segment(self, name: str) -> Segment:
        with ExitStack() as closing:
            fd = self._open(name, os.O_RDWR, stat.S_IFREG, closing)
            status = os.fstat(fd)
            if status.st_size != SEGMENT_BYTES or status.st_blocks * 512 < SEGMENT_BYTES:
                raise _NoClient
            segment = Segment(fd)
        if not segment.is_of_this_version:
            raise _NoClient
        return segment

    def _open(self, name: str, flags: int, kind: int, undo: ExitStack) -> int:
        fd = open_own(self._lobby.directory, f"{self._lobby.name}.{name}", flags)
        undo.callback(os.close, fd)
        if stat.S_IFMT(os.fstat(fd).st_mode) != kind:
            raise _NoClient
        return fd

    def _unlink(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self._lobby.name}.{name}", dir_fd=self._lobby.directory)


async def _wait(tasks: list[asyncio.Task[None]], timeout_s: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
