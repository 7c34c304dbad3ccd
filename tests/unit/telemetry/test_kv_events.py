"""Subscribers of KV events: they read every batch in order, and ask for what they missed."""

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import msgspec
import pytest
import zmq

from tailrace.config import KvEventsConfig, ServeConfig
from tailrace.errors import SetupError
from tailrace.records import BlockStored, KvFact, KvRecord, RequestRecord
from tailrace.serving.run import serve
from tailrace.telemetry.kv_batches import BatchEncoder
from tailrace.telemetry.kv_events import KvEventPublisher
from tailrace.types import FinishReason, Level
from tests.support.blocks import word

TOPIC = "kv-events"
WAIT_MS = 20_000
END = b"\xff" * 8


def record(label: int) -> KvRecord:
    return KvRecord((BlockStored(Level.ENGINE, word(label), None, (label, label)),))


def label_of(batch: bytes) -> int:
    """What `record` was given; -1: a clearing."""
    _, (event,), _ = msgspec.msgpack.decode(batch)
    return event["token_ids"][0] if event["type"] == "BlockStored" else -1


@contextmanager
def publishing(encoder: BatchEncoder | None = None, **bounds: int) -> Iterator[KvEventPublisher]:
    encoder = encoder or BatchEncoder(block_tokens=2)
    publisher = KvEventPublisher("tcp://127.0.0.1:*", TOPIC, encoder, **bounds)
    with closing(publisher):
        yield publisher


@dataclass
class Subscriber:
    """Follows the numbers as a router does: a gap is filled before what came behind it is taken."""

    publisher: KvEventPublisher
    context: zmq.Context[zmq.Socket[bytes]] = field(default_factory=zmq.Context)
    batches: dict[int, bytes] = field(default_factory=dict)  # by number
    next_number: int = 0

    def connect(self, max_queued: int = 1000) -> zmq.Socket[bytes]:
        subscription = self.context.socket(zmq.SUB)
        subscription.set(zmq.RCVHWM, max_queued)
        subscription.subscribe(TOPIC)
        subscription.connect(self.publisher.endpoint)
        return subscription

    def receive(self, subscription: zmq.Socket[bytes], wait_ms: int = WAIT_MS) -> bool:
        """Take one batch, and whatever is missing before it; False when none came."""
        if not subscription.poll(wait_ms):
            return False
        topic, number, batch = subscription.recv_multipart()
        assert topic == TOPIC.encode()
        self.take(int.from_bytes(number, "big"), batch)
        return True

    def take(self, number: int, batch: bytes) -> None:
        if number > self.next_number:
            for missed, kept in self.replay(self.next_number):
                self.batches[missed] = kept
        self.batches[number] = batch
        self.next_number = max(self.next_number, number + 1)

    def replay(self, start: int) -> list[tuple[int, bytes]]:
        with self.context.socket(zmq.DEALER) as client:
            client.connect(self.publisher.replay_endpoint)
            client.send_multipart((b"", start.to_bytes(8, "big")))
            found: list[tuple[int, bytes]] = []
            while client.poll(WAIT_MS):
                _, number, batch = client.recv_multipart()
                if not batch:
                    assert number == END
                    return found
                found.append((int.from_bytes(number, "big"), batch))
        raise AssertionError("the replay has no end")

    def publish_until_it_arrives(self, subscription: zmq.Socket[bytes], label: int) -> int:
        """Subscribing takes effect some time after it was asked for; the next label."""
        while True:
            self.publisher.record(record(label))
            label += 1
            if self.receive(subscription, wait_ms=10):
                return label

    def labels(self) -> list[int]:
        assert sorted(self.batches) == list(range(len(self.batches)))
        return [label_of(self.batches[number]) for number in sorted(self.batches)]


@pytest.fixture
def publisher() -> Iterator[KvEventPublisher]:
    with publishing() as opened:
        yield opened


@pytest.fixture
def subscriber(publisher: KvEventPublisher) -> Iterator[Subscriber]:
    opened = Subscriber(publisher)
    yield opened
    opened.context.destroy(linger=0)


