"""What is pushed to Pyroscope: by a real client, from a process that was forked, to a server that stands in for it."""

import gzip
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tailrace.errors import SetupError
from tailrace.telemetry import pyroscope
from tailrace.telemetry.pyroscope import check_pyroscope, push_profiles

TIMEOUT_S = 60


class Receiver(HTTPServer):
    """Keeps what the first push says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Push)
        self.has_got = threading.Event()
        self.path = ""
        self.pushed = b""

    def take(self, path: str, body: bytes) -> None:
        self.path, self.pushed = path, gzip.decompress(body)
        self.has_got.set()


class Push(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        self.server.take(self.path, self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def turn_the_crank() -> None:
    while True:
        pass


def test_each_process_tells_under_its_name_what_it_does(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyroscope, "UPLOAD_INTERVAL_S", 1)
    pid = os.fork()
    if pid == 0:
        push_profiles(f"http://127.0.0.1:{receiver.server_port}", model="tiny", process="api 3")
        turn_the_crank()
    try:
        assert receiver.has_got.wait(TIMEOUT_S)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert receiver.path == "/push.v1.PusherService/Push"
    told = (b"tailrace", b"process", b"api 3", b"model", b"tiny", b"turn_the_crank")
    assert [word for word in told if word not in receiver.pushed] == []


@pytest.mark.parametrize("url", ["", "localhost:4040", "ftp://localhost", "http://", "/tmp/pyroscope", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SetupError, match=r"--pyroscope takes an address such as http://"):
        check_pyroscope(url)


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_pyroscope("https://profiles.example.com")
    monkeypatch.setattr(pyroscope, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install 'tailrace\[pyroscope\]'"):
        check_pyroscope("https://profiles.example.com")
