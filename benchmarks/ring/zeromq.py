"""ZeroMQ over ipc, push to pull, with frames of MessagePack: what vLLM does between its processes."""

from importlib import import_module
from typing import ClassVar
from uuid import uuid4

from benchmarks.ring.transport import Mode, Receiver, Sender, Step, Took, decode, encode, repeat

__all__ = ["ZeroMq"]


class ZeroMq:
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SPIN, Mode.SLEEP)

    def __init__(self) -> None:
        self._address = f"ipc://@tailrace-benchmark-{uuid4()}"  # a name that is no file

    def sender(self, num_tokens: int) -> Sender:
        return _Sender(self._address)

    def receiver(self, mode: Mode) -> Receiver:
        return _Receiver(self._address, mode)


class _Sender:
    def __init__(self, address: str) -> None:
        zmq = import_module("zmq")
        self._socket = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.bind(address)

    def send(self, step: Step) -> None:
        self._socket.send(encode(step.tokens), copy=False)


class _Receiver:
    def __init__(self, address: str, mode: Mode) -> None:
        zmq = import_module("zmq")
        self._socket = zmq.Context.instance().socket(zmq.PULL)
        self._socket.connect(address)
        self._flags = zmq.NOBLOCK if mode is Mode.SPIN else 0
        self._nothing = zmq.Again

    def run(self, took: Took) -> None:
        repeat(self._receive, took)

    def _receive(self) -> int:
        try:
            frame: memoryview = self._socket.recv(self._flags, copy=False).buffer
        except self._nothing:
            return 0
        return decode(frame)
