"""What became of blocks, in the bytes that routers read."""

from typing import Any

import msgspec
import pytest

from tailrace.records import BlockRemoved, BlockStored, CacheCleared, KvFact
from tailrace.telemetry.kv_batches import BatchEncoder
from tailrace.types import Level
from tests.support.blocks import TENANT, word

A, B, C, D = (word(label) for label in "abcd")


def number(block_name: bytes) -> int:
    return int.from_bytes(block_name[8:], "big")


def stored(
    own: bytes,
    parent: bytes | None = None,
    tokens: tuple[int, ...] = (1, 2),
    tenant: bytes = b"",
    at: Level = Level.ENGINE,
) -> BlockStored:
    return BlockStored(at, own, parent, tokens, tenant)


def removed(own: bytes, at: Level = Level.ENGINE) -> BlockRemoved:
    return BlockRemoved(at, own)


@pytest.fixture
def encoder() -> BatchEncoder:
    return BatchEncoder(block_tokens=2, clock=lambda: 12.5)


def events(encoder: BatchEncoder, *facts: KvFact) -> list[dict[str, Any]]:
    """As a reader that knows MessagePack and nothing of us sees them."""
    batch = encoder.encode(facts)
    if batch is None:
        return []
    at_s, found, rank = msgspec.msgpack.decode(batch)
    assert (at_s, rank) == (12.5, 0)
    assert isinstance(found, list)
    return found


def test_each_kind_has_the_fields_that_readers_know(encoder: BatchEncoder) -> None:
    assert events(encoder, stored(A), removed(A), CacheCleared()) == [
        {
            "type": "BlockStored",
            "block_hashes": [number(A)],
            "parent_block_hash": None,
            "token_ids": [1, 2],
            "block_size": 2,
            "lora_id": None,
            "medium": "CPU",
            "lora_name": None,
        },
        {"type": "BlockRemoved", "block_hashes": [number(A)], "medium": "CPU"},
        {"type": "AllBlocksCleared"},
    ]


def test_blocks_that_continue_each_other_are_one_event(encoder: BatchEncoder) -> None:
    first, second = events(encoder, stored(A, tokens=(1, 2)), stored(B, A, (3, 4)), stored(D, C, (5, 6)))
    assert (first["block_hashes"], first["token_ids"]) == ([number(A), number(B)], [1, 2, 3, 4])
    assert (second["parent_block_hash"], second["block_hashes"]) == (number(C), [number(D)])
    (third,) = events(encoder, stored(A, D, (7, 8)))  # in another batch it begins anew
    assert third["parent_block_hash"] == number(D)


def test_two_first_blocks_are_two_events(encoder: BatchEncoder) -> None:
    assert len(events(encoder, stored(A), stored(B))) == 2


def test_a_tenants_chain_is_told_apart_by_its_first_block(encoder: BatchEncoder) -> None:
    (whole,) = events(encoder, stored(A, tenant=TENANT), stored(B, A, tenant=TENANT))
    assert whole["extra_keys"] == [[TENANT.hex()], None]
    (rest,) = events(encoder, stored(C, B, tenant=TENANT))
    assert "extra_keys" not in rest


def test_removed_blocks_of_one_medium_are_one_event(encoder: BatchEncoder) -> None:
    events(encoder, stored(A), stored(B), stored(C, at=Level.DISK))
    assert events(encoder, removed(A), removed(B), removed(C, at=Level.DISK)) == [
        {"type": "BlockRemoved", "block_hashes": [number(A), number(B)], "medium": "CPU"},
        {"type": "BlockRemoved", "block_hashes": [number(C)], "medium": "STORAGE"},
    ]


def test_a_medium_has_lost_a_block_only_with_the_last_of_its_levels(encoder: BatchEncoder) -> None:
    told = events(encoder, stored(A), stored(A, at=Level.HOST), stored(A, at=Level.REDIS), stored(A, at=Level.DISK))
    assert [event["medium"] for event in told] == ["CPU", "CPU", "STORAGE", "STORAGE"]
    assert events(encoder, removed(A), removed(A, at=Level.REDIS)) == []
    assert [event["medium"] for event in events(encoder, removed(A, at=Level.HOST))] == ["CPU"]
    assert [event["medium"] for event in events(encoder, removed(A, at=Level.DISK))] == ["STORAGE"]
    assert events(encoder, removed(A), removed(B)) == []


def test_after_a_clearing_nothing_is_left_to_be_removed(encoder: BatchEncoder) -> None:
    events(encoder, stored(A), CacheCleared())
    assert encoder.encode([removed(A)]) is None
    assert encoder.encode([]) is None


def test_where_the_tokens_are_not_known_they_are_left_out(encoder: BatchEncoder) -> None:
    told = events(encoder, stored(A, tokens=(), at=Level.REDIS), stored(B, A, tokens=(), at=Level.REDIS))
    assert [(event["block_hashes"], event["token_ids"]) for event in told] == [([number(A)], []), ([number(B)], [])]


def test_of_too_many_names_the_oldest_is_told_to_be_removed() -> None:
    encoder = BatchEncoder(block_tokens=2, clock=lambda: 12.5, max_names=2)
    events(encoder, stored(A), stored(A, at=Level.DISK), stored(B))
    assert events(encoder, stored(C, tokens=(5, 6)), stored(D, C))[1:3] == [
        {"type": "BlockRemoved", "block_hashes": [number(A)], "medium": "CPU"},
        {"type": "BlockRemoved", "block_hashes": [number(A)], "medium": "STORAGE"},
    ]
    assert events(encoder, removed(A), removed(B)) == []
    assert len(events(encoder, removed(C), removed(D))) == 1
