"""The Redis level against a server that lies, hangs or babbles: a failure or a miss, soon, and never a wrong block."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure, Outdated
from tailrace.levels.redis import RedisLevel, open_redis
from tailrace.levels.redis_value import pack
from tests.support.blocks import BLOCK_BYTES, FINGERPRINT, chain, contents, fetch, stored
from tests.support.lying_redis import DRIP, HANG, HANG_UP, LyingRedis, bulk, lying_redis
from tests.support.redis_server import PATIENCE_S

BLOCKS = stored(chain("a", 3))
NAMES = [block.head.name for block in BLOCKS]
LOG = b"*1\r\n*2\r\n$4\r\n42-0\r\n*2\r\n$1\r\no\r\n$1\r\nx\r\n"
VERSION = 42 << 20
VALUES = [pack(block, VERSION) for block in BLOCKS]

LIES = {
    "hangs": HANG,
    "hangs up": HANG_UP,
    "breaks off": bulk(VALUES[0])[:-20] + b"",
    "an error": b"-ERR hunter2\r\n",
    "out of memory": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "read only": b"-READONLY You can't write against a read only replica.\r\n",
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "no access": b"-NOPERM this user has no permissions to run this command\r\n",
    "a cluster": b"-MOVED 3999 127.0.0.1:6381\r\n",
    "not the protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "binary": bytes(range(256)),
    "a number": b":7\r\n",
    "a negative number": b":-7\r\n",
    "a huge number": b":99999999999999999999999999\r\n",
    "a string": b"+OK\r\n",
    "an empty value": b"$0\r\n\r\n",
    "nothing": b"$-1\r\n",
    "no list": b"*-1\r\n",
    "an empty list": b"*0\r\n",
    "a list of nothing": b"*2\r\n$-1\r\n*-1\r\n",
    "lists in lists": b"*1\r\n" * 200,
    "a map": b"%1\r\n+a\r\n+b\r\n",
    "a push": b">2\r\n+invalidate\r\n*0\r\n",
    "a double": b",1.5\r\n",
    "a boolean": b"#t\r\n",
    "another block": bulk(VALUES[2]),
    "an altered block": bulk(VALUES[0][:-1] + b"\0"),
    "a shorter block": bulk(VALUES[0][:-1]),
    "a longer block": bulk(VALUES[0] + b"\0"),
    "a length without end": b"$9999999999\r\n" + bytes(100),
    "two replies for one": bulk(VALUES[0]) + bulk(VALUES[0]),
    "a log of nonsense": b"*1\r\n*2\r\n$3\r\nx-y\r\n*0\r\n",
    "a scan without end": b"*2\r\n$1\r\n7\r\n*0\r\n",
}


CALLS: dict[str, Callable[[RedisLevel], object]] = {
    "get": lambda level: fetch(level, NAMES),
    "contain": lambda level: level.contain(NAMES),
    "put": lambda level: level.put(BLOCKS, VERSION),
    "version": lambda level: level.log.version(),
    "read": lambda level: level.log.read(VERSION),
    "stats": lambda level: level.stats(),
    **{
        f"forget {scope}": partial(lambda scope, level: level.forget([Forget(scope, NAMES[0])]), scope)
        for scope in Scope
    },
}


@contextmanager
def opened(server: LyingRedis, timeout_s: float = 0.02) -> Iterator[RedisLevel]:
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=timeout_s)) as level:
        yield level


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_no_lie_becomes_a_block_or_any_other_error(lie: bytes, call: Callable[[RedisLevel], object]) -> None:
    with lying_redis(lambda _: lie) as server, opened(server) as level:
        got: object = None
        with suppress(LevelFailure, Outdated):
            got = call(level)
        if isinstance(got, list):
            assert got == [contents(own) for own in NAMES[: len(got)]]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("hangs", "did not answer in time"),
        ("hangs up", "cannot be reached, or hung up"),
        ("an error", "answered with an error"),
        ("loading", "is still loading its data"),
        ("no access", "forbids a command to the user of --kv-redis"),
        ("a cluster", "is part of a cluster: --kv-redis needs a server that keeps all keys"),
        ("not the protocol", "answered with nonsense"),
    ],
)
def test_a_failure_says_what_is_wrong_and_where(kind: str, words: str) -> None:
    with (
        lying_redis(lambda _: LIES[kind]) as server,
        opened(server, timeout_s=0.02 if kind == "hangs" else PATIENCE_S) as level,
    ):
        with pytest.raises(LevelFailure) as caught:
            level.contain(NAMES)
        assert str(caught.value) == f"the server at 127.0.0.1:{server.port} {words}"


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_no_password_and_no_word_of_the_server_gets_into_a_message(lie: bytes) -> None:
    with lying_redis(lambda _: lie) as server, opened(server) as level:
        try:
            level.stats()
        except LevelFailure as failure:
            said = str(failure)
        else:
            said = ""
    assert "hunter2" not in said


def test_a_reply_that_comes_in_drops_is_given_up() -> None:
    with lying_redis(lambda _: DRIP) as server, opened(server) as level, pytest.raises(LevelFailure, match="in time"):
        fetch(level, NAMES)


def test_a_reply_without_end_is_not_kept_in_memory() -> None:
    endless = b"$99999999999\r\n" + bytes(64 << 20)
    with lying_redis(lambda _: endless) as server, opened(server, timeout_s=PATIENCE_S) as level:
        tracemalloc.start()
        with pytest.raises(LevelFailure, match="nonsense"):
            fetch(level, NAMES)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 16 << 20


def test_what_is_on_its_way_behind_a_reply_is_not_taken_for_the_next() -> None:
    def twice(command: list[bytes]) -> bytes:
        if command[0] == b"XRANGE":
            return LOG
        return b":1\r\n:1\r\n" if command[0] == b"EXISTS" else b"$-1\r\n"

    with lying_redis(twice) as server, opened(server, timeout_s=PATIENCE_S) as level:
        assert level.contain(NAMES[:1]) == 1
        for _ in range(3):
            with suppress(LevelFailure):
                assert fetch(level, NAMES) == []


def test_a_wrong_block_is_dropped_from_the_server() -> None:
    def answer(command: list[bytes]) -> bytes:
        return {b"UNLINK": b":1\r\n", b"XRANGE": LOG}.get(command[0], bulk(VALUES[1]))

    with lying_redis(answer) as server, opened(server, timeout_s=PATIENCE_S) as level:
        assert fetch(level, NAMES[:1]) == []
        key = b"tailrace:1:" + FINGERPRINT.hex().encode() + b":" + NAMES[0].hex().encode()
        assert server.commands[-1] == [b"UNLINK", key]


@pytest.mark.parametrize("length", [1, 16, 17, 40])
def test_a_pipeline_has_at_most_sixteen_blocks(length: int) -> None:
    """The next sixteen are asked for when the first have come: here the last of them does not."""
    blocks = stored(chain("long", length))
    values = {block.head.name.hex().encode(): pack(block, VERSION) for block in blocks}
    del values[blocks[min(15, length - 1)].head.name.hex().encode()]

    def answer(command: list[bytes]) -> bytes:
        if command[0] == b"XRANGE":
            return LOG
        value = values.get(command[1].rpartition(b":")[2])
        return b"$-1\r\n" if value is None else bulk(value)

    with lying_redis(answer) as server, opened(server, timeout_s=PATIENCE_S) as level:
        assert len(fetch(level, [block.head.name for block in blocks], BLOCK_BYTES)) == min(15, length - 1)
        assert sum(command[0] == b"GETEX" for command in server.commands) == min(16, length)
