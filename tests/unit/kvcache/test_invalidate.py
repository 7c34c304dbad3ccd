"""Which blocks of a shared level may be used, held against a list of all that was ever forgotten."""

from random import Random

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.invalidate import Forgotten
from tailrace.kvcache.transfer import BlockHead


def target(number: int) -> bytes:
    return number.to_bytes(16, "big")


def head(name: int, tenant: int = 100, fingerprint: int = 200) -> BlockHead:
    return BlockHead(target(name), target(0), target(tenant), target(fingerprint), target(0))


def test_a_block_is_valid_unless_a_later_forget_covers_it() -> None:
    for forget in (
        Forget(Scope.BLOCK, target(1)),
        Forget(Scope.TENANT, target(100)),
        Forget(Scope.FINGERPRINT, target(200)),
    ):
        forgotten = Forgotten(floor=3)
        forgotten.add(forget, 7)
        assert not forgotten.is_valid(head(1), 6, since=0)
        assert forgotten.is_valid(head(1), 7, since=0)
        assert forgotten.is_valid(head(2, tenant=101, fingerprint=201), 3, since=0)


def test_what_continues_a_forgotten_prefix_is_not_valid_and_what_comes_before_is() -> None:
    forgotten = Forgotten(floor=0)
    forgotten.add(Forget(Scope.PREFIX, target(2)), 7)
    chain = [target(number) for number in range(5)]
    assert forgotten.since(chain[:2]) == 0
    assert forgotten.since(chain[:3]) == forgotten.since(chain) == 7
    assert forgotten.since(chain[3:]) == 0
    assert not forgotten.is_valid(head(4), 6, since=7)
    assert forgotten.is_valid(head(4), 7, since=7)


def test_targets_of_different_scopes_do_not_meet() -> None:
    forgotten = Forgotten(floor=0)
    forgotten.add(Forget(Scope.PREFIX, target(1)), 7)
    assert forgotten.is_valid(head(1, tenant=1, fingerprint=1), 6, since=0)


def test_of_what_lies_before_the_floor_nothing_is_valid() -> None:
    forgotten = Forgotten(floor=5)
    assert not forgotten.is_valid(head(1), 4, since=0)
    assert forgotten.is_valid(head(1), 5, since=0)


def test_it_is_bounded_and_never_calls_valid_what_was_forgotten() -> None:
    random = Random(1)
    forgotten = Forgotten(floor=0, max_targets=12)
    ever: list[tuple[Forget, int]] = []
    scopes = [*Scope, Scope.BLOCK, Scope.BLOCK, Scope.PREFIX]
    num_valid = 0
    for version in range(1, 2000):
        forget = Forget(random.choice(scopes), target(random.randrange(12)))
        forgotten.add(forget, version)
        ever.append((forget, version))
        assert len(forgotten) <= 12

        chain = [random.randrange(12) for _ in range(4)]
        block = head(chain[-1], tenant=random.randrange(12), fingerprint=random.randrange(12))
        written = random.randrange(max(version - 30, 0), version + 1)
        covering = {
            Forget(Scope.BLOCK, block.name),
            Forget(Scope.TENANT, block.tenant),
            Forget(Scope.FINGERPRINT, block.fingerprint),
            *(Forget(Scope.PREFIX, target(name)) for name in chain),
        }
        was_forgotten = any(at > written for forget, at in ever[-40:] if forget in covering)
        is_valid = forgotten.is_valid(block, written, forgotten.since([target(name) for name in chain]))
        num_valid += is_valid
        assert not (is_valid and was_forgotten)
    assert num_valid > 200
