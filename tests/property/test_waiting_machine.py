"""The waiting queue against a plain account of who waits."""

from collections.abc import Collection
from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tailrace.classes import STANDARD
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import Awaited, LiveRequest
from tailrace.scheduler.queue import WaitingQueue
from tests.support.lives import make_waiting

CLASS_NAMES = [each.name for each in STANDARD]


class WaitingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = WaitingQueue(STANDARD)
        self.ready: list[LiveRequest] = []
        self.deferred: list[tuple[LiveRequest, Awaited]] = []
        self.running: list[LiveRequest] = []
        self.num_arrived = 0
        self.now_s = 0.0

    @property
    def waiting(self) -> list[LiveRequest]:
        return [*self.ready, *(live for live, _ in self.deferred)]

    @rule(
        class_name=st.sampled_from(CLASS_NAMES),
        tenant=st.sampled_from("ab"),
        work_tokens=st.integers(1, 100),
        ttft_s=st.sampled_from([0.5, 5.0, 50.0]),
        ttl_s=st.sampled_from([2.0, 20.0, inf]),
    )
    def arrive(self, class_name: str, tenant: str, work_tokens: int, ttft_s: float, ttl_s: float) -> None:
        live = make_waiting(
            self.num_arrived,
            work_tokens,
            arrival_s=self.now_s,
            class_name=class_name,
            tenant=tenant,
            ttft_s=ttft_s,
            expires_s=self.now_s + ttl_s,
        )
        self.num_arrived += 1
        self.queue.push(live)
        self.ready.append(live)

    @rule(after_s=st.sampled_from([0.0, 0.01, 1.0, 30.0]))
    def time_goes_by(self, after_s: float) -> None:
        self.now_s += after_s

    @rule()
    def admit(self) -> None:
        live = self.queue.first(self.now_s)
        assert (live is None) == (not self.ready)
        if live is None:
            return
        assert not any(self.goes_before(other, live) for other in self.ready)
        self.queue.admitted(live, live.work_tokens, self.now_s)
        self.ready.remove(live)
        live.move(RequestState.RUNNING)
        live.started_s = self.now_s
        self.running.append(live)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        live = data.draw(st.sampled_from(self.running))
        self.running.remove(live)
        live.move(RequestState.WAITING)
        live.work_tokens += 1
        self.queue.push(live)
        self.ready.append(live)

    @precondition(lambda self: self.running)
    @rule(num_tokens=st.integers(1, 1_000))
    def end(self, num_tokens: int) -> None:
        self.queue.served(self.running.pop(), num_tokens)

    @precondition(lambda self: self.ready)
    @rule(data=st.data(), awaited=st.integers(0, 3))
    def defer(self, data: st.DataObject, awaited: int) -> None:
        live = data.draw(st.sampled_from(self.ready))
        self.queue.defer(live, awaited)
        self.ready.remove(live)
        self.deferred.append((live, awaited))

    @rule(landed=st.integers(0, 3), work_tokens=st.integers(1, 5))
    def wake(self, landed: int, work_tokens: int) -> None:
        woken = [live for live, awaited in self.deferred if awaited == landed]

        def look_again(awaited: Awaited, lives: Collection[LiveRequest]) -> None:
            assert (awaited, set(lives)) == (landed, set(woken))
            for live in lives:
                live.work_tokens = work_tokens

        self.queue.wake(lambda awaited: awaited != landed, look_again)
        self.deferred = [pair for pair in self.deferred if pair[1] != landed]
        self.ready += woken

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        live = data.draw(st.sampled_from(self.waiting))
        self.queue.remove(live)
        self.forget(live)

    @rule()
    def expire(self) -> None:
        late = [live for live in self.waiting if live.started_s is None and live.expires_s <= self.now_s]
        expired = self.queue.expire(self.now_s)
        assert len(expired) == len(late)
        assert set(expired) == set(late)
        for live in late:
            self.forget(live)

    @invariant()
    def everybody_is_accounted_for(self) -> None:
        queue, waiting = self.queue, self.waiting
        assert set(queue) == set(waiting)
        assert (len(queue), queue.num_deferred) == (len(waiting), len(self.deferred))
        assert queue.num_tokens == sum(live.work_tokens for live in waiting)
        for index, service_class in enumerate(STANDARD):
            above = sum(live.work_tokens for live in waiting if live.service_class.name in CLASS_NAMES[:index])
            own = sum(live.work_tokens for live in waiting if live.service_class is service_class)
            assert above <= queue.tokens_ahead(service_class, "a newcomer") <= above + own
        expiries = [live.expires_s for live in waiting if live.started_s is None]
        assert queue.next_expiry_s == min(expiries, default=None)

    def goes_before(self, one: LiveRequest, other: LiveRequest) -> bool:
        """Whether there is no reason for `other` to be admitted first."""
        if one.request.class_name != other.request.class_name:
            is_better = CLASS_NAMES.index(one.request.class_name) < CLASS_NAMES.index(other.request.class_name)
            return is_better and any(self.is_earlier(third, other) for third in self.ready)  # so it is not due
        is_no_less_urgent = one.deadline_s <= other.deadline_s and one.work_tokens <= other.work_tokens
        return one.request.tenant == other.request.tenant and is_no_less_urgent and self.is_earlier(one, other)

    def is_earlier(self, one: LiveRequest, other: LiveRequest) -> bool:
        return one.service_class is other.service_class and one.arrival_rank < other.arrival_rank

    def forget(self, live: LiveRequest) -> None:
        self.ready = [other for other in self.ready if other is not live]
        self.deferred = [pair for pair in self.deferred if pair[0] is not live]


TestWaitingMachine = WaitingMachine.TestCase
TestWaitingMachine.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
