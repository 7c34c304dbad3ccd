"""What the processes of a server share: made before any of them is forked, and gone with the last of them."""

import mmap
import socket
import time
from dataclasses import dataclass
from typing import Self

from tailrace.engine.board import Board
from tailrace.engine.channel import Channel, make_channels
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.shm.lobby import Lobby
from tailrace.telemetry.pages import MetricsPage
from tailrace.telemetry.profile import ProfileTurn

__all__ = ["Places", "Shared"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where clients find the server. All are taken before the processes that serve them are forked."""

    listener: socket.socket  # bound, and listening
    grpc_address: str | None = None
    lobby: Lobby | None = None  # in shared memory

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://{host}:{port}"


_STREAM_BYTES = 32 * 2**20  # taken of the system as it is filled


@dataclass(frozen=True, slots=True)
class Shared:
    board: Board
    channels: tuple[Channel, ...]  # one for each API process
    engine_page: MetricsPage
    worker_pages: tuple[MetricsPage, ...]
    engine_view: MetricsPage  # what its console shows of it
    worker_views: tuple[MetricsPage, ...]
    rates: RateTable  # what each client has asked for
    streams: memoryview  # what is kept of streams that may be taken up again, on any API process
    profile_turn: ProfileTurn
    started_s: float  # monotonic

    @classmethod
    def make(cls, *, num_workers: int, max_running: int, max_model_tokens: int) -> Self:
        return cls(
            Board(max_running),
            make_channels(num_workers, max_model_tokens),
            MetricsPage(),
            tuple(MetricsPage() for _ in range(num_workers)),
            MetricsPage(),
            tuple(MetricsPage() for _ in range(num_workers)),
            RateTable.shared(),
            memoryview(mmap.mmap(-1, _STREAM_BYTES)),
            ProfileTurn(),
            time.monotonic(),
        )
