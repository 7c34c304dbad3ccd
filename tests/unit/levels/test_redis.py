"""The Redis level against a real server."""

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from traceback import format_exception

import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure, Outdated, StoredBlock, Unreachable
from tailrace.levels.breaker import Breaker
from tailrace.levels.redis import RedisLevel, open_redis
from tailrace.levels.redis_log import LOG_KEY
from tailrace.types import Level
from tests.support.blocks import FINGERPRINT, TENANT, block, chain, contents, fetch, stored, version_of, word
from tests.support.redis_server import PATIENCE_S, RedisServer, running_redis

OTHER_FINGERPRINT = b"fingerprint-0002"
OTHER_TENANT = word("other tenant")


def put(level: RedisLevel, *blocks: object, length: int = 3) -> list[bytes]:
    """Keep a chain for each of these labels; all names."""
    chains = [each for label in blocks for each in stored(chain(label, length))]
    assert level.put(chains, version_of(level)) == len(chains)
    return [block.head.name for block in chains]


@pytest.fixture
def other(server: RedisServer) -> Iterator[RedisLevel]:
    """Another host's."""
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as opened:
        yield opened


def test_blocks_come_back_on_any_host_from_the_first_on(level: RedisLevel, other: RedisLevel) -> None:
    names = put(level, "a")
    assert level.level is Level.REDIS
    assert other.contain([*names, word("missing")]) == 3
    assert other.contain([word("missing"), *names]) == 0
    assert fetch(other, [*names, word("missing"), *names]) == [contents(own) for own in names]
    assert level.contain([]) == level.get([], []) == level.put([], version_of(level)) == 0


@pytest.mark.parametrize("length", [16, 17, 300])
def test_long_prefixes_take_several_round_trips(level: RedisLevel, length: int) -> None:
    names = put(level, "long", length=length)
    assert level.contain(names) == length
    assert fetch(level, names) == [contents(own) for own in names]


def test_large_blocks_go_one_at_a_time(level: RedisLevel) -> None:
    blocks = stored(chain("large", 3), 9 << 20)
    names = [block.head.name for block in blocks]
    assert level.put(blocks, version_of(level)) == 3
    assert fetch(level, names, 9 << 20) == [contents(own, 9 << 20) for own in names]


def test_a_block_above_the_size_is_not_kept(server: RedisServer) -> None:
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=100, max_block_bytes=999)) as level:
        large, small = block(word("large"), block_bytes=1000), block(word("small"), block_bytes=999)
        assert level.put([large, small], version_of(level)) == 1
        assert [level.contain([block.head.name]) for block in (large, small)] == [0, 1]


def test_a_block_that_is_there_lives_longer_and_is_not_written_again(server: RedisServer, level: RedisLevel) -> None:
    put(level, "a", length=1)
    with server.client() as client:
        (key,) = client.keys("tailrace:*")
        client.pexpire(key, 50_000)
        client.setrange(key, 500, "what was there")
        put(level, "a", length=1)
        assert client.getrange(key, 500, 513) == b"what was there"
        assert client.pttl(key) > 50_000


def test_a_use_makes_a_block_live_longer_and_without_one_it_expires(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a", length=2)
    with server.client() as client:
        for key in client.keys("tailrace:*"):
            client.pexpire(key, 50_000)
        fetch(level, names[:1])
        lives_ms = [client.pttl(f"tailrace:1:{FINGERPRINT.hex()}:{own.hex()}") for own in names]
    assert lives_ms[0] > 50_000 >= lives_ms[1]
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=0.001)) as hasty:
        put(hasty, "b", length=1)
        while hasty.contain([chain("b", 1)[0].name]):
            pass


