"""The front end in shared memory: answers, bounds, deaths on either side, and clients that mean no good."""

import asyncio
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.client.client import Client
from tailrace.client.joining import join
from tailrace.errors import (
    ContextTooLong,
    EngineError,
    InvalidRequest,
    Overloaded,
    RequestError,
    SetupError,
    UnavailableError,
)
from tailrace.frontends.shm.config import ShmConfig
from tailrace.frontends.shm.layout import LAYOUT_VERSION, NUM_LANES, SEGMENT_BYTES, lane_at, make_segment
from tailrace.frontends.shm.lobby import Knock
from tailrace.frontends.shm.wire import Down, Up
from tailrace.frontends.trace_context import TraceContext, Tracing
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.types import FinishReason
from tests.support.scripted_service import ScriptedService, finish, token
from tests.support.shm_server import NAME, TIMEOUT_S, ShmServer, serving

LONG = (*(token(f"word{i} ") for i in range(5000)), finish(reason=FinishReason.LENGTH))
LONG_TEXT = "".join(f"word{i} " for i in range(5000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ShmServer]:
    with serving(ScriptedService(), tmp_path) as server:
        yield server


@pytest.fixture
def client(server: ShmServer) -> Iterator[Client]:
    with server.connect() as client:
        yield client


def scripted(server: ShmServer) -> ScriptedService:
    assert isinstance(server.service, ScriptedService)
    return server.service


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def files(parent: Path) -> set[str]:
    return {path.name for path in parent.rglob("*") if not path.is_dir()}


def test_a_long_answer_arrives_whole_though_its_lane_is_short(server: ShmServer, client: Client) -> None:
    scripted(server).script = LONG
    stream = client.stream("Hi")
    assert "".join(stream) == LONG_TEXT
    assert stream.finish_reason is FinishReason.LENGTH
    assert stream.usage.completion_tokens == 5000


def test_a_delta_may_be_longer_than_a_lane(server: ShmServer, client: Client) -> None:
    text = "é" * 100_000
    logprobs = tuple(TextLogprob(i, "é" * 100, b"\xc3" * 100, -0.5) for i in range(500))
    script = [ChoiceDelta(0, text, (1, 2), logprobs), ChoiceDelta(0, "end"), finish(stop_reason=7)]
    scripted(server).script = script
    assert list(client.stream("Hi").deltas()) == script


def test_a_slow_reader_holds_up_its_own_answer_alone(server: ShmServer, client: Client) -> None:
    scripted(server).script = LONG
    slow, quick = client.stream("slow"), client.stream("quick")
    slow_stream = scripted(server).streams[0]
    assert "".join(quick) == LONG_TEXT
    assert slow_stream.num_read < 2500
    assert "".join(slow) == LONG_TEXT


def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    with serving(ScriptedService(LONG), tmp_path, ShmConfig(stall_s=0.05)) as server, server.connect() as client:
        stream = client.stream("slow")
        assert scripted(server).closings.acquire(timeout=TIMEOUT_S)
        with pytest.raises(RequestError, match="given up") as given_up:
            list(stream)
        assert given_up.value.code == "stalled"
        scripted(server).script = LONG[:3]
        assert "".join(client.stream("again")) == "word0 word1 word2 "
        until(lambda: server.value("requests", "stalled") == 1)


@pytest.mark.parametrize("leave", ["close", "break", "forget", "client"])
def test_the_work_of_a_reader_who_leaves_is_aborted(leave: str, server: ShmServer, client: Client) -> None:
    never = asyncio.Event()
    scripted(server).script = (token("Hi"), never)
    stream = client.stream("a")
    if leave == "close":
        stream.close()
    elif leave == "break":
        for _ in stream:
            break
    elif leave == "client":
        client.close()
    del stream
    assert scripted(server).closings.acquire(timeout=TIMEOUT_S)


def test_lanes_of_answers_that_were_left_are_used_again(server: ShmServer, client: Client) -> None:
    scripted(server).script = LONG
    for _ in range(3 * NUM_LANES):
        until(lambda: has_begun(client))
    for _ in range(3 * NUM_LANES):
        assert scripted(server).closings.acquire(timeout=TIMEOUT_S)
    scripted(server).script = (token("Hi"), finish())
    assert "".join(client.stream("last")) == "Hi"


def has_begun(client: Client) -> bool:
    """Whether there was a lane for an answer, which is left at once."""
    try:
        client.stream("a").close()
    except Overloaded:
        return False
    return True


def test_a_client_has_so_many_answers_and_no_more(server: ShmServer, client: Client) -> None:
    scripted(server).script = (asyncio.Event(),)
    streams = [client.stream("a") for _ in range(NUM_LANES)]
    with pytest.raises(Overloaded, match="64 answers under way"):
        client.stream("one more")
    with server.connect() as other:
        other.stream("a").close()
    assert len(streams) == NUM_LANES


def test_a_request_that_never_fits_is_refused_and_the_next_is_served(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="at most") as refused:
        client.stream("a" * 3_000_000)
    assert refused.value.param == "prompt"
    assert "".join(client.stream("a" * 1_900_000)) == "Hello world"


@pytest.mark.parametrize(
    "error",
    [
        ContextTooLong("too long", param="prompt"),
        Overloaded("later", retry_after_s=3.0),
        UnavailableError("loading", retry_after_s=1.0),
    ],
)
def test_a_refusal_is_raised_where_the_request_is_made(error: Exception, server: ShmServer, client: Client) -> None:
    scripted(server).start_step = error
    with pytest.raises(type(error), match=str(error)) as raised:
        client.stream("Hi")
    assert vars(raised.value) == vars(error)


def test_what_fails_after_the_start_is_raised_to_the_reader(server: ShmServer, client: Client) -> None:
    scripted(server).script = (token("Hi"), RuntimeError("a secret"))
    stream = iter(client.stream("a"))
    assert next(stream) == "Hi"
    with pytest.raises(EngineError, match=r"the server failed.*request id shm-") as failed:
        next(stream)
    assert "secret" not in str(failed.value)


def test_an_error_of_the_engine_is_raised_to_the_reader(server: ShmServer, client: Client) -> None:
    scripted(server).script = (token("Hi"), finish(reason=FinishReason.ERROR, error="the engine died"))
    with pytest.raises(EngineError, match="the engine died"):
        list(client.stream("a"))


def test_nothing_of_a_client_has_a_name_once_it_is_in(server: ShmServer, client: Client, tmp_path: Path) -> None:
    assert files(tmp_path) == {f"{NAME}.lobby", f"{NAME}.door"}


def test_so_many_clients_are_let_in_and_a_place_is_free_when_one_has_gone(tmp_path: Path) -> None:
    with serving(ScriptedService(), tmp_path, ShmConfig(max_clients=2)) as server:
        first, second = server.connect(), server.connect()
        with pytest.raises(Overloaded, match="as many clients"):
            server.connect()
        first.close()
        until(lambda: server.value("clients") == 1)
        third = server.connect()
        assert "".join(third.stream("a")) == "Hello world"
        until(lambda: server.value("clients_turned_away", "full") == 1)
        for each in (second, third):
            each.close()


def test_nobody_answers_for_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no server is called 'test'.*--shm test"):
        join(NAME, tmp_path)


def test_a_client_of_another_version_is_told_so(tmp_path: Path) -> None:
    with serving(ScriptedService(), tmp_path) as server:
        (lobby,) = tmp_path.rglob("*.lobby")
        lobby.write_text("999\n")
        with pytest.raises(SetupError, match="version 999, this client by 1"):
            server.connect()


def test_answers_under_way_may_end_when_the_server_is_told_to_stop(tmp_path: Path) -> None:
    gate = asyncio.Event()
    service = ScriptedService((token("Hi"), gate, token(" there"), finish()))
    with serving(service, tmp_path, grace_s=TIMEOUT_S) as server, server.connect() as client:
        stream = client.stream("a")
        server.stop()
        server.call(gate.set)
        assert "".join(stream) == "Hi there"


def test_who_is_too_late_is_told_that_the_server_ends(tmp_path: Path) -> None:
    service = ScriptedService((token("Hi"), asyncio.Event()))
    with serving(service, tmp_path, grace_s=0) as server, server.connect() as client:
        stream = iter(client.stream("a"))
        assert next(stream) == "Hi"
        server.stop()
        with pytest.raises(UnavailableError, match="shutting down"):
            next(stream)
        with pytest.raises(UnavailableError):
            list(client.stream("b"))


CLIENT = """
import sys
from pathlib import Path
from tailrace.client.client import Client
from tailrace.client.joining import join
client = Client(join("test", Path(sys.argv[1])))
streams = [client.stream("a") for _ in range(3)]
print("begun", flush=True)
for _ in streams[0]: pass
"""

SERVER = """
import sys
from pathlib import Path
from tests.support.scripted_service import ScriptedService, token
from tests.support.shm_server import serving
import asyncio
with serving(ScriptedService((token("Hi"), asyncio.Event())), Path(sys.argv[1])):
    print("serving", flush=True)
    sys.stdin.read()
"""


def start(code: str, parent: Path) -> subprocess.Popen[str]:
    """A process that has said its first word."""
    command = [sys.executable, "-c", code, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


def test_the_work_of_a_client_that_is_killed_is_aborted(server: ShmServer, tmp_path: Path) -> None:
    scripted(server).script = (token("Hi"), asyncio.Event())
    kill(start(CLIENT, tmp_path))
    for _ in range(3):
        assert scripted(server).closings.acquire(timeout=TIMEOUT_S)
    until(lambda: server.value("clients") == 0)
    until(lambda: server.value("requests", "gone") == 3)


def test_the_clients_of_a_server_that_is_killed_are_told_and_its_name_is_free(tmp_path: Path) -> None:
    process = start(SERVER, tmp_path)
    with Client(join(NAME, tmp_path)) as client:
        stream = iter(client.stream("a"))
        assert next(stream) == "Hi"
        kill(process)
        with pytest.raises(UnavailableError, match="the server has ended"):
            next(stream)
        with pytest.raises(UnavailableError, match="the server has ended"):
            client.stream("b")
        with pytest.raises(UnavailableError, match="no server is called"):
            join(NAME, tmp_path)
    with serving(ScriptedService(), tmp_path) as server, server.connect() as client:
        assert "".join(client.stream("a")) == "Hello world"


async def test_readers_on_an_event_loop_are_told_too(tmp_path: Path) -> None:
    process = start(SERVER, tmp_path)
    with Client(join(NAME, tmp_path)) as client:
        stream = aiter(await client.astream("a"))
        assert await anext(stream) == "Hi"
        kill(process)
        with pytest.raises(UnavailableError, match="the server has ended"):
            await anext(stream)


class Intruder:
    """A client that writes what it likes."""

    def __init__(self, parent: Path) -> None:
        self.link = join(NAME, parent)
        self.segment = self.link._segment

    def ring(self) -> None:
        os.write(self.link._up, b".")

    @property
    def is_cut_off(self) -> bool:
        try:
            self.link.check()
        except UnavailableError:
            return True
        return False


@pytest.fixture
def intruder(server: ShmServer, tmp_path: Path) -> Iterator[Intruder]:
    intruder = Intruder(tmp_path)
    yield intruder
    intruder.link.close()


@pytest.mark.parametrize(
    ("kind", "content"),
    [(0, b""), (9, b"\0"), (Up.ASK, b""), (Up.CANCEL, b"\x40"), (Up.WATCH, b"\xff"), (2**32 - 1, b"\0" * 1000)],
)
def test_who_breaks_the_rules_is_cut_off_and_nobody_else(
    kind: int, content: bytes, server: ShmServer, client: Client, intruder: Intruder
) -> None:
    assert intruder.segment.asks.send(kind, 0, content)
    intruder.ring()
    until(lambda: intruder.is_cut_off)
    until(lambda: server.value("rules_broken") == 1)
    assert "".join(client.stream("a")) == "Hello world"


def test_who_watches_an_answer_that_has_ended_is_told_to_look(server: ShmServer, intruder: Intruder) -> None:
    intruder.segment.asks.send(Up.WATCH, 0, b"\7")
    intruder.ring()
    until(lambda: bool(select.select([intruder.link.down], [], [], 0)[0]))
    assert not intruder.is_cut_off


def test_a_lane_is_free_though_its_answer_was_cancelled_before_it_began(server: ShmServer, intruder: Intruder) -> None:
    """Both come in one go, as from a client whose task is cancelled at once."""
    intruder.segment.asks.send(Up.ASK, 0, b"\3", b"\x81\xa6prompt\xa1a")
    intruder.segment.asks.send(Up.CANCEL, 0, b"\3", b"")
    intruder.ring()
    until(lambda: server.value("requests", "cancelled") == 1)
    message = intruder.segment.lane(3).ring.receive()
    assert message is not None
    assert message[0] == Down.END
    assert server.value("requests", "gone") == 0
    intruder.segment.asks.send(Up.ASK, 0, b"\3", b"\x81\xa6prompt\xa1a")
    intruder.ring()
    until(lambda: server.value("requests", "complete") == 1)
    assert not intruder.is_cut_off


def test_a_lane_that_is_taken_twice_is_a_broken_rule(server: ShmServer, intruder: Intruder) -> None:
    scripted(server).script = (asyncio.Event(),)
    for _ in range(2):
        intruder.segment.asks.send(Up.ASK, 0, b"\0", b"\x81\xa6prompt\xa1a")
    intruder.ring()
    until(lambda: intruder.is_cut_off)
    until(lambda: server.value("requests", "gone") == 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from([0, 4096, 4096 + 64, 4096 + 128]) | st.integers(0, SEGMENT_BYTES - 64),
            st.binary(min_size=1, max_size=64),
        ),
        max_size=6,
    ),
    message=st.none() | st.tuples(st.integers(0, 4), st.binary(max_size=80)),
)
def test_no_garbage_in_shared_memory_harms_the_server_or_others(
    server: ShmServer,
    client: Client,
    tmp_path: Path,
    writes: list[tuple[int, bytes]],
    message: tuple[int, bytes] | None,
) -> None:
    intruder = Intruder(tmp_path)
    try:
        if message is not None:
            intruder.segment.asks.send(message[0], 0, message[1])
        for place, content in writes:
            intruder.segment._memory[place : place + len(content)] = content
        intruder.ring()
        assert "".join(client.stream("a")) == "Hello world"
    finally:
        intruder.link.close()


