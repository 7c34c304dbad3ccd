"""A server that is started for a load: one that cannot start is told, with the place of its messages."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers.engine import EngineUnavailable, Load
from benchmarks.peers.http_server import HttpServer
from benchmarks.serving.server import ServerCommand, started_server
from tailrace.bench.prompts import PromptSet
from tests.benchmarks.peers.scripted import BY_NAME


def command(code: str, log: Path) -> ServerCommand:
    return ServerCommand(lambda _port: [sys.executable, "-c", code], log=log)


def test_a_server_that_ends_at_once_is_unavailable(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    server = HttpServer(command("print('no such model'); raise SystemExit(3)", log))
    with pytest.raises(EngineUnavailable, match=rf"status 3 before it gave a token \(its messages: {log}\)"):
        server.measure(Load(BY_NAME["W1"], PromptSet([], is_exact=True), seed=0))
    assert log.read_text() == "no such model\n"


def test_a_server_that_never_answers_is_stopped(tmp_path: Path) -> None:
    silent = ServerCommand(lambda _port: [sys.executable, "-c", "input()"], start_timeout_s=0.0, log=tmp_path / "log")
    with pytest.raises(TimeoutError, match="no token within 0 s"), started_server(silent):
        pass


def test_a_program_that_is_missing_is_unavailable(tmp_path: Path) -> None:
    missing = HttpServer(ServerCommand(lambda _port: [str(tmp_path / "none")], log=tmp_path / "log"))
    with pytest.raises(EngineUnavailable, match="No such file"):
        missing.measure(Load(BY_NAME["W1"], PromptSet([], is_exact=True), seed=0))
