"""No request waits for ever, whatever else comes: not behind better classes, more urgent work or other tenants."""

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.classes import STANDARD
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.queue import WaitingQueue
from tests.support.lives import make_waiting

CLASS_NAMES = [each.name for each in STANDARD]
NUM_CLASSES = len(CLASS_NAMES)


@dataclass
class Wait:
    live: LiveRequest
    since_tokens: int  # admitted before it came
    older_tokens: int  # of its class, with the earlier arrivals that came later

    def bound(self, largest: int) -> float:
        return (self.older_tokens + self.live.work_tokens) / self.live.service_class.share + (NUM_CLASSES + 1) * largest


@dataclass
class Overload:
    """Work comes all the time, and more of it than can be admitted."""

    source: random.Random
    max_work: int
    queue: WaitingQueue = field(default_factory=lambda: WaitingQueue(STANDARD))
    waits: dict[LiveRequest, Wait] = field(default_factory=dict)
    num_admitted: int = 0
    num_arrived: int = 0
    now_s: float = 0.0
    worst: float = 0.0  # of the bound, how much was needed

    def arrive(self, class_name: str, back_s: float = 0.0) -> None:
        """Somebody comes, or comes back who had come earlier."""
        source = self.source
        live = make_waiting(
            self.num_arrived,
            source.randint(1, self.max_work),
            arrival_s=self.now_s - back_s,
            class_name=class_name,
            tenant=source.choice(["a", "b", f"new {self.num_arrived}"]),
            ttft_s=source.choice([0.0, None, 1_000.0]),
        )
        self.num_arrived += 1
        older_tokens = 0
        for other in self.waits.values():
            if other.live.service_class is live.service_class:
                if other.live.request.arrival_s > live.request.arrival_s:
                    other.older_tokens += live.work_tokens
                else:
                    older_tokens += other.live.work_tokens
        self.waits[live] = Wait(live, self.num_admitted, older_tokens)
        self.queue.push(live)

    def admit(self) -> None:
        live = self.queue.first(self.now_s)
        assert live is not None
        wait = self.waits.pop(live)
        waited, bound = self.num_admitted - wait.since_tokens, wait.bound(self.max_work)
        assert waited <= bound
        self.worst = max(self.worst, waited / bound)
        self.queue.admitted(live, live.work_tokens, self.now_s)
        self.num_admitted += live.work_tokens
        self.now_s += live.work_tokens / 1_000

    def abort(self) -> None:
        live = self.source.choice(list(self.waits))
        del self.waits[live]
        self.queue.remove(live)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    max_work=st.sampled_from([1, 20, 500]),
    flood=st.sampled_from(CLASS_NAMES),
    num_others=st.floats(0.0, 0.3),
    num_back=st.floats(0.0, 0.1),
)
def test_every_request_is_admitted_within_the_bound(
    seed: int, max_work: int, flood: str, num_others: float, num_back: float
) -> None:
    traffic = Overload(random.Random(seed), max_work)
    for _ in range(400):
        while len(traffic.queue) < 10 or traffic.source.random() < 0.2:
            traffic.arrive(flood)
        if traffic.source.random() < num_others:
            traffic.arrive(traffic.source.choice(CLASS_NAMES))
        if traffic.source.random() < num_back:
            traffic.arrive(traffic.source.choice(CLASS_NAMES), back_s=traffic.source.uniform(0.0, 2.0))
        if traffic.source.random() < 0.1:
            traffic.abort()
        traffic.admit()
    while traffic.waits:
        traffic.admit()


def test_under_a_flood_of_gold_the_bound_is_not_far_from_what_bronze_waits() -> None:
    """So the test above would notice a share that is paid out half as fast."""
    traffic = Overload(random.Random(0), 20)
    for number in range(5_000):
        traffic.arrive("gold")
        if number % 100 == 0:
            traffic.arrive("bronze")
        traffic.admit()
    assert 0.5 < traffic.worst <= 1.0