def test_a_lane_whose_positions_are_moved_ends_with_its_client(
    server: ShmServer, client: Client, intruder: Intruder
) -> None:
    gate = asyncio.Event()
    scripted(server).script = (gate, *LONG)
    intruder.segment.asks.send(Up.ASK, 0, b"\0", b"\x81\xa6prompt\xa1a")
    intruder.ring()
    until(lambda: bool(scripted(server).streams))
    tail = lane_at(0) + 64 + 64  # behind the bell, and the ring's head
    intruder.segment._memory[tail : tail + 8] = (2**63).to_bytes(8, "little")
    server.call(gate.set)
    until(lambda: intruder.is_cut_off)
    scripted(server).script = (token("Hi"), finish())
    assert "".join(client.stream("a")) == "Hi"


def test_garbage_at_the_door_keeps_nobody_out(server: ShmServer, tmp_path: Path) -> None:
    (door,) = tmp_path.rglob("*.door")
    for content in (b"x", secrets.token_bytes(1000), b"1 " + b"0" * 32 + b"\n"):
        with door.open("wb") as file:
            file.write(content)
        with server.connect() as client:
            assert "".join(client.stream("a")) == "Hello world"
    until(lambda: server.value("clients_turned_away", "nonsense") >= 3)


@pytest.mark.parametrize("flaw", ["short", "sparse", "link", "pipe", "magic", "no pipe", "plain pipe"])
def test_what_is_no_segment_is_not_let_in(flaw: str, server: ShmServer, tmp_path: Path) -> None:
    (directory,) = tmp_path.glob("tailrace-*")
    knock = Knock.of_version(LAYOUT_VERSION)
    path = {each: directory / f"{NAME}.{knock.token}.{each}" for each in ("segment", "up", "down")}
    make_flawed(flaw, path, tmp_path)
    reader = os.open(path["down"], os.O_RDONLY | os.O_NONBLOCK) if flaw != "no pipe" else None
    (door,) = directory.glob("*.door")
    door.write_bytes(knock.encode())
    until(lambda: server.value("clients_turned_away", "nonsense") == 1)
    assert server.value("clients") == 0
    if reader is not None:
        os.close(reader)


