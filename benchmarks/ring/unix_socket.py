"""A Unix stream socket: frames of MessagePack behind their length."""

import socket
from functools import cached_property
from typing import ClassVar
from uuid import uuid4

from benchmarks.ring.transport import Mode, Receiver, Sender, Step, Took, decode, encode, repeat

__all__ = ["UnixSocket"]

_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16


class UnixSocket:
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SPIN, Mode.SLEEP)

    def __init__(self) -> None:
        self._address = f"\0tailrace-benchmark-{uuid4()}"  # a name that is no file

    def sender(self, num_tokens: int) -> Sender:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen()
        return _Sender(listener)

    def receiver(self, mode: Mode) -> Receiver:
        end = socket.socket(socket.AF_UNIX)
        end.connect(self._address)
        return _Receiver(end, socket.MSG_DONTWAIT if mode is Mode.SPIN else 0)


class _Sender:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    @cached_property
    def _end(self) -> socket.socket:
        return self._listener.accept()[0]

    def send(self, step: Step) -> None:
        frame = encode(step.tokens)
        self._end.sendall(len(frame).to_bytes(_LENGTH_BYTES, "little") + frame)


class _Receiver:
    def __init__(self, end: socket.socket, flags: int) -> None:
        self._end = end
        self._flags = flags
        self._buffer = bytearray()

    def run(self, took: Took) -> None:
        repeat(self._receive, took)

    def _receive(self) -> int:
        try:
            self._buffer += self._end.recv(_READ_BYTES, self._flags)
        except BlockingIOError:
            return 0
        num_tokens = 0
        while frame := self._next_frame():
            num_tokens += decode(frame)
        return num_tokens

    def _next_frame(self) -> bytes:
        """Empty: it is not here yet."""
        end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "little")
        if not _LENGTH_BYTES < end <= len(self._buffer):
            return b""
        frame = bytes(self._buffer[_LENGTH_BYTES:end])
        del self._buffer[:end]
        return frame
