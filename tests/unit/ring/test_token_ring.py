from collections import deque
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.errors import RefusalReason
from tailrace.ring import TokenRing, Told, push_events
from tailrace.types import FinishReason, PrefixReport, Refusal, TokenEvent, TokenLogprob
from tests.support.shared import shared_memory

Slot: TypeAlias = tuple[int, int | None, float | None, int, int, FinishReason | None, bool]

NUM_SLOTS = 7
TOKEN_IDS = st.integers(0, 2**31 - 1)
LOGPROBS = st.none() | st.floats(-1e3, 0, width=32)
FINISHES = st.none() | st.sampled_from(FinishReason)
PREFIX = PrefixReport((), None)


def ring_of(num_slots: int) -> TokenRing:
    return TokenRing(shared_memory(TokenRing.bytes_for(num_slots)))


class TokenRingMachine(RuleBasedStateMachine):
    """A ring of seven slots against a queue. Requests are "0" to "4", with numbers from 1000 on."""

    def __init__(self) -> None:
        super().__init__()
        memory = shared_memory(TokenRing.bytes_for(NUM_SLOTS))
        self.writer, self.reader = TokenRing(memory), TokenRing(memory)
        self.told = {str(index): Told(self.writer, 1000 + index) for index in range(5)}
        self.positions = dict.fromkeys(self.told, 0)
        self.pushed: deque[Slot] = deque()
        self.is_due = False

    @rule(
        indices=st.lists(st.integers(0, 4), max_size=NUM_SLOTS + 2),
        token_id=TOKEN_IDS,
        logprob=LOGPROBS,
        finish=FINISHES,
        generation=st.integers(0, 2**32 - 1),
    )
    def push_events(
        self, indices: list[int], token_id: int, logprob: float | None, finish: FinishReason | None, generation: int
    ) -> None:
        events = [TokenEvent(str(index), token_id, None, finish, logprob) for index in indices]
        num_pushed = min(NUM_SLOTS - len(self.pushed), len(events))
        assert push_events(events, self.told, generation) == num_pushed
        for index in indices[:num_pushed]:
            self.positions[str(index)] += 1
            self.pushed.append((1000 + index, token_id, logprob, self.positions[str(index)], generation, finish, False))
        self.is_due = self.is_due or num_pushed > 0

    @rule(number=st.integers(0, 2**64 - 1), token_id=st.none() | TOKEN_IDS, logprob=LOGPROBS, finish=FINISHES)
    def push_detailed(
        self, number: int, token_id: int | None, logprob: float | None, finish: FinishReason | None
    ) -> None:
        has_room = len(self.pushed) < NUM_SLOTS
        assert self.writer.push_detailed(number, token_id, logprob, 5, 3, finish) == has_room
        if has_room:
            self.pushed.append((number, token_id, logprob, 5, 3, finish, True))
            self.is_due = True

    @rule(most=st.integers(0, NUM_SLOTS + 1))
    def pop(self, most: int) -> None:
        popped = [self.pushed.popleft() for _ in range(min(most, len(self.pushed)))]
        assert self.reader.pop(most) == popped

    @rule()
    def take_pushed(self) -> None:
        assert self.writer.take_pushed() == self.is_due
        self.is_due = False

    @invariant()
    def room_and_positions_are_known(self) -> None:
        assert self.reader.num_free == self.writer.num_free == NUM_SLOTS - len(self.pushed)
        assert {request_id: told.position for request_id, told in self.told.items()} == self.positions


TestTokenRing = TokenRingMachine.TestCase
TestTokenRing.settings = settings(max_examples=100, stateful_step_count=50)


@pytest.fixture
def ring() -> TokenRing:
    return ring_of(8)


@pytest.fixture
def told(ring: TokenRing) -> dict[str, Told]:
    return {"a": Told(ring, 1), "b": Told(ring, 2, position=40)}


@pytest.mark.parametrize(
    "rich",
    [
        TokenEvent("a", None, finish_reason=FinishReason.ABORT),
        TokenEvent("a", 5, PREFIX),
        TokenEvent("a", 5, top_logprobs=(TokenLogprob(5, -0.5),)),
        TokenEvent("a", 5, error="no"),
        TokenEvent("a", None, refusal=Refusal(RefusalReason.QUEUE_FULL, "full", 1.0)),
        TokenEvent("c", 5),
    ],
)
def test_it_stops_at_what_a_slot_cannot_hold(ring: TokenRing, told: dict[str, Told], rich: TokenEvent) -> None:
    events = [TokenEvent("a", 4), rich, TokenEvent("b", 6)]
    assert push_events(events, told, 1) == 1
    assert push_events(events, told, 1, 2) == 3
    assert ring.pop(9) == [(1, 4, None, 1, 1, None, False), (2, 6, None, 41, 1, None, False)]


def test_a_prefix_that_was_told_is_not_told_again(ring: TokenRing, told: dict[str, Told]) -> None:
    told["a"].prefix = PREFIX
    equal = PrefixReport((), None)
    assert push_events([TokenEvent("a", 5, PREFIX), TokenEvent("a", 6, equal)], told, 1) == 1
    assert told["a"].prefix is PREFIX


def test_one_call_serves_all_rings_and_a_full_one_stops_it(ring: TokenRing, told: dict[str, Told]) -> None:
    other = ring_of(1)
    told["c"] = Told(other, 3)
    events = [TokenEvent(request_id, 1) for request_id in "acbc"]
    assert push_events(events, told, 1) == 3
    assert [number for number, *_ in ring.pop(9)] == [1, 2]
    assert [number for number, *_ in other.pop(9)] == [3]
    assert told["c"].position == 1
    assert push_events(events, told, 1, 3) == 4


def test_events_may_be_any_sequence(ring: TokenRing, told: dict[str, Told]) -> None:
    assert push_events((TokenEvent("a", 1),), told, 1) == 1
    assert push_events((), told, 1) == 0


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (("a", 1), TypeError),
        ("a", TypeError),
        (TokenEvent("a", "1"), TypeError),  # type: ignore[arg-type]  # the point of the test
        (TokenEvent("a", -1), ValueError),
        (TokenEvent("a", 2**31), ValueError),
        (TokenEvent("a", 1, logprob="?"), TypeError),  # type: ignore[arg-type]  # the point of the test
        (TokenEvent("a", 1, finish_reason="stopped"), TypeError),  # type: ignore[arg-type]  # the point of the test
    ],
)
def test_what_is_no_event_raises_and_what_came_before_is_told(
    ring: TokenRing, told: dict[str, Told], event: TokenEvent, error: type[Exception]
) -> None:
    with pytest.raises(error):
        push_events([TokenEvent("b", 1), event], told, 1)
    assert [number for number, *_ in ring.pop(9)] == [2]
    assert told["a"].position == 0


def test_a_logprob_of_a_numpy_scalar_is_a_number_like_others(ring: TokenRing, told: dict[str, Told]) -> None:
    assert push_events([TokenEvent("a", 1, logprob=np.float32(-0.5))], told, 1) == 1  # type: ignore[arg-type]
    assert ring.pop(1) == [(1, 1, -0.5, 1, 1, None, False)]


def test_memory_that_does_not_do_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 160 bytes of memory, not 159"):
        TokenRing(shared_memory(159))
    with pytest.raises(ValueError, match="multiple of 64"):
        TokenRing(shared_memory(4096)[32:])
