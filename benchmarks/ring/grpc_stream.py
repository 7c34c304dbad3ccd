"""A server stream of gRPC over TCP loopback, its messages frames of MessagePack."""

import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from queue import SimpleQueue
from typing import Any, ClassVar

from benchmarks.ring.transport import Mode, Receiver, Sender, Step, Took, decode, encode

__all__ = ["GrpcStream"]

_SERVICE, _METHOD = "Tokens", "Stream"


class GrpcStream:
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SLEEP,)

    def __init__(self) -> None:
        self._port = memoryview(mmap.mmap(-1, 8)).cast("Q")

    def sender(self, num_tokens: int) -> Sender:
        sender = _Sender()
        self._port[0] = sender.port
        return sender

    def receiver(self, mode: Mode) -> Receiver:
        return _Receiver(self._port[0])


class _Sender:
    def __init__(self) -> None:
        grpc = import_module("grpc")
        self._frames: SimpleQueue[bytes] = SimpleQueue()
        self._server = grpc.server(ThreadPoolExecutor(1))
        handler = grpc.unary_stream_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _stream(self, _: bytes, __: Any) -> Iterator[bytes]:
        while True:
            yield self._frames.get()

    def send(self, step: Step) -> None:
        self._frames.put(encode(step.tokens))


class _Receiver:
    def __init__(self, port: int) -> None:
        self._channel = import_module("grpc").insecure_channel(f"127.0.0.1:{port}")
        self._frames = self._channel.unary_stream(f"/{_SERVICE}/{_METHOD}")(b"")

    def run(self, took: Took) -> None:
        for frame in self._frames:
            if not took(decode(frame)):
                return
