"""Clients that ask, leave, dawdle and talk nonsense, and hold every answer against the right one."""

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.chaos.faults import Faults
from benchmarks.chaos.requests import REQUESTS, Answer, Asked, Cut, Refused, ask

__all__ = ["Clients"]

_NONSENSE = (
    b"{",
    b"[]",
    b'{"prompt": 7}',
    b'{"prompt": "x", "max_tokens": -1}',
    b'{"prompt": "x", "no_such_field": 1}',
    b'{"prompt": "x", "n": 1000000}',
    b'{"messages": "x"}',
    b"\xff\xfe\x00",
    b'{"prompt": ' + b"[" * 2000,
)
_BURST = 6
_DAWDLE_S = 0.05


@dataclass(slots=True)
class Clients:
    """`wrong` are the answers that were not right, each in words; `done` counts what was done."""

    port: int
    right: Mapping[str, Answer]
    faults: Faults
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def run(self, seed: int, is_over: threading.Event) -> None:
        """One client, until it is over."""
        choice = random.Random(seed)
        acts = [self._whole, self._stream, self._stream, self._stream, self._leave, self._dawdle, self._nonsense]
        while not is_over.is_set():
            act = choice.choice([*acts, self._burst, self._half])
            act(choice)
            self.done[act.__name__.strip("_")] += 1

    def _whole(self, choice: random.Random) -> None:
        self._check(Asked(choice.choice(list(REQUESTS)), is_streamed=False))

    def _stream(self, choice: random.Random) -> None:
        self._check(Asked(choice.choice(list(REQUESTS)), is_streamed=True))

    def _dawdle(self, choice: random.Random) -> None:
        """Read slowly."""
        pause = choice.randrange(3, 12)
        self._check(Asked(choice.choice(list(REQUESTS)), is_streamed=True), slow_every=pause)

    def _burst(self, choice: random.Random) -> None:
        asked = [Asked(choice.choice(list(REQUESTS)), is_streamed=choice.random() < 0.5) for _ in range(_BURST)]
        with ThreadPoolExecutor(_BURST) as clients:
            list(clients.map(self._check, asked))

    def _leave(self, choice: random.Random) -> None:
        """Go away in the middle."""
        most = choice.randrange(1, 20)
        with suppress(Cut, Refused, TimeoutError):
            ask(self.port, Asked(choice.choice(list(REQUESTS)), is_streamed=True), lambda count: count < most)

    def _nonsense(self, choice: random.Random) -> None:
        """What is wrong with it must be said, by a status that blames the client."""
        body = choice.choice(_NONSENSE)
        path = choice.choice(["/v1/completions", "/v1/chat/completions"])
        began_s = time.monotonic()
        try:
            status = _status(self.port, path, body)
        except OSError as error:
            if not self.faults.was_cut(began_s):
                self.wrong.append(f"{body[:40]!r} was answered by {error!r}")
            return
        if status not in (400, 404, 413, 415, 422, 429, 503):
            self.wrong.append(f"{body[:40]!r} was answered with {status}")

    def _half(self, choice: random.Random) -> None:
        """Begin a request and never end it."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
            time.sleep(choice.uniform(0.0, 0.3))

    def _check(self, asked: Asked, slow_every: int = 0) -> None:
        def read(count: int) -> bool:
            if slow_every and count % slow_every == 0:
                time.sleep(_DAWDLE_S)
            return True

        began_s = time.monotonic()
        try:
            answer = ask(self.port, asked, read)
        except Cut as error:
            if self.faults.was_cut(began_s):
                self.done["cut"] += 1
            else:
                self.wrong.append(f"{asked}: {error}")
        except Refused as error:
            self.done["refused"] += 1
            if "wait" not in str(error) and "queue" not in str(error) and "too late" not in str(error):
                self.wrong.append(f"{asked} was refused: {error}")
        except (TimeoutError, ValueError, KeyError) as error:
            self.wrong.append(f"{asked}: {error!r}")
        else:
            if answer != self.right[asked.name]:
                self.wrong.append(f"{asked}: {answer} instead of {self.right[asked.name]}")


def _status(port: int, path: str, body: bytes) -> int:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        line = connection.makefile("rb").readline().split()
    if len(line) < 2:
        raise ConnectionError("no answer at all")
    return int(line[1])
