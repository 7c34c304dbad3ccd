"""Publishes what became of blocks over ZeroMQ, to routers that send requests where their prefix is.

    PUB     topic | sequence number, 8 bytes, big-endian | batch
    ROUTER  a client sends a sequence number and gets, for each batch kept from it on, number | batch; then -1 | nothing

The engine never waits: its records are queued for a thread of ours, whose socket drops what a slow subscriber does not
take. A subscriber sees the gap in the numbers and asks for the rest. A number that starts anew means a new server.
"""

import logging
import re
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Thread

import zmq

from tailrace.errors import SetupError
from tailrace.records import CacheCleared, KvFact, KvRecord, Record
from tailrace.telemetry.kv_batches import BatchEncoder

__all__ = ["KvEventPublisher"]

logger = logging.getLogger(__name__)

_MAX_KEPT = 10_000  # batches
_MAX_KEPT_BYTES = 64 << 20
_MAX_PENDING = 10_000
_MAX_REQUEST_BYTES = 64
_NUMBER_BYTES = 8
_END = (-1).to_bytes(_NUMBER_BYTES, "big", signed=True)
_LINGER_MS = 100
_IPC = "ipc://"
_MAX_PORT = 65535


class KvEventPublisher:
    """`record` is a sink for the engine's records, called from one thread."""

    def __init__(
        self,
        endpoint: str,
        topic: str,
        encoder: BatchEncoder,
        *,
        max_kept: int = _MAX_KEPT,
        max_pending: int = _MAX_PENDING,
    ) -> None:
        """Bind `endpoint`, and the one for replay beside it: the next port. Raises SetupError when that fails."""
        replay_endpoint = _replay_endpoint(endpoint)
        self._topic = topic.encode()
        self._encoder = encoder
        self._history = _History(max_kept)
        self._pending: deque[tuple[KvFact, ...]] = deque([(CacheCleared(),)])  # nothing of an earlier server is left
        self._max_pending = max_pending
        self._is_closing = False
        self._context = zmq.Context()
        try:
            self._events = self._bind(zmq.PUB, endpoint, max_kept)
            self._replays = self._bind(zmq.ROUTER, replay_endpoint, 2 * max_kept)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise SetupError(f"--kv-events {endpoint}: {zmq.strerror(error.errno or 0)}: {_needs(endpoint)}") from None
        self.endpoint = self._events.get_string(zmq.LAST_ENDPOINT)
        self.replay_endpoint = self._replays.get_string(zmq.LAST_ENDPOINT)
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._thread = Thread(target=self._run, name="kv-events", daemon=True)
        self._thread.start()

    def record(self, record: Record) -> None:
        """Queue what it tells of blocks. When the queue is full, all that was told is taken back instead."""
        if not isinstance(record, KvRecord):
            return
        if len(self._pending) >= self._max_pending:
            self._pending.clear()
            self._pending.append((CacheCleared(),))
        self._pending.append(record.facts)
        self._signal()

    def close(self) -> None:
        """Publish what is queued and stop."""
        if self._is_closing:
            return
        self._is_closing = True
        self._signal()
        self._thread.join()
        self._context.destroy(linger=_LINGER_MS)
        self._wake.close()
        self._woken.close()

    def _signal(self) -> None:
        with suppress(BlockingIOError):  # then it is awake already
            self._wake.send(b"\0")

    def _bind(self, kind: int, endpoint: str, max_queued: int) -> zmq.Socket[bytes]:
        bound = self._context.socket(kind)
        bound.set(zmq.SNDHWM, max_queued)
        bound.set(zmq.MAXMSGSIZE, _MAX_REQUEST_BYTES)
        bound.set(zmq.TCP_KEEPALIVE, 1)
        bound.set(zmq.IPV6, "[" in endpoint)
        if kind == zmq.ROUTER:
            bound.set(zmq.ROUTER_MANDATORY, 1)  # to notice a client that takes no more
        bound.bind(endpoint)
        return bound

    def _run(self) -> None:
        try:
            self._publish()
            poller = zmq.Poller()
            poller.register(self._woken, zmq.POLLIN)
            poller.register(self._replays, zmq.POLLIN)
            while not self._is_closing:
                ready = dict(poller.poll())
                if self._woken.fileno() in ready:
                    self._woken.recv(4096)
                self._publish()
                if self._replays in ready:
                    self._replay()
            self._publish()
        except Exception:
            logger.exception("no more KV events are published")

    def _publish(self) -> None:
        with suppress(IndexError):  # all is published, or has just been taken back
            while True:
                batch = self._encoder.encode(self._pending.popleft())
                if batch is not None:
                    number = self._history.append(batch)
                    self._events.send_multipart((self._topic, number, batch), zmq.NOBLOCK)

    def _replay(self) -> None:
        client, *_, wanted = self._replays.recv_multipart()
        if len(wanted) != _NUMBER_BYTES:
            return
        try:
            for number, batch in self._history.since(int.from_bytes(wanted, "big")):
                self._replays.send_multipart((client, b"", number, batch), zmq.NOBLOCK)
            self._replays.send_multipart((client, b"", _END, b""), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            logger.debug("a client that wanted KV events again got not all: %s", error.strerror)


class _History:
    """The newest batches, by number."""

    def __init__(self, max_batches: int) -> None:
        self._max_batches = max_batches
        self._batches: deque[tuple[bytes, bytes]] = deque()
        self._num_bytes = 0
        self._num_appended = 0

    def append(self, batch: bytes) -> bytes:
        """Keep a batch; its number."""
        number = self._num_appended.to_bytes(_NUMBER_BYTES, "big")
        self._num_appended += 1
        self._batches.append((number, batch))
        self._num_bytes += len(batch)
        while len(self._batches) > self._max_batches or self._num_bytes > _MAX_KEPT_BYTES:
            self._num_bytes -= len(self._batches.popleft()[1])
        return number

    def since(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        first = self._num_appended - len(self._batches)
        return islice(self._batches, max(number - first, 0), None)


def _replay_endpoint(endpoint: str) -> str:
    """`tcp://host:port` with the next port, `ipc://path` with another name. Raises SetupError for what is neither."""
    if endpoint.startswith(_IPC):
        replay_endpoint = f"{endpoint}-replay"
        for one in (endpoint, replay_endpoint):
            if _is_taken(Path(one.removeprefix(_IPC))):
                raise SetupError(f"--kv-events {endpoint}: {one} is there and no socket: {_needs(endpoint)}")
        return replay_endpoint
    match = re.fullmatch(r"(tcp://.+:)(\d+|\*)", endpoint)
    if match is None:
        raise SetupError(f"--kv-events {endpoint} is no address: write it like tcp://127.0.0.1:5557 or ipc:///path")
    host, port = match.groups()
    if port in ("0", "*"):
        return endpoint
    if int(port) >= _MAX_PORT:
        raise SetupError(
            f"--kv-events {endpoint}: replays are on the next port, {int(port) + 1}, and ports end at {_MAX_PORT}: "
            "choose a lower one"
        )
    return f"{host}{int(port) + 1}"


def _is_taken(path: Path) -> bool:
    """Whether something is there that would be removed, and is not ours to remove."""
    with suppress(OSError):  # which binding will say
        return path.exists() and not path.is_socket()
    return False


def _needs(endpoint: str) -> str:
    if endpoint.startswith(_IPC):
        return "it needs a directory that exists and short paths, such as ipc:///tmp/kv and, for replays, ipc:///tmp/kv-replay"
    return (
        "it needs an address of this machine with two ports that neither others nor this server's --port use, such as "
        "tcp://127.0.0.1:5557 and the port behind it"
    )
