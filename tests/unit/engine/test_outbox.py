import pytest

from tailrace.engine.outbox import Outbox
from tailrace.engine.wire import Abort, Command, Pause, Proceed, Submit, decode, number_of
from tailrace.errors import InvalidRequest
from tailrace.ring import Bell, MessageRing
from tailrace.types import FinishReason, Request, SamplingParams
from tests.support.shared import shared_memory


class Post:
    """An outbox, and the end that reads it."""

    def __init__(self) -> None:
        memory = shared_memory(MessageRing.bytes_for(2048))
        self.outbox = Outbox(MessageRing(memory), Bell(), generation=1)
        self._ring = MessageRing(memory)

    def fill(self) -> None:
        """Until there is no room."""
        number = 1000
        while self.outbox.offer(submit(number, num_tokens=100)):
            number += 1

    def read(self) -> list[tuple[int, Command]]:
        """Generation and command of all that is there."""
        read = []
        while (received := self._ring.receive()) is not None:
            kind, generation, payload = received
            command = decode(kind, payload)
            assert isinstance(command, Command)
            read.append((generation, command))
        return read

    def drain(self) -> list[Command]:
        """Read until nothing waits."""
        read = [command for _, command in self.read()]
        while len(self.outbox):
            self.outbox.flush()
            read += [command for _, command in self.read()]
        return [command for command in read if number_of(command) < 1000]


def submit(number: int, num_tokens: int = 1) -> Submit:
    return Submit(number, Request(f"r{number}", tuple(range(num_tokens)), SamplingParams(1)))


def abort(number: int) -> Abort:
    return Abort(number, FinishReason.ABORT)


def numbers(commands: list[Command]) -> list[tuple[type, int]]:
    return [(type(command), number_of(command)) for command in commands]


def test_commands_go_out_in_order_for_the_engine_that_is_there() -> None:
    post = Post()
    assert post.outbox.offer(submit(1))
    post.outbox.send(abort(1))
    assert [(generation, number_of(command)) for generation, command in post.read()] == [(1, 1), (1, 1)]
    post.outbox.begin(2)
    post.outbox.send(submit(2))
    assert [generation for generation, _ in post.read()] == [2]


def test_what_finds_no_room_goes_out_later_and_nothing_passes_it() -> None:
    post = Post()
    post.fill()
    for number in range(40):
        post.outbox.send(submit(number, num_tokens=20))
    assert len(post.outbox) == 40
    post.read()
    assert not post.outbox.offer(submit(50))
    assert numbers(post.drain()) == [(Submit, number) for number in range(40)]


def test_the_last_word_on_a_request_is_what_goes_out() -> None:
    post = Post()
    post.fill()
    post.outbox.send(submit(1, num_tokens=100))
    post.outbox.send(submit(2, num_tokens=100))
    for number in (3, 4):
        post.outbox._waiting[number] = Pause(number)
    post.outbox.send(Proceed(3))
    post.outbox.send(abort(4))
    post.outbox.send(abort(1))  # of which the engine knows nothing
    assert numbers(post.drain()) == [(Submit, 2), (Proceed, 3), (Abort, 4)]


def test_another_engine_gets_nothing_of_what_waited_for_the_last() -> None:
    post = Post()
    post.fill()
    post.outbox.send(abort(1))
    post.outbox.begin(2)
    assert not len(post.outbox)


def test_what_waits_can_be_dropped() -> None:
    post = Post()
    post.fill()
    post.outbox.send(submit(1, num_tokens=100))
    post.outbox.drop(1)
    post.outbox.drop(2)
    assert post.drain() == []


def test_what_can_never_be_sent_is_refused() -> None:
    post = Post()
    with pytest.raises(InvalidRequest, match="too long"):
        post.outbox.offer(submit(1, num_tokens=2000))
