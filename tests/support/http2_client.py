"""A client of one HTTP/2 connection with prior knowledge, over a blocking socket: what was received, by stream."""

import contextlib
import socket
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset

__all__ = ["Http2Client"]


class Http2Client:
    """`window_bytes` is what a stream may send before it is acknowledged, which happens only when a test says so."""

    def __init__(self, port: int, *, window_bytes: int = 65535, timeout_s: float = 20) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(2**24)
        self.h2.update_settings({4: window_bytes})
        self.events: list[Event] = []
        self.bodies: dict[int, bytes] = defaultdict(bytes)
        self.status: dict[int, int] = {}
        self.headers: dict[int, dict[bytes, bytes]] = {}
        self.ended: set[int] = set()
        self.reset: dict[int, int] = {}
        self.goodbyes: list[ConnectionTerminated] = []
        self.is_closed = False
        self.flush()

    def __enter__(self) -> "Http2Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def request(self, method: str, path: str, body: bytes = b"", headers: tuple[tuple[str, str], ...] = ()) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        pseudo = ((":method", method), (":scheme", "http"), (":authority", "x"), (":path", path))
        self.h2.send_headers(stream_id, [*pseudo, *headers], end_stream=not body)
        if body:
            self.h2.send_data(stream_id, body, end_stream=True)
        self.flush()
        return stream_id

    def read_until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            assert not self.is_closed, "the server closed the connection"
            self.read()

    def read_to_close(self) -> None:
        while not self.is_closed:
            self.read()

    def read(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_closed = True
            return
        for event in self.h2.receive_data(data):
            self._note(event)
        if not self.goodbyes:
            with contextlib.suppress(ConnectionError):  # closed meanwhile, as the next read will say
                self.flush()

    def _note(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            headers = self.headers[event.stream_id] = dict(event.headers)
            self.status[event.stream_id] = int(headers[b":status"])
        elif isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
        elif isinstance(event, StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.reset[event.stream_id] = int(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self.goodbyes.append(event)