def make_flawed(flaw: str, path: dict[str, Path], elsewhere: Path) -> None:
    for pipe in ("up", "down"):
        if flaw == "plain pipe" and pipe == "up":
            path[pipe].touch(0o600)
        elif flaw != "no pipe":
            os.mkfifo(path[pipe], 0o600)
    if flaw == "pipe":
        os.mkfifo(path["segment"], 0o600)
        return
    target = elsewhere / "target" if flaw == "link" else path["segment"]
    fd = os.open(target, os.O_RDWR | os.O_CREAT, 0o600)
    if flaw == "sparse":
        os.ftruncate(fd, SEGMENT_BYTES)
    elif flaw == "short":
        os.write(fd, b"TRSHMSEG" * 100)
    else:
        make_segment(fd)
    if flaw == "magic":
        os.pwrite(fd, b"x", 0)
    os.close(fd)
    if flaw == "link":
        path["segment"].symlink_to(target)


def test_a_server_that_records_traces_begins_one_for_each_request(tmp_path: Path) -> None:
    service = ScriptedService()
    tracing = Tracing(TraceSampler())
    with serving(service, tmp_path, ShmConfig(tracing=tracing)) as server, server.connect() as client:
        for _ in range(2):
            assert "".join(client.stream("Hi")) == "Hello world"
    traces = [TraceContext.of_traceparent(each.trace) for each in service.generations]
    assert len({trace.trace_id for trace in traces if trace is not None}) == 2


