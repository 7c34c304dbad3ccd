"""An HTTP/2 connection under uvicorn: frames by the h2 library, each stream a task that runs the application.

Nothing here grows without a bound. A stream sends as much as its own window takes, so that a client that does not read
one stream holds up no other, and only while the connection has less than `_MAX_UNSENT_BYTES` to send; what streams send
in one turn of the event loop leaves in one write. Bodies are acknowledged when the application takes them.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from tailrace.frontends.http.http2 import PREFACE
from tailrace.frontends.http.http2.limits import (
    CONNECTION_WINDOW_BYTES,
    IDLE_S,
    MAX_HEADERS_BYTES,
    MAX_STREAMS,
    STREAM_WINDOW_BYTES,
    Allowance,
)
from tailrace.frontends.http.http2.meter import FrameMeter, FrameTooLong
from tailrace.frontends.http.http2.stream import Header, Http2Stream, make_scope

__all__ = ["Http2Connection"]

_DEFAULT_WINDOW_BYTES = 65535
_MAX_UNSENT_BYTES = 16 * 1024  # then streams wait
_MAX_UNREAD_ANSWERS_BYTES = 256 * 1024  # of acknowledgements, to a client that reads none
_SLICE_BYTES = 4096  # of what was received, between looks at the allowance
_EARNED_BY_PIECE = 2.0  # it may be acknowledged for its stream and for the connection
_EARNED_BY_ANSWER = 8.0
_LINGER_S = 2.0
_LAST_STREAM_ID = 2**31 - 1
_CONFIG = H2Configuration(
    client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
)


class Http2Connection(asyncio.Protocol):
    """Made for a transport whose first bytes were the preface; `data_received` wants them too."""

    def __init__(self, app: ASGIApp, state: ServerState, transport: asyncio.Transport) -> None:
        self._app = app
        self._state = state
        self.transport = transport
        self._loop = asyncio.get_running_loop()
        self._h2 = _make_connection()
        self._meter = FrameMeter(len(PREFACE))
        self._allowance = Allowance(self._loop.time())
        self._streams: dict[int, Http2Stream] = {}  # whose tasks run
        self._last_id = 0
        self._goes_away = False
        self._is_closed = False
        self._is_paused = False
        self._turn_bytes = 0  # of answers, in this turn of the loop
        self._farewell = b""
        self._flush_handle: asyncio.Handle | None = None
        self._idle = self._loop.call_later(IDLE_S, self.shutdown)
        state.connections.add(cast("Any", self))  # it asks no more of them than `shutdown`
        transport.set_write_buffer_limits(high=_MAX_UNSENT_BYTES)
        transport.set_protocol(self)
        self._flush_soon()

    # What the event loop tells.

    def data_received(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), _SLICE_BYTES):
                self._receive(data[start : start + _SLICE_BYTES])
                if self._is_closed:
                    return
        except ProtocolError:  # the library has said why
            self._end()
        except FrameTooLong:
            self._end_because(ErrorCodes.FRAME_SIZE_ERROR)
        if self.transport.get_write_buffer_size() > _MAX_UNREAD_ANSWERS_BYTES:
            self.transport.abort()
        self._flush_soon()

    def _receive(self, data: bytes) -> None:
        if not self._allowance.spend(self._meter.cost(data), self._loop.time()):
            self._end_because(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        for event in self._h2.receive_data(data):
            self._on_event(event)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_all()

    def eof_received(self) -> None:
        """Closes: who has said goodbye takes no more answers."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(cast("Any", self))  # as where it was added
        self._is_closed = True
        self._idle.cancel()
        for stream in self._streams.values():
            stream.leave()

    # What the server tells.

    def announce_drain(self) -> None:
        """Asks the client to open no more streams here; those that it opens are served."""
        self._say_goodbye(_LAST_STREAM_ID)

    def shutdown(self) -> None:
        """Closes once the streams that are open have ended; takes no new ones."""
        self._goes_away = True
        self._say_goodbye(self._last_id)
        if not self._streams:
            self._end()

    # What streams ask.

    def send_headers(self, stream_id: int, headers: Iterable[Header], *, is_last: bool) -> None:
        self._h2.send_headers(stream_id, [*headers, *self._state.default_headers], end_stream=is_last)
        self._flush_soon()

    def room(self, stream_id: int) -> int:
        if self._is_paused or self._turn_bytes >= _MAX_UNSENT_BYTES:
            return 0
        return min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)

    def send_data(self, stream_id: int, data: memoryview, *, is_last: bool) -> None:
        self._h2.send_data(stream_id, data, end_stream=is_last)
        self._turn_bytes += len(data)
        self._allowance.earn(_EARNED_BY_PIECE)
        self._flush_soon()

    def take(self, stream_id: int, num_bytes: int) -> None:
        if not self._is_closed:
            self._h2.acknowledge_received_data(num_bytes, stream_id)
            self._flush_soon()

    def cut(self, stream_id: int) -> None:
        if self._is_paused:  # it is the whole connection that nobody reads
            self.transport.abort()
            return
        self._reset(stream_id, ErrorCodes.CANCEL)
        self._streams[stream_id].leave()

    def finish(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id)
        self._state.total_requests += 1
        if stream.is_complete:
            self._allowance.earn(_EARNED_BY_ANSWER)
        if not self._is_closed:
            self._close_stream(stream)
            if not self._streams:
                self._rest()

    def _close_stream(self, stream: Http2Stream) -> None:
        if stream.num_unread:
            self.take(stream.stream_id, stream.num_unread)
        if stream.is_gone:
            return
        if not stream.is_complete:
            self._reset(stream.stream_id, ErrorCodes.INTERNAL_ERROR)
        elif not stream.has_whole_body:
            self._reset(stream.stream_id, ErrorCodes.NO_ERROR)

    # What the client does.

    def _on_event(self, event: Event) -> None:
        if self._is_closed:
            return
        if isinstance(event, RequestReceived):
            self._open(event)
        elif isinstance(event, DataReceived):
            self._feed(event)
        elif isinstance(event, ConnectionTerminated):
            self._end()
        elif isinstance(event, RemoteSettingsChanged):
            self._wake_all()
        else:
            self._on_stream_event(event)

    def _on_stream_event(self, event: Event) -> None:
        stream = self._streams.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, WindowUpdated) and event.stream_id == 0:
            self._wake_all()
        elif stream is None:
            return
        elif isinstance(event, StreamEnded):
            stream.feed_end()
        elif isinstance(event, StreamReset):
            stream.leave()
        elif isinstance(event, WindowUpdated):
            stream.wake()

    def _open(self, event: RequestReceived) -> None:
        # Streams that were reset are no longer open, but their tasks may still have to notice.
        if self._goes_away or len(self._streams) >= 2 * MAX_STREAMS:
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._idle.cancel()
        self._last_id = event.stream_id
        scope = make_scope(event.headers)
        stream = Http2Stream(self, event.stream_id, is_head=scope["method"] == "HEAD")
        self._streams[event.stream_id] = stream
        task = self._loop.create_task(stream.run(self._app, scope))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _feed(self, event: DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.is_complete or stream.is_gone:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        padding = event.flow_controlled_length - len(event.data)
        if padding:
            self._h2.acknowledge_received_data(padding, event.stream_id)
        stream.feed(event.data)

    # The end of things.

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        self._h2.reset_stream(stream_id, code)
        self._flush_soon()

    def _rest(self) -> None:
        """There is no stream."""
        if self._goes_away:
            self._end()
        else:
            self._idle = self._loop.call_later(IDLE_S, self.shutdown)

    def _say_goodbye(self, last_stream_id: int) -> None:
        # The library takes a GOAWAY for the end of everything, also of streams that it should still finish.
        self._farewell = GoAwayFrame(0, last_stream_id=last_stream_id).serialize()
        self._flush_soon()

    def _end_because(self, code: ErrorCodes) -> None:
        self._h2.close_connection(code)
        self._end()

    def _end(self) -> None:
        """Sends what there is to send, and closes."""
        if self._is_closed:
            return
        self._flush()
        self._is_closed = True
        for stream in self._streams.values():
            stream.leave()
        self.transport.close()
        self._loop.call_later(_LINGER_S, self.transport.abort)

    # Out.

    def _wake_all(self) -> None:
        for stream in self._streams.values():
            stream.wake()

    def _flush_soon(self) -> None:
        if self._flush_handle is None and not self._is_closed:
            self._flush_handle = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_handle = None
        if self._is_closed:
            return
        data, self._farewell = self._h2.data_to_send() + self._farewell, b""
        was_full, self._turn_bytes = self._turn_bytes >= _MAX_UNSENT_BYTES, 0
        if data:
            self.transport.write(data)
        if was_full and not self._is_paused:
            self._wake_all()


def _make_connection() -> H2Connection:
    connection = H2Connection(_CONFIG)
    connection.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS_BYTES,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
        },
    )
    connection.decoder.max_header_list_size = MAX_HEADERS_BYTES
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
    return connection