def test_a_subscriber_that_came_late_and_reconnects_misses_nothing(
    publisher: KvEventPublisher, subscriber: Subscriber
) -> None:
    for label in range(100):
        publisher.record(record(label))
    with subscriber.connect() as subscription:
        label = subscriber.publish_until_it_arrives(subscription, 100)
    for _ in range(100):  # nobody listens
        publisher.record(record(label))
        label += 1
    with subscriber.connect() as subscription:
        label = subscriber.publish_until_it_arrives(subscription, label)
        while subscriber.next_number < label + 1:
            assert subscriber.receive(subscription)
    assert subscriber.labels() == [-1, *range(label)]


def test_a_server_that_starts_takes_back_what_an_earlier_one_told(subscriber: Subscriber) -> None:
    ((number, batch),) = subscriber.replay(0)
    assert (number, label_of(batch)) == (0, -1)


def test_other_records_are_not_published(publisher: KvEventPublisher, subscriber: Subscriber) -> None:
    publisher.record(RequestRecord("r", 1, None, None, 2, 3, None, 0, 0, FinishReason.ABORT))
    publisher.record(KvRecord(()))
    publisher.record(record(7))
    while len(found := subscriber.replay(0)) < 2:
        pass
    assert [label_of(batch) for _, batch in found] == [-1, 7]


def test_only_so_much_is_kept_for_replay() -> None:
    with publishing(max_kept=10) as publisher:
        subscriber = Subscriber(publisher)
        for label in range(100):
            publisher.record(record(label))
        while not (found := subscriber.replay(0)) or found[-1][0] < 100:
            pass
        assert [number for number, _ in found] == list(range(91, 101))
        assert [number for number, _ in subscriber.replay(95)] == list(range(95, 101))
        assert subscriber.replay(101) == subscriber.replay(2**63) == []
        subscriber.context.destroy(linger=0)


