"""Whatever lies in the memory, either end returns or says that it is damaged: soon, and without taking much."""

import random
from collections.abc import Iterator

import pytest

from tailrace.errors import RingDamaged
from tailrace.ring import MessageRing, TokenRing, Told, push_events
from tailrace.types import TokenEvent
from tests.support.shared import shared_memory

CAPACITY_BYTES = 1024
NUM_SLOTS = 32
HEAD, TAIL, ARENA = 0, 64, 128


def damages(memory: memoryview) -> Iterator[None]:
    """Leaves one garbage after another in the memory: some all over, some in a few bytes of what was right."""
    draw = random.Random(5)
    right = bytes(memory)
    for _ in range(2000):
        memory[:] = right
        if draw.random() < 0.3:
            memory[ARENA:] = draw.randbytes(len(memory) - ARENA)
        for _ in range(draw.randrange(1, 4)):
            at = draw.choice([HEAD, TAIL, draw.randrange(ARENA, ARENA + 64, 4)])
            value = draw.choice([draw.randrange(2000), draw.getrandbits(64), 2**64 - draw.randrange(1, 100)])
            memory[at : at + 8] = value.to_bytes(8, "little")
        yield


def test_messages_that_were_never_sent_are_damage_or_bounded() -> None:
    memory = shared_memory(MessageRing.bytes_for(CAPACITY_BYTES))
    ring = MessageRing(memory)
    for index in range(20):
        ring.send(index, 1, bytes(index))
    num_damaged = 0
    for _ in damages(memory):
        try:
            for _ in range(CAPACITY_BYTES // 16 + 1):
                message = ring.receive()
                assert message is None or len(message[2]) <= CAPACITY_BYTES // 2
            assert message is None
            ring.send(1, 1, b"on it goes")
        except RingDamaged:
            num_damaged += 1
    assert num_damaged > 1000


def test_tokens_that_were_never_pushed_are_damage_or_bounded() -> None:
    memory = shared_memory(TokenRing.bytes_for(NUM_SLOTS))
    ring = TokenRing(memory)
    told = {"a": Told(ring, 1)}
    push_events([TokenEvent("a", 5)] * 20, told, 1)
    num_damaged = 0
    for _ in damages(memory):
        try:
            while popped := ring.pop(1000):
                assert len(popped) <= NUM_SLOTS
            ring.push_detailed(1, 2, 3.0, 4, 5, None)
        except RingDamaged:
            num_damaged += 1
        push_events([TokenEvent("a", 5)], told, 1)
    assert num_damaged > 1000


def test_what_came_before_the_damage_is_read() -> None:
    memory = shared_memory(TokenRing.bytes_for(4))
    ring = TokenRing(memory)
    assert push_events([TokenEvent("a", 5), TokenEvent("a", 6)], {"a": Told(ring, 1)}, 1) == 2
    memory[ARENA + 32 + 24] ^= 1
    assert [token_id for _, token_id, *_ in ring.pop(4)] == [5]
    with pytest.raises(RingDamaged, match="no token lies at position 1: what its ends had to say"):
        ring.pop(4)


def test_a_message_of_an_earlier_turn_is_not_taken_for_a_new_one() -> None:
    memory = shared_memory(MessageRing.bytes_for(64))
    ring = MessageRing(memory)
    for _ in range(2):
        ring.send(1, 1, bytes(16))
        ring.receive()
    memory[HEAD] = 96
    with pytest.raises(RingDamaged, match="no message lies at position 64: its mark is wrong"):
        ring.receive()


def test_a_damaged_ring_stops_a_push_and_the_others_get_theirs() -> None:
    memory = shared_memory(TokenRing.bytes_for(4))
    damaged, sound = TokenRing(memory), TokenRing(shared_memory(TokenRing.bytes_for(4)))
    memory[TAIL] = 9
    told = {"a": Told(sound, 1), "b": Told(damaged, 2)}
    assert push_events([TokenEvent("a", 1), TokenEvent("b", 1)], told, 1) == 1
    assert len(sound.pop(9)) == 1
    with pytest.raises(RingDamaged, match="contradict"):
        damaged.push_detailed(2, 1, None, 1, 1, None)


def test_zeros_make_a_damaged_ring_new() -> None:
    memory = shared_memory(MessageRing.bytes_for(64))
    ring = MessageRing(memory)
    memory[HEAD] = 1
    with pytest.raises(RingDamaged):
        ring.receive()
    memory[:] = bytes(len(memory))
    assert ring.send(1, 1)
    assert ring.receive() == (1, 1, b"")
