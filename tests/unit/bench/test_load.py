import asyncio
import time

from tailrace.bench.load import LoadRun, Sample, offer_load
from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals


class Gate:
    """Stands for a server that answers when told to, and notes how many requests it holds."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.held = 0
        self.most_held = 0
        self.sent: list[int] = []

    async def send(self, request: int) -> Streamed:
        sent_s = time.perf_counter()
        self.sent.append(request)
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        await self.is_open.wait()
        self.held -= 1
        return Streamed(sent_s=sent_s, ended_s=time.perf_counter(), error_kind="odd" if request % 2 else None)


async def offer(gate: Gate, arrivals: Arrivals, count: int, open_when_held: int) -> LoadRun:
    """Offer `count` requests; the gate opens once it holds `open_when_held`."""
    load = asyncio.create_task(offer_load(range(count), gate.send, arrivals, seed=1, on_done=lambda _: None))
    while gate.held < open_when_held:
        await asyncio.sleep(0)
    gate.is_open.set()
    return await load


async def test_a_closed_loop_keeps_its_slots_full_and_no_more() -> None:
    gate = Gate()

    run = await offer(gate, Arrivals(concurrency=3), count=10, open_when_held=3)

    assert gate.most_held == 3
    assert gate.sent == list(range(10))
    assert [sample.streamed.is_ok for sample in run.samples] == [True, False] * 5
    assert all(sample.queue_s == 0 for sample in run.samples)


async def test_an_open_loop_sends_on_without_waiting_for_answers() -> None:
    gate = Gate()

    run = await offer(gate, Arrivals(concurrency=100, rate=5000.0), count=20, open_when_held=20)

    assert gate.most_held == 20
    assert len(run.samples) == 20


async def test_what_the_bound_on_requests_in_flight_holds_back_shows_as_client_queue_time() -> None:
    gate = Gate()
    arrivals = Arrivals(concurrency=2, rate=5000.0)

    run = await offer(gate, arrivals, count=6, open_when_held=2)

    assert gate.most_held == 2
    due_s = [run.started_s + offset_s for offset_s in arrivals.due_s(6, seed=1)]
    for sample, due in zip(run.samples, due_s, strict=True):
        assert 0 <= sample.queue_s <= sample.streamed.sent_s - due
    held_until_s = run.samples[0].streamed.ended_s
    assert all(due + sample.queue_s >= held_until_s for sample, due in zip(run.samples[2:], due_s[2:], strict=True))


async def test_every_end_is_heard_of_once() -> None:
    heard: list[Sample] = []
    gate = Gate()
    gate.is_open.set()

    run = await offer_load(range(7), gate.send, Arrivals(concurrency=2), seed=1, on_done=heard.append)

    assert sorted(map(id, heard)) == sorted(map(id, run.samples))
    assert run.duration_s > 0
    assert all(run.started_s <= sample.streamed.ended_s <= run.ended_s for sample in run.samples)
