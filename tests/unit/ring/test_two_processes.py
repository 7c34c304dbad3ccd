"""A writer and a reader that do not wait for each other, and writers that are killed in the middle of it."""

import zlib
from collections.abc import Callable
from functools import partial

from tailrace.ring import Bell, MessageRing, TokenRing, Told, push_events
from tailrace.types import TokenEvent
from tests.support.killed import forked, kill_after
from tests.support.shared import shared_memory

NUM_MESSAGES = 5000
NUM_TOKENS = 20_000
NUM_LIVES = 12


def payload_of(index: int) -> bytes:
    return index.to_bytes(4, "little") * (index % 57)


def send_all(ring: MessageRing, bell: Bell) -> None:
    for index in range(NUM_MESSAGES):
        while not ring.send(index, 1, payload_of(index)):
            pass
        bell.ring()


def test_messages_arrive_whole_and_in_order() -> None:
    ring, bell = MessageRing(shared_memory(MessageRing.bytes_for(1000))), Bell()
    writer = forked(send_all, ring, bell)
    index = 0
    while index < NUM_MESSAGES:
        assert bell.wait(60.0)
        while message := ring.receive():
            assert message == (index, 1, payload_of(index))
            index += 1
    writer.join()


def push_all(ring: TokenRing, bell: Bell) -> None:
    told = {str(index): Told(ring, index) for index in range(7)}
    events = [TokenEvent(str(index % 7), index) for index in range(NUM_TOKENS)]
    done = 0
    while done < NUM_TOKENS:
        done = push_events(events[: done + 40], told, 1, done)
        bell.ring()


def test_tokens_arrive_in_order_and_counted() -> None:
    ring, bell = TokenRing(shared_memory(TokenRing.bytes_for(100))), Bell()
    writer = forked(push_all, ring, bell)
    index = 0
    while index < NUM_TOKENS:
        assert bell.wait(60.0)
        while popped := ring.pop(30):
            for slot in popped:
                assert slot == (index % 7, index, None, index // 7 + 1, 1, None, False)
                index += 1
    writer.join()


def sealed(generation: int, index: int) -> bytes:
    payload = bytes([index % 251]) * (index * 37 % 400)
    return zlib.crc32(payload, generation).to_bytes(4, "little") + payload


def send_for_ever(ring: MessageRing, generation: int, tick: Callable[[], object]) -> None:
    index = 0
    while True:
        if ring.send(index, generation, sealed(generation, index)):
            index += 1
        else:
            tick()


def test_a_writer_killed_wherever_it_is_leaves_whole_messages_and_the_next_goes_on() -> None:
    ring = MessageRing(shared_memory(MessageRing.bytes_for(5000)))
    for generation in range(NUM_LIVES):
        kill_after(partial(send_for_ever, ring, generation), 1 + generation % 3)
        index = 0
        while message := ring.receive():
            assert message == (index, generation, sealed(generation, index))
            index += 1
        assert index > 0


def test_a_writer_killed_while_it_is_being_read_leaves_whole_messages() -> None:
    ring = MessageRing(shared_memory(MessageRing.bytes_for(5000)))
    for generation in range(NUM_LIVES):
        writer = forked(send_for_ever, ring, generation, int)
        index = 0
        while index < 3000 + 17 * generation:
            if message := ring.receive():
                assert message == (index, generation, sealed(generation, index))
                index += 1
        writer.kill()
        writer.join()
        while message := ring.receive():
            assert message == (index, generation, sealed(generation, index))
            index += 1


def receive_for_ever(ring: MessageRing, tick: Callable[[], object]) -> None:
    while True:
        if ring.receive():
            tick()


def test_a_reader_killed_wherever_it_is_has_left_the_rest_to_the_next() -> None:
    ring = MessageRing(shared_memory(MessageRing.bytes_for(5000)))
    num_sent = 0
    while ring.send(num_sent, 1, sealed(1, num_sent)):
        num_sent += 1
    kill_after(partial(receive_for_ever, ring), 3)
    left = []
    while message := ring.receive():
        left.append(message)
    first = num_sent - len(left)
    assert left == [(index, 1, sealed(1, index)) for index in range(first, num_sent)]
