"""What a sweep removes from a Redis server, and what it leaves."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure, StoredBlock
from tailrace.levels.redis import RedisLevel, open_redis
from tailrace.levels.redis_sweep import Sweeper, drop, sweep
from tailrace.levels.redis_value import key_prefix
from tailrace.levels.redis_wire import Wire
from tests.support.blocks import FINGERPRINT, block, chain, stored, version_of, word
from tests.support.redis_server import PATIENCE_S, RedisServer, running_redis

OTHER_FINGERPRINT = b"fingerprint-0002"
OTHER_TENANT = word("other tenant")
LATER = 1 << 62


@pytest.fixture
def wire(server: RedisServer) -> Iterator[Wire]:
    with closing(Wire(server.url, timeout_s=PATIENCE_S)) as opened:
        yield opened


def put(level: RedisLevel, *labels: str, length: int) -> list[bytes]:
    """Keep a chain for each of these labels; all names."""
    return put_blocks(level, [each for label in labels for each in stored(chain(label, length))])


def put_blocks(level: RedisLevel, blocks: list[StoredBlock]) -> list[bytes]:
    assert level.put(blocks, version_of(level)) == len(blocks)
    return [block.head.name for block in blocks]


def swept(wire: Wire, *forgets: Forget) -> int:
    return sweep(wire, FINGERPRINT, dict.fromkeys(forgets, LATER))


def test_a_prefix_goes_with_all_that_continues_it(level: RedisLevel, wire: Wire) -> None:
    names = put(level, "a", "b", length=40)
    put_blocks(level, [block(word("branch"), parent=names[20]), block(word("twig"), parent=word("branch"))])
    assert swept(wire, Forget(Scope.PREFIX, names[10])) == 30 + 2
    assert level.contain(names) == 10
    assert level.contain(names[40:]) == 40
    assert level.contain([word("branch")]) == level.contain([word("twig")]) == 0


def test_what_continues_a_prefix_goes_even_where_the_prefix_has_gone(level: RedisLevel, wire: Wire) -> None:
    names = put(level, "a", length=5)
    level.forget([Forget(Scope.BLOCK, names[2])])
    assert swept(wire, Forget(Scope.PREFIX, names[2])) == 2
    assert level.contain(names) == 2


def test_what_may_continue_a_prefix_goes_with_it_where_blocks_in_between_have_gone(
    level: RedisLevel, wire: Wire
) -> None:
    names = put(level, "a", "b", length=9)
    level.forget([Forget(Scope.BLOCK, names[4]), Forget(Scope.BLOCK, names[9 + 4])])
    assert swept(wire, Forget(Scope.PREFIX, names[2])) == 2 + 4 + 4
    assert level.contain(names) == 2
    assert level.contain(names[9:]) == 4
    assert level.contain(names[9 + 5 :]) == 0


def test_a_tenant_goes_under_all_fingerprints(server: RedisServer, level: RedisLevel, wire: Wire) -> None:
    mine = put_blocks(level, stored(chain("mine", 3)))
    theirs = put_blocks(level, stored(chain("theirs", 3, OTHER_TENANT)))
    with closing(open_redis(server.url, OTHER_FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as other_model:
        elsewhere = put_blocks(
            other_model, [block(word("elsewhere"), tenant=OTHER_TENANT, fingerprint=OTHER_FINGERPRINT)]
        )
        assert swept(wire, Forget(Scope.TENANT, OTHER_TENANT)) == 4
        assert other_model.contain(elsewhere) == 0
    assert level.contain(mine) == 3
    assert level.contain(theirs) == 0


def test_a_fingerprint_goes_and_another_and_strangers_stay(server: RedisServer, level: RedisLevel, wire: Wire) -> None:
    names = put(level, "a", length=2500)
    with (
        server.client() as client,
        closing(open_redis(server.url, OTHER_FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as other_model,
    ):
        client.set("tailrace", "a stranger's")
        client.set("tailrace:1:a stranger's", "too short to be a block")
        kept = put_blocks(other_model, [block(word("elsewhere"), fingerprint=OTHER_FINGERPRINT)])
        assert swept(wire, Forget(Scope.FINGERPRINT, FINGERPRINT)) == 2500
        assert level.contain(names) == 0
        assert other_model.contain(kept) == 1
        assert client.get("tailrace") == b"a stranger's"


def test_several_go_together(level: RedisLevel, wire: Wire) -> None:
    names = put(level, "a", "b", length=3)
    put_blocks(level, stored(chain("theirs", 2, OTHER_TENANT)))
    forgets = [Forget(Scope.BLOCK, names[0]), Forget(Scope.PREFIX, names[4]), Forget(Scope.TENANT, OTHER_TENANT)]
    assert swept(wire, *forgets) == 1 + 2 + 2


@pytest.mark.parametrize("scope", Scope)
def test_what_was_written_after_the_forget_stays(level: RedisLevel, wire: Wire, scope: Scope) -> None:
    early = put_blocks(level, [block(word("early"), tenant=OTHER_TENANT)])
    version = level.log.append([Forget(Scope.BLOCK, word("unrelated"))])
    late = put_blocks(level, [block(word("late"), parent=early[0], tenant=OTHER_TENANT)])
    targets = {Scope.TENANT: OTHER_TENANT, Scope.FINGERPRINT: FINGERPRINT}
    sweep(wire, FINGERPRINT, {Forget(scope, targets.get(scope, early[0])): version})
    assert [level.contain(early), level.contain(late)] == [0, 1]


def test_dropping_counts_what_was_there(server: RedisServer, level: RedisLevel, wire: Wire) -> None:
    names = put(level, "a", length=5)
    keys = [key_prefix(FINGERPRINT) + own.hex().encode() for own in names]
    assert drop(wire, [*keys[:3], b"unknown"]) == 3
    assert drop(wire, []) == 0


def test_the_sweeper_makes_up_for_what_it_could_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.levels.redis_sweep._RETRY_S", 0.01)
    with (
        running_redis() as server,
        closing(open_redis(server.url, FINGERPRINT, ttl_s=100, timeout_s=PATIENCE_S)) as level,
    ):
        with closing(Sweeper(Wire(server.url, timeout_s=0.05), FINGERPRINT)) as sweeper:
            server.freeze()
            sweeper.ask([Forget(Scope.TENANT, OTHER_TENANT)], LATER)
            server.thaw()
            names = put_blocks(level, stored(chain("theirs", 3, OTHER_TENANT)))
            sweeper.ask([Forget(Scope.TENANT, OTHER_TENANT)], LATER)
            while level.contain(names):
                pass
        sweeper.close()


def test_the_sweeper_ends_while_the_server_is_down() -> None:
    with running_redis() as server:
        url = server.url
    sweeper = Sweeper(Wire(url, timeout_s=0.05), FINGERPRINT)
    sweeper.ask([Forget(Scope.TENANT, OTHER_TENANT)], LATER)
    sweeper.close()


def test_for_too_many_forgets_everything_goes(level: RedisLevel, server: RedisServer) -> None:
    names = put(level, "a", length=3)
    with closing(Sweeper(Wire(server.url, timeout_s=PATIENCE_S), FINGERPRINT)) as sweeper:
        sweeper.ask([Forget(Scope.TENANT, word(index)) for index in range(1025)], LATER)
        while level.contain(names):
            pass


def test_a_server_that_is_down_is_a_failure() -> None:
    with running_redis() as server:
        url = server.url
    with pytest.raises(LevelFailure):
        swept(Wire(url, timeout_s=0.05), Forget(Scope.TENANT, OTHER_TENANT))