def test_a_request_is_followed_to_its_end(server: ShmServer, client: Client) -> None:
    assert "".join(client.stream("Hi")) == "Hello world"
    until(lambda: all(life.ended_s is not None for life in server.metrics.lives.lives()))
    (life,) = server.metrics.lives.lives()
    assert (life.endpoint, life.class_name, life.finish_reason, life.error) == ("shm", "silver", "stop", None)
    assert (life.num_prompt_tokens, life.num_output_tokens, life.miss_reason) == (7, 2, "evicted")
    moments = [life.accepted_s, life.parsed_s, life.submitted_s, life.text_s, life.written_s, life.ended_s]
    assert moments == sorted(moments, key=lambda moment: moment or 0.0)
    assert None not in moments


@pytest.mark.parametrize(
    ("step", "end"),
    [
        (ContextTooLong("too long"), ("error", "context_length_exceeded")),
        (UnavailableError("draining"), ("error", "unavailable")),
        (ValueError("a fault"), ("error", "internal_error")),
    ],
)
def test_a_request_that_fails_says_why(
    step: Exception, end: tuple[str, str], server: ShmServer, client: Client
) -> None:
    scripted(server).start_step = step
    with pytest.raises((RequestError, UnavailableError, EngineError)):
        list(client.stream("Hi"))
    until(lambda: all(life.ended_s is not None for life in server.metrics.lives.lives()))
    (life,) = server.metrics.lives.lives()
    assert (life.finish_reason, life.error) == end


def test_a_request_whose_client_leaves_was_aborted(server: ShmServer, client: Client) -> None:
    scripted(server).script = (token("Hi"), asyncio.Event())
    stream = client.stream("a")
    assert next(iter(stream)) == "Hi"
    client.close()
    until(lambda: all(life.ended_s is not None for life in server.metrics.lives.lives()))
    (life,) = server.metrics.lives.lives()
    assert (life.finish_reason, life.error, life.num_output_tokens) == ("abort", "cancelled", 1)
