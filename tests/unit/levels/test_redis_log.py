"""The log of what was forgotten in Redis, as its readers see it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.redis import RedisLevel, open_redis
from tailrace.levels.redis_log import LOG_KEY
from tests.support.blocks import FINGERPRINT, word
from tests.support.redis_server import PATIENCE_S, RedisServer

FORGETS = [Forget(Scope.BLOCK, word(1)), Forget(Scope.PREFIX, word(2)), Forget(Scope.TENANT, word(3))]


@pytest.fixture
def other(server: RedisServer) -> Iterator[RedisLevel]:
    with closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as opened:
        yield opened


def test_others_read_what_was_forgotten_in_order_and_once(level: RedisLevel, other: RedisLevel) -> None:
    since = other.log.version()
    assert other.log.read(since) == other.log.read(since)
    level.forget(FORGETS[:2])
    level.forget(FORGETS[2:])
    deltas = other.log.read(since)
    assert deltas.is_complete
    assert list(deltas.forgets) == FORGETS
    assert deltas.version == other.log.version() > since
    assert other.log.read(deltas.version).forgets == ()


def test_ones_own_are_not_read_but_move_the_version(level: RedisLevel) -> None:
    since = level.log.version()
    level.forget(FORGETS)
    deltas = level.log.read(since)
    assert (deltas.forgets, deltas.is_complete) == ((), True)
    assert deltas.version > since


def test_all_that_begin_at_an_empty_server_agree(level: RedisLevel, other: RedisLevel) -> None:
    assert level.log.version() == other.log.version() == level.log.version() > 0


def test_a_long_absence_is_caught_up_with_in_parts(
    level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_log._ENTRY_TARGETS", 2)
    since = other.log.version()
    forgets = [Forget(Scope.BLOCK, word(index)) for index in range(2500)]
    level.forget(forgets)
    caught_up: list[Forget] = []
    while (deltas := other.log.read(since)).version > since:
        assert deltas.is_complete
        caught_up += deltas.forgets
        since = deltas.version
    assert caught_up == forgets


def test_who_was_away_for_too_long_is_told(
    server: RedisServer, level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_log._MAX_ENTRIES", 100)
    since = other.log.version()
    for index in range(400):
        level.forget([Forget(Scope.BLOCK, word(index))])
    with server.client() as client:
        assert client.xlen(LOG_KEY) <= 100 + 100  # a server cuts whole nodes
    deltas = other.log.read(since)
    assert not deltas.is_complete
    assert deltas.version == other.log.version()


def test_a_log_that_was_lost_begins_anew_with_a_later_version(
    server: RedisServer, level: RedisLevel, other: RedisLevel
) -> None:
    level.forget(FORGETS)
    since = other.log.version()
    with server.client() as client:
        client.flushall()
    deltas = other.log.read(since)
    assert not deltas.is_complete
    assert deltas.version > since
    assert other.log.read(deltas.version).is_complete


def test_versions_grow_even_when_the_servers_clock_was_set_back(server: RedisServer, level: RedisLevel) -> None:
    since = level.log.version() + (10_000_000 << 20)  # of some hours later
    with server.client() as client:
        client.flushall()
    deltas = level.log.read(since)
    assert not deltas.is_complete
    assert deltas.version > since
    level.forget(FORGETS)
    assert level.log.version() > deltas.version


def test_targets_of_one_scope_share_an_entry(server: RedisServer, level: RedisLevel, other: RedisLevel) -> None:
    since = other.log.version()
    forgets = [Forget(Scope.BLOCK, word(index)) for index in range(1000)]
    level.forget([Forget(Scope.PREFIX, word("last")), *forgets])
    with server.client() as client:
        assert client.xlen(LOG_KEY) == 1 + 1 + 2  # the beginning, the prefix, two of blocks
    assert list(other.log.read(since).forgets) == [Forget(Scope.PREFIX, word("last")), *forgets]


def test_what_is_known_of_a_long_log_is_all_of_it(
    level: RedisLevel, other: RedisLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.levels.redis_log._ENTRY_TARGETS", 1)
    level.forget([Forget(Scope.BLOCK, word(index)) for index in range(2500)])
    assert len(other.log.forgotten()) == len(level.log.forgotten()) == 2500


def test_a_log_that_was_lost_is_read_anew(server: RedisServer, level: RedisLevel, other: RedisLevel) -> None:
    level.forget(FORGETS)
    known = other.log.forgotten()
    with server.client() as client:
        client.flushall()
    level.forget(FORGETS[:1])
    other.log._known_s = 0.0
    renewed = other.log.forgotten()
    assert (len(known), len(renewed)) == (3, 1)
    assert renewed.floor > known.floor