def test_what_was_altered_behind_our_back_is_dropped_and_counted(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a")
    with server.client() as client:
        client.setrange(f"tailrace:1:{FINGERPRINT.hex()}:{names[1].hex()}", 500, b"altered")
    assert fetch(level, names) == [contents(names[0])]
    assert level.contain(names) == 1
    assert level.stats().num_corrupt == 1
    put(level, "a")
    assert level.contain(names) == 3


def test_a_value_of_another_block_is_not_given_out(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a", length=2)
    keys = [f"tailrace:1:{FINGERPRINT.hex()}:{own.hex()}" for own in names]
    with server.client() as client:
        client.copy(keys[0], keys[1], replace=True)
    assert fetch(level, names) == [contents(names[0])]


def test_a_value_of_another_type_is_a_failure(server: RedisServer, level: RedisLevel) -> None:
    (own,) = put(level, "a", length=1)
    with server.client() as client:
        key = f"tailrace:1:{FINGERPRINT.hex()}:{own.hex()}"
        client.delete(key)
        client.rpush(key, "a list")
    with pytest.raises(LevelFailure, match="answered with an error"):
        fetch(level, [own])


def test_a_block_is_forgotten(level: RedisLevel) -> None:
    names = put(level, "a")
    assert level.forget([Forget(Scope.BLOCK, names[1])]) == 1
    assert [level.contain([own]) for own in names] == [1, 0, 1]
    assert level.forget([Forget(Scope.BLOCK, word("unknown"))]) == 0


@pytest.mark.parametrize(
    ("forget", "is_left"),
    [
        (Forget(Scope.PREFIX, chain("a", 3)[2].name), 2 + 4),
        (Forget(Scope.PREFIX, chain("a", 3)[0].name), 4),
        (Forget(Scope.TENANT, TENANT), 0),
        (Forget(Scope.FINGERPRINT, FINGERPRINT), 0),
    ],
)
def test_what_was_forgotten_is_given_out_no_more_and_then_removed(
    server: RedisServer, level: RedisLevel, other: RedisLevel, forget: Forget, is_left: int
) -> None:
    names = put(level, "a", "b", length=4)
    assert len(fetch(other, names)) == 8
    level.forget([forget])
    for own in names[2:4]:
        buffer = bytearray(len(contents(own)))
        assert level.get([own], [memoryview(buffer)], names[: names.index(own)]) == 0
    with server.client() as client:
        while len(client.keys("tailrace:*")) > is_left:
            pass
    assert sum(level.contain([own]) for own in names) == is_left


def test_who_has_not_taken_in_a_forget_cannot_bring_back_what_it_covers(level: RedisLevel, other: RedisLevel) -> None:
    before = version_of(other)
    names = put(level, "a")
    level.forget([Forget(Scope.PREFIX, names[0])])
    with pytest.raises(Outdated):
        other.put(stored(chain("a", 3)), before)
    while other.contain(names):
        pass
    assert other.put(stored(chain("a", 3)), version_of(other)) == 3


def rewrite(server: RedisServer, value: bytes, own: bytes) -> None:
    """Bring a value back, as one who was told late, or died before it had dropped everything, leaves it."""
    with server.client() as client:
        client.set(f"tailrace:1:{FINGERPRINT.hex()}:{own.hex()}", value)


def values_of(server: RedisServer, names: Sequence[bytes]) -> list[bytes]:
    with server.client() as client:
        values = [client.get(f"tailrace:1:{FINGERPRINT.hex()}:{own.hex()}") for own in names]
    return [value for value in values if isinstance(value, bytes)]


@pytest.mark.parametrize(
    "forget",
    [
        Forget(Scope.BLOCK, chain("a", 3)[2].name),
        Forget(Scope.PREFIX, chain("a", 3)[2].name),
        Forget(Scope.PREFIX, chain("a", 3)[0].name),
        Forget(Scope.TENANT, TENANT),
        Forget(Scope.FINGERPRINT, FINGERPRINT),
    ],
)
def test_a_forgotten_block_that_lies_there_still_is_not_given_out(
    server: RedisServer, level: RedisLevel, other: RedisLevel, forget: Forget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_sweep.Sweeper.ask", lambda *_: None)
    names = put(level, "a", "kept")
    before, own = names[:2], names[2]
    (value,) = values_of(server, [own])
    other.forget([forget, Forget(Scope.BLOCK, word("unrelated"))])
    rewrite(server, value, own)
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as fresh:
        for reader in (fresh, other):
            buffer = bytearray(len(contents(own)))
            assert reader.contain([own]) == 1
            assert reader.get([own], [memoryview(buffer)], before) == 0
            assert reader.contain([own]) == 0
            rewrite(server, value, own)


def test_a_block_that_was_written_after_a_forget_is_given_out(level: RedisLevel, other: RedisLevel) -> None:
    """Also where what it replaces has not been removed yet."""
    put(level, "a")
    for _ in range(20):
        other.forget([Forget(Scope.PREFIX, chain("a", 3)[0].name), Forget(Scope.TENANT, TENANT)])
        names = put(level, "a")
        assert fetch(other, names) == [contents(own) for own in names]


def test_what_was_forgotten_is_known_for_a_moment_without_asking(
    level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = other.log.forgotten()
    level.forget([Forget(Scope.BLOCK, word("a"))])
    assert len(known) == len(other.log.forgotten()) == 0
    monkeypatch.setattr("tailrace.levels.redis_log._KNOWN_S", -1.0)
    assert len(other.log.forgotten()) == 1


def test_of_blocks_written_before_the_log_was_lost_none_is_given_out(
    server: RedisServer, level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_log._KNOWN_S", -1.0)
    names = put(level, "a")
    assert len(fetch(other, names)) == 3
    with server.client() as client:
        client.delete(LOG_KEY)
    assert fetch(other, names) == []
    assert put(level, "b") == [head.name for head in chain("b", 3)]
    assert len(fetch(other, [head.name for head in chain("b", 3)])) == 3


def test_a_forget_between_the_look_and_the_write_stops_the_write(
    level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = stored(chain("a", 1))
    version = version_of(level)
    write = level._write

    def forget_first(missing: Sequence[tuple[bytes, StoredBlock]], version: int) -> None:
        other.forget([Forget(Scope.BLOCK, word("unrelated"))])
        write(missing, version)

    monkeypatch.setattr(level, "_write", forget_first)
    with pytest.raises(Outdated):
        level.put(blocks, version)
    assert level.contain([blocks[0].head.name]) == 0


def test_stats_are_the_servers(server: RedisServer, level: RedisLevel) -> None:
    put(level, "a", length=3)
    with server.client() as client:
        client.config_set("maxmemory", 50_000_000)
        stats = level.stats()
        client.config_set("maxmemory", 0)
    assert stats.num_blocks == 3 + 1  # and the log
    assert stats.num_bytes > 3000
    assert stats.max_bytes == 50_000_000
    assert (stats.num_evicted, stats.num_corrupt) == (0, 0)


def test_what_a_full_server_evicts_is_a_miss_and_is_counted(server: RedisServer, level: RedisLevel) -> None:
    level.stats()
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 300_000)
        names: list[bytes] = []
        while not level.stats().num_evicted:
            with suppress(Outdated):  # the log is as good a victim as any other
                names += put(level, len(names), length=16)
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
    for own in names:
        assert fetch(level, [own]) in ([], [contents(own)])


def test_a_full_server_that_evicts_nothing_fails_and_can_still_forget(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a")
    with server.client() as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(LevelFailure, match="full and evicts nothing: set its maxmemory-policy"):
            level.put(stored(chain("b", 1)), version_of(level))
        assert fetch(level, names) == [contents(own) for own in names]
        with pytest.raises(LevelFailure):
            level.forget([Forget(Scope.PREFIX, names[0])])  # nobody can be told, but it has gone
        client.config_set("maxmemory", 0)
    assert level.contain(names) == 0


def test_a_replica_that_cannot_be_written_to_fails(server: RedisServer, level: RedisLevel) -> None:
    put(level, "a")
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(LevelFailure, match="is a replica, which cannot be written to"):
                level.put(stored(chain("b", 1)), version_of(level))
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")


def test_a_server_that_dies_fails_and_one_that_comes_back_is_used_again() -> None:
    with (
        running_redis() as server,
        closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as level,
    ):
        names = put(level, "a")
        before = version_of(level)
        server.kill()
        for _ in range(2):
            with pytest.raises(
                LevelFailure, match=f"127.0.0.1:{server.port} cannot be reached, as nothing listens there"
            ):
                level.contain(names)
        server.start()
        assert level.contain(names) == 0
        with pytest.raises(Outdated):
            level.put(stored(chain("a", 3)), before)  # the log was lost: whatever was forgotten since is not known
        assert put(level, "a") == names
        assert fetch(level, names) == [contents(own) for own in names]


def test_a_server_that_hangs_fails_soon(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a")
    with closing(open_redis(server.url, FINGERPRINT, 100)) as hasty:
        server.freeze()
        with pytest.raises(LevelFailure, match="did not answer in time"):
            hasty.contain(names)
        server.thaw()
        while True:
            with suppress(LevelFailure):  # such a short time may be too short for a busy machine
                assert hasty.contain(names) == 3
                break


def test_a_connection_that_the_server_closed_while_idle_is_no_failure(server: RedisServer, level: RedisLevel) -> None:
    names = put(level, "a")
    with server.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
    assert level.contain(names) == 3


def test_the_password_is_in_no_message() -> None:
    with running_redis("--requirepass", "right") as server:
        for user in ("", "somebody"):
            url = f"redis://{user}:hunter2@127.0.0.1:{server.port}"
            with closing(open_redis(url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as level:
                with pytest.raises(LevelFailure, match="refuses the user or the password of --kv-redis") as caught:
                    level.contain([word("a")])
                assert "hunter2" not in "".join(format_exception(caught.value))
        with closing(
            open_redis(f"redis://:right@127.0.0.1:{server.port}/3", FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
        ) as level:
            put(level, "a")


def test_a_wrong_password_is_one_line_whoever_notices_it(caplog: pytest.LogCaptureFixture) -> None:
    with running_redis("--requirepass", "right") as server:
        url = f"redis://:hunter2@127.0.0.1:{server.port}"
        breaker = Breaker(
            open_redis(url, FINGERPRINT, 100, timeout_s=PATIENCE_S), Forget(Scope.FINGERPRINT, FINGERPRINT)
        )
        log = breaker.log
        assert log is not None
        for _ in range(5):
            with pytest.raises(LevelFailure):
                breaker.put(stored(chain("a", 3)), 1)
            with pytest.raises(LevelFailure):
                breaker.contain([word("a")])
            with pytest.raises(LevelFailure):
                log.version()
        breaker.close()
        assert [record.getMessage() for record in caplog.records] == [
            "the redis level is down, requests go on without it: "
            f"the server at 127.0.0.1:{server.port} refuses the user or the password of --kv-redis"
        ]


def test_a_full_server_that_evicts_nothing_is_still_read_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with running_redis() as server:
        level = open_redis(server.url, FINGERPRINT, 100, timeout_s=PATIENCE_S)
        names = put(level, "a")
        breaker = Breaker(level, Forget(Scope.FINGERPRINT, FINGERPRINT))
        with server.client() as client:
            client.config_set("maxmemory", 1)
        for _ in range(5):
            with pytest.raises(LevelFailure):
                breaker.put(stored(chain("b", 3)), version_of(level))
            assert breaker.contain(names) == len(names)
        breaker.close()
        (record,) = caplog.records
        assert record.getMessage() == (
            "the redis level is read, but nothing can be written to it: the server at "
            f"127.0.0.1:{server.port} is full and evicts nothing: set its maxmemory-policy to allkeys-lru"
        )
        assert not breaker.health.is_well


def test_why_a_server_cannot_be_used_is_said(server: RedisServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        for url, why in [
            (
                f"redis://127.0.0.1:{unused.getsockname()[1]}",
                "cannot be reached, as nothing listens there: check --kv-r",
            ),
            ("redis://nowhere.invalid", "nowhere.invalid:6379 cannot be reached, as no such host is known: check"),
            (f"{server.url}/99", "has no database of the number in --kv-redis"),
        ]:
            opened = closing(open_redis(url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S))
            with opened as level, pytest.raises(Unreachable, match=why):
                level.contain([word("a")])


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:6379", "http://:hunter2@host", "redis://:hunter2@host:port", "redis://:hunter2@h?hunter2=1"]
)
def test_a_wrong_url_is_said_without_its_password(url: str) -> None:
    with pytest.raises(SetupError, match="--kv-redis is no URL") as caught:
        open_redis(url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
    assert "hunter2" not in "".join(format_exception(caught.value))


def test_what_a_url_sets_cannot_make_the_level_wait(server: RedisServer) -> None:
    with closing(
        open_redis(f"{server.url}?decode_responses=1&socket_timeout=60", FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
    ) as level:
        names = put(level, "a")
        assert fetch(level, names) == [contents(own) for own in names]


def test_a_server_behind_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    opened = closing(open_redis(f"unix://{path}", FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S))
    with running_redis("--unixsocket", str(path)) as server, opened as level:
        names = put(level, "a")
        assert fetch(level, names) == [contents(own) for own in names]
        server.kill()
        with pytest.raises(LevelFailure, match=f"the server at {path} cannot be reached"):
            level.contain(names)


def test_valkeys_own_scheme_is_known(server: RedisServer) -> None:
    with closing(
        open_redis(server.url.replace("redis", "valkey"), FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
    ) as level:
        put(level, "a")


@pytest.mark.parametrize("missing", ["redis", "hiredis"])
def test_without_the_extra_it_is_said_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tailrace.levels.redis_wire", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SetupError, match=r"--kv-redis needs redis-py and hiredis: pip install 'tailrace\[redis\]'"):
        open_redis("redis://127.0.0.1", FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)
