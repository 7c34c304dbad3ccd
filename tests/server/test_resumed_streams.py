"""Streams whose process is killed, or whose engine, are taken up again elsewhere: what was read is one whole answer."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tests.server.process import ServerProcess, serving

OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--max-restarts", "1000", "--api-workers", "2")
TOKENS = 96
WORKERS = ("api 0", "api 1")
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("/v1/completions", {"prompt": "Go on:", "temperature": 0}),
    "two choices": ("/v1/completions", {"prompt": "Once upon a time", "temperature": 0.9, "seed": 6, "n": 2}),
    "log probabilities": ("/v1/completions", {"prompt": "The sea", "temperature": 0, "logprobs": 2}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Tell me of rivers."}], "temperature": 0.7, "seed": 1},
    ),
}


@dataclass
class Read:
    """What a client has of a stream, over all its connections: the data of whole events, and the last of their ids."""

    stream_id: str = ""
    last_event_id: str = ""
    data: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.data[-1:] == ["[DONE]"]

    @property
    def choices(self) -> dict[int, list[Any]]:
        """Of each choice its text, its ends, and the log probabilities of its tokens."""
        assert self.is_whole
        choices: dict[int, list[Any]] = {}
        for chunk in map(json.loads, self.data[:-1]):
            for part in chunk["choices"]:
                choice = choices.setdefault(part["index"], ["", [], []])
                choice[0] += part.get("text") or part.get("delta", {}).get("content") or ""
                choice[1] += [part["finish_reason"]] if part["finish_reason"] else []
                if logprobs := part.get("logprobs"):
                    choice[2] += zip(
                        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
                    )
        return choices

    @property
    def usages(self) -> list[tuple[int, int]]:
        usages = [json.loads(each).get("usage") for each in self.data[:-1]]
        return [(each["prompt_tokens"], each["completion_tokens"]) for each in usages if each]


class Connection:
    def __init__(self, server: ServerProcess) -> None:
        place = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        self.connection.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @property
    def port(self) -> int:
        port: int = self.connection.sock.getsockname()[1]
        return port

    def begin(self, name: str, read: Read) -> http.client.HTTPResponse:
        path, fields = REQUESTS[name]
        body = {**fields, "max_tokens": TOKENS, "ignore_eos": True, "stream": True}
        body["stream_options"] = {"include_usage": True}
        headers = {"content-type": "application/json", "x-stream-resumable": "true"}
        self.connection.request("POST", path, json.dumps(body), headers)
        reply = self.connection.getresponse()
        read.stream_id = reply.headers["x-stream-id"]
        return reply

    def go_on(self, read: Read) -> http.client.HTTPResponse:
        headers = {"last-event-id": read.last_event_id} if read.last_event_id else {}
        self.connection.request("GET", f"/v1/streams/{read.stream_id}", headers=headers)
        return self.connection.getresponse()


def take(reply: http.client.HTTPResponse, read: Read, on_event: Callable[[int], object]) -> None:
    """Read whole events until the end of the stream, or of its connection."""
    assert reply.status == 200, reply.read()
    event_id, data, count = "", "", 0
    try:
        for raw in reply:
            line = raw.decode().removesuffix("\n")
            if line.startswith("id: "):
                event_id = line.removeprefix("id: ")
            elif line.startswith("data: "):
                data = line.removeprefix("data: ")
            elif not line and data:
                assert not data.startswith('{"error"'), data
                read.data.append(data)
                read.last_event_id = event_id or read.last_event_id
                event_id = data = ""
                count += 1
                on_event(count)
    except (OSError, http.client.HTTPException):
        pass  # whoever served it is gone


def worker_at(server: ServerProcess, port: int) -> str:
    """Which API process has the other end of the connection from this port."""
    pids = {title: server.pid_of(title) for title in WORKERS}
    ends_s = time.monotonic() + 30
    while time.monotonic() < ends_s:
        for title, pid in pids.items():
            if not links(pid).isdisjoint(sockets_from(pid, port)):
                return title
        time.sleep(0.01)
    raise AssertionError(f"nobody serves the connection from port {port}")


def sockets_from(pid: int, port: int) -> set[str]:
    """Sockets of the machine whose other end is that port, as a process sees them among its open files.

    There may be several: who had the port before may have talked to another server with it, moments ago.
    """
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return {f"socket:[{fields[9]}]" for fields in map(str.split, lines) if fields[2].endswith(f":{port:04X}")}


def links(pid: int) -> set[str]:
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(path.readlink()))
        except OSError:  # closed meanwhile
            continue
    return found


def connect_elsewhere(server: ServerProcess, other_than: str) -> Connection:
    """A connection to another API process than that."""
    ends_s = time.monotonic() + 60
    while time.monotonic() < ends_s:
        connection = Connection(server)
        if worker_at(server, connection.port) != other_than:
            return connection
        connection.__exit__()
    raise AssertionError(f"all connections went to {other_than}")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(*OPTIONS) as process:
        yield process


@pytest.fixture(scope="module")
def undisturbed(server: ServerProcess) -> dict[str, Read]:
    whole = {}
    for name in REQUESTS:
        whole[name] = Read()
        with Connection(server) as connection:
            take(connection.begin(name, whole[name]), whole[name], lambda count: None)
        assert whole[name].is_whole
    return whole


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("after", [1, 17])
def test_a_stream_whose_process_is_killed_goes_on_at_another(
    server: ServerProcess, undisturbed: dict[str, Read], name: str, after: int
) -> None:
    read, connection = Read(), Connection(server)
    first = worker_at(server, connection.port)
    pid = server.pid_of(first)

    def kill(count: int) -> None:
        if count == after:
            server.kill(first)

    with connection:
        take(connection.begin(name, read), read, kill)
    assert not read.is_whole
    had = len(read.data)
    assert had >= after
    with connect_elsewhere(server, first) as elsewhere:
        take(elsewhere.go_on(read), read, lambda count: None)
    assert len(read.data) > had
    assert read.choices == undisturbed[name].choices
    assert read.usages == undisturbed[name].usages
    server.wait_for_another(first, pid)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_goes_on_elsewhere_though_its_engine_and_its_process_were_killed_in_turn(
    server: ServerProcess, undisturbed: dict[str, Read], name: str
) -> None:
    read, connection = Read(), Connection(server)
    first = worker_at(server, connection.port)

    def kill(count: int) -> None:
        if count == 7:
            server.kill("engine")
        if count == 19:
            server.kill(first)

    with connection:
        take(connection.begin(name, read), read, kill)
    assert not read.is_whole

    def kill_again(count: int) -> None:
        if count == 5:
            server.kill("engine")

    with connect_elsewhere(server, first) as elsewhere:
        take(elsewhere.go_on(read), read, kill_again)
    assert read.choices == undisturbed[name].choices
    assert read.usages == undisturbed[name].usages


def test_a_stream_is_taken_up_while_there_is_no_engine(server: ServerProcess, undisturbed: dict[str, Read]) -> None:
    read, connection = Read(), Connection(server)
    first = worker_at(server, connection.port)

    def kill_both(count: int) -> None:
        if count == 11:
            server.kill("engine")
            server.kill(first)

    with connection:
        take(connection.begin("two choices", read), read, kill_both)
    with connect_elsewhere(server, first) as elsewhere:
        take(elsewhere.go_on(read), read, lambda count: None)
    assert read.choices == undisturbed["two choices"].choices
    assert read.usages == undisturbed["two choices"].usages


def test_a_stream_that_was_killed_is_there_for_its_own_id_alone(server: ServerProcess) -> None:
    read, connection = Read(), Connection(server)
    first = worker_at(server, connection.port)
    with connection:
        take(connection.begin("greedy", read), read, lambda count: server.kill(first) if count == 5 else None)
    with connect_elsewhere(server, first) as elsewhere:
        real, read.stream_id = read.stream_id, "0" * 32
        reply = elsewhere.go_on(read)
        assert (reply.status, json.loads(reply.read())["error"]["code"]) == (404, "stream_not_found")
        read.stream_id, kept = real, read.last_event_id
        read.last_event_id = "9999.999"
        reply = elsewhere.go_on(read)
        assert (reply.status, json.loads(reply.read())["error"]["param"]) == (400, "last-event-id")
        read.last_event_id = kept
        take(elsewhere.go_on(read), read, lambda count: None)
    assert read.is_whole