class HeldEncoder(BatchEncoder):
    """Holds the publisher's thread up until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__(block_tokens=2)
        self.entered, self.may_go_on = Event(), Event()

    def encode(self, facts: Sequence[KvFact]) -> bytes | None:
        self.entered.set()
        self.may_go_on.wait()
        return super().encode(facts)


def test_when_too_much_waits_all_that_was_told_is_taken_back() -> None:
    encoder = HeldEncoder()
    with publishing(encoder, max_pending=5) as publisher:
        subscriber = Subscriber(publisher)
        encoder.entered.wait()
        for label in range(12):
            publisher.record(record(label))
        encoder.may_go_on.set()
        while len(found := subscriber.replay(0)) < 5:
            pass
        assert [label_of(batch) for _, batch in found] == [-1, -1, 9, 10, 11]
        subscriber.context.destroy(linger=0)


def test_what_waits_is_published_when_it_closes() -> None:
    encoder = HeldEncoder()
    with publishing(encoder) as publisher:
        subscriber = Subscriber(publisher)
        encoder.may_go_on.set()
        with subscriber.connect() as subscription:
            label = subscriber.publish_until_it_arrives(subscription, 0)
            while subscriber.next_number < label + 1:
                subscriber.receive(subscription)
            encoder.may_go_on.clear()
            for later in range(label, label + 10):
                publisher.record(record(later))
            encoder.may_go_on.set()
            publisher.close()
            while subscriber.next_number < label + 11:
                assert subscriber.receive(subscription)
        subscriber.context.destroy(linger=0)


def test_a_subscriber_that_takes_nothing_holds_nobody_up(publisher: KvEventPublisher, subscriber: Subscriber) -> None:
    with subscriber.connect(max_queued=1):
        for label in range(30_000):
            publisher.record(record(label))
        while not (found := subscriber.replay(0)) or label_of(found[-1][1]) != 29_999:
            pass


@pytest.mark.parametrize("request_frames", [(b"",), (b"", b"123"), (b"", b"x" * 9), (b"x", b"y", b"z"), (b"", b"")])
def test_a_request_that_is_none_is_left_unanswered(
    publisher: KvEventPublisher, subscriber: Subscriber, request_frames: tuple[bytes, ...]
) -> None:
    with subscriber.context.socket(zmq.DEALER) as client:
        client.connect(publisher.replay_endpoint)
        client.send_multipart(request_frames)
        client.send_multipart((b"", (1).to_bytes(8, "big")))
        assert client.poll(WAIT_MS)
        assert client.recv_multipart() == [b"", END, b""]


def test_a_client_of_the_request_kind_gets_an_answer(publisher: KvEventPublisher, subscriber: Subscriber) -> None:
    with subscriber.context.socket(zmq.REQ) as client:
        client.connect(publisher.replay_endpoint)
        client.send((0).to_bytes(8, "big"))
        assert client.poll(WAIT_MS)
        number, batch = client.recv_multipart()
        assert (number, label_of(batch)) == (bytes(8), -1)


def test_the_replay_is_on_the_next_port_and_a_taken_port_is_said() -> None:
    with publishing() as taken:
        with pytest.raises(SetupError, match=r"--kv-events tcp://.*in use: it needs an address of this machine"):
            KvEventPublisher(taken.endpoint, TOPIC, BatchEncoder(2))
        port = int(taken.endpoint.rpartition(":")[2])
        with pytest.raises(SetupError, match="in use"):
            KvEventPublisher(f"tcp://127.0.0.1:{port - 1}", TOPIC, BatchEncoder(2))


@pytest.mark.parametrize("endpoint", ["", "5557", "127.0.0.1:5557", "tcp://127.0.0.1", "udp://127.0.0.1:5557"])
def test_what_is_no_address_is_said(endpoint: str) -> None:
    with pytest.raises(SetupError, match="is no address: write it like tcp://"):
        KvEventPublisher(endpoint, TOPIC, BatchEncoder(2))


def test_the_last_port_has_none_behind_it() -> None:
    with pytest.raises(SetupError, match=r"next port, 65536, and ports end at 65535: choose a lower one"):
        KvEventPublisher("tcp://127.0.0.1:65535", TOPIC, BatchEncoder(2))


@pytest.mark.parametrize("name", ["missing/kv", "x" * 200, "x" * 300])
def test_a_path_that_no_socket_can_have_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError, match="it needs a directory that exists and short paths") as caught:
        KvEventPublisher(f"ipc://{tmp_path}/{name}", TOPIC, BatchEncoder(2))
    assert "port" not in str(caught.value)


@pytest.mark.parametrize("name", ["kv", "kv-replay"])
def test_a_file_in_the_place_of_a_socket_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of somebody")
    with pytest.raises(SetupError, match=f"{name} is there and no socket"):
        KvEventPublisher(f"ipc://{tmp_path}/kv", TOPIC, BatchEncoder(2))
    assert (tmp_path / name).read_text() == "of somebody"


def test_events_on_the_port_of_the_server_are_refused_as_such() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = ServeConfig(port=port, kv_events=KvEventsConfig(f"tcp://127.0.0.1:{port}"))
    with pytest.raises(SetupError, match=r"--kv-events tcp://.*in use.*--port"):
        serve(config, on_planned=lambda _: None, on_ready=lambda _url, _scale: None, on_loaded=lambda _: None)


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(SetupError, match="it needs an address of this machine"):
        KvEventPublisher("tcp://192.0.2.1:5557", TOPIC, BatchEncoder(2))


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tailrace.telemetry.kv_events")
    monkeypatch.setitem(sys.modules, "zmq", None)
    config = ServeConfig(port=0, kv_events=KvEventsConfig("tcp://127.0.0.1:5557"))
    with pytest.raises(SetupError, match=r"--kv-events needs pyzmq: pip install 'tailrace\[events\]'"):
        serve(config, on_planned=lambda _: None, on_ready=lambda _url, _scale: None, on_loaded=lambda _: None)
