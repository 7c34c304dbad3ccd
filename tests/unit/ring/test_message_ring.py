import mmap
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.ring import MessageRing
from tests.support.shared import shared_memory

WORDS = st.integers(0, 2**32 - 1)
HEADER_BYTES = 16


def ring_of(capacity_bytes: int) -> MessageRing:
    return MessageRing(shared_memory(MessageRing.bytes_for(capacity_bytes)))


def taken_by(payload: bytes) -> int:
    return HEADER_BYTES + -(-len(payload) // 8) * 8


class MessageRingMachine(RuleBasedStateMachine):
    """Two objects, as each process has one, against a queue."""

    def __init__(self) -> None:
        super().__init__()
        memory = shared_memory(MessageRing.bytes_for(320))
        self.writer, self.reader = MessageRing(memory), MessageRing(memory)
        self.sent: deque[tuple[int, int, bytes]] = deque()

    @property
    def num_used(self) -> int:
        return sum(taken_by(payload) for _, _, payload in self.sent)

    @rule(kind=WORDS, generation=WORDS, parts=st.lists(st.binary(max_size=60), max_size=3))
    def send(self, kind: int, generation: int, parts: list[bytes]) -> None:
        payload = b"".join(parts)
        if len(payload) > 160:
            with pytest.raises(ValueError, match=f"{len(payload)} bytes never fits .* 160 at most"):
                self.writer.send(kind, generation, *parts)
            return
        has_room = self.num_used + taken_by(payload) <= 320
        assert self.writer.send(kind, generation, *parts) == has_room
        if has_room:
            self.sent.append((kind, generation, payload))

    @rule()
    def receive(self) -> None:
        assert self.reader.receive() == (self.sent.popleft() if self.sent else None)

    @rule()
    def the_ends_change_places(self) -> None:
        self.reader, self.writer = self.writer, self.reader

    @invariant()
    def room_is_known(self) -> None:
        assert self.reader.used_bytes == self.num_used
        assert self.writer.free_bytes == 320 - self.num_used


TestMessageRing = MessageRingMachine.TestCase
TestMessageRing.settings = settings(max_examples=100, stateful_step_count=50)


def test_it_holds_as_much_as_it_was_made_for() -> None:
    assert ring_of(4096).capacity_bytes == 4096
    assert ring_of(1).max_message_bytes == 32


def test_the_largest_message_fits_wherever_the_ring_stands() -> None:
    ring = ring_of(64)
    for offset in range(40):
        payload = bytes([offset]) * ring.max_message_bytes
        assert ring.send(1, 2, payload)
        assert ring.receive() == (1, 2, payload)
        assert ring.send(1, 2)
        assert ring.receive() == (1, 2, b"")


def test_parts_of_any_kind_become_one_message() -> None:
    ring = ring_of(128)
    assert ring.send(1, 0, b"ab", bytearray(b"c"), memoryview(b"defg")[1:], b"")
    assert ring.receive() == (1, 0, b"abcefg")


def test_what_is_no_bytes_is_not_sent() -> None:
    ring = ring_of(128)
    with pytest.raises(TypeError):
        ring.send(1, 0, b"ab", "cd")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(BufferError):
        ring.send(1, 0, memoryview(b"abcd")[::2])
    assert ring.receive() is None


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (shared_memory(128), "at least 192 bytes of memory, not 128"),
        (shared_memory(4096)[8:], "must begin at a multiple of 64 bytes"),
    ],
)
def test_memory_that_does_not_do_is_refused(memory: memoryview, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MessageRing(memory)


def test_memory_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(BufferError):
        MessageRing(memoryview(mmap.mmap(-1, 4096, access=mmap.ACCESS_READ)))
