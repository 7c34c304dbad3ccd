"""A server that speaks Redis' protocol and answers whatever a test makes it answer."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from hiredis import Reader

__all__ = ["DRIP", "HANG", "HANG_UP", "LyingRedis", "bulk", "lying_redis"]

HANG = b"never answer"
HANG_UP = b"close the connection"
DRIP = b"a value that comes a byte at a time, and never ends"
_HANDSHAKE = {b"CLIENT", b"HELLO", b"AUTH", b"SELECT", b"UNWATCH", b"WATCH"}

Answer = Callable[[list[bytes]], bytes]


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


@dataclass
class LyingRedis:
    """`answer` gets each command but those of the handshake; what it returns is sent as it is."""

    port: int
    answer: Answer
    commands: list[list[bytes]] = field(default_factory=list)  # seen so far
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"redis://:hunter2@127.0.0.1:{self.port}"

    def speak(self, peer: socket.socket) -> None:
        reader = Reader()
        with peer, suppress(OSError):
            while received := peer.recv(1 << 20):
                reader.feed(received)
                while (command := reader.gets()) is not False:
                    if not self._reply(peer, command):
                        return

    def _reply(self, peer: socket.socket, command: list[bytes]) -> bool:
        self.commands.append(command)
        said = b"+OK\r\n" if command[0] in _HANDSHAKE else self.answer(command)
        if said is HANG_UP:
            return False
        if said is HANG:
            self.closing.wait()
            return False
        if said is DRIP:
            peer.sendall(b"$999999999\r\n")
            while not self.closing.wait(0.005):
                peer.sendall(b"x")
        peer.sendall(said)
        return True


@contextmanager
def lying_redis(answer: Answer) -> Iterator[LyingRedis]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LyingRedis(listener.getsockname()[1], answer)
        threads = [threading.Thread(target=_accept, args=(listener, server), daemon=True)]
        threads[0].start()
        try:
            yield server
        finally:
            server.closing.set()
            listener.shutdown(socket.SHUT_RDWR)
            threads[0].join()


def _accept(listener: socket.socket, server: LyingRedis) -> None:
    with suppress(OSError):  # it is closed at the end
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=server.speak, args=(peer,), daemon=True).start()
