"""iceoryx2, publish and subscribe with an event to wake the reader: frames of MessagePack in its shared memory."""

import ctypes
import os
from importlib import import_module
from typing import Any, ClassVar

from benchmarks.ring.transport import Mode, Receiver, Sender, Step, Took, decode, encode, repeat

__all__ = ["Iceoryx"]

_FRAME_BYTES = 1 << 16


class Iceoryx:
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SPIN, Mode.SLEEP)

    def __init__(self) -> None:
        self._name = f"tailrace-benchmark-{os.getpid()}"

    def sender(self, num_tokens: int) -> Sender:
        return _Sender(_Service(self._name))

    def receiver(self, mode: Mode) -> Receiver:
        service = _Service(self._name)
        return _Spinning(service) if mode is Mode.SPIN else _Sleeping(service)


class _Service:
    def __init__(self, name: str) -> None:
        self.library: Any = import_module("iceoryx2")
        self.library.set_log_level(self.library.LogLevel.Fatal)
        self._node = self.library.NodeBuilder.new().create(self.library.ServiceType.Ipc)
        service_name = self.library.ServiceName.new(name)
        frames = self.library.Slice[ctypes.c_uint8]
        builder = self._node.service_builder(service_name).publish_subscribe(frames)
        # As many frames as a step loop may be ahead: the default of 2 would drop what a slow reader has not read.
        self.tokens = builder.subscriber_max_buffer_size(256).enable_safe_overflow(False).open_or_create()
        self.wakes = self._node.service_builder(service_name).event().open_or_create()


class _Sender:
    def __init__(self, service: _Service) -> None:
        self._service = service
        self._publisher = service.tokens.publisher_builder().initial_max_slice_len(_FRAME_BYTES).create()
        self._notifier = service.wakes.notifier_builder().create()

    def send(self, step: Step) -> None:
        frame = encode(step.tokens)
        sample = self._publisher.loan_slice_uninit(len(frame))
        ctypes.memmove(sample.payload_ptr, frame, len(frame))
        sample.assume_init().send()
        self._notifier.notify()


class _Spinning:
    def __init__(self, service: _Service) -> None:
        self._service = service
        self._subscriber = service.tokens.subscriber_builder().buffer_size(256).create()

    def run(self, took: Took) -> None:
        repeat(self.receive, took)

    def receive(self) -> int:
        sample = self._subscriber.receive()
        return 0 if sample is None else decode(sample.payload().as_memory_view())


class _Sleeping(_Spinning):
    def __init__(self, service: _Service) -> None:
        super().__init__(service)
        self._listener = service.wakes.listener_builder().create()

    def receive(self) -> int:
        self._listener.blocking_wait()
        num_tokens = 0
        while received := super().receive():
            num_tokens += received
        return num_tokens
