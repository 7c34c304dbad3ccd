import random
import threading
from functools import partial

import pytest

from tailrace.engine.bridge import EngineBridge
from tailrace.engine.channel import Channel, make_channels
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.numbers import Numbers
from tailrace.engine.outbox import Outbox
from tailrace.engine.published import Arrival, Published
from tailrace.engine.wire import Abort, Detail, Pause, Proceed, Submit, number_of
from tailrace.ring import Bell, MessageRing, TokenRing
from tailrace.types import Explain, FinishReason, Request, SamplingParams
from tests.support.killed import dies_at_line
from tests.support.scripted_engine import MAX_MODEL_TOKENS, Supervised, answer_of
from tests.support.shared import shared_memory


class Process:
    """An API process: what it sends, and what it is told."""

    def __init__(self, channel: Channel, supervised: Supervised) -> None:
        self.channel = channel
        self.generation = supervised.board.begin_worker(channel.owner)
        self.numbers = Numbers(channel.owner, self.generation)
        self.outbox = Outbox(MessageRing(channel.commands), channel.engine_bell, supervised.board.generation + 1)
        self.published = Published(channel, self.numbers)

    def submit(self, name: str, max_tokens: int = 100, *, is_suspect: bool = False) -> int:
        number = self.numbers.next()
        request = Request(name, (1, 2, 3), SamplingParams(max_tokens))
        assert self.outbox.offer(Submit(number, request, is_suspect))
        return number

    def read(self) -> list[Arrival]:
        return self.published.take(10_000)


class Site:
    """Two API processes with small rings, and the engine that serves them."""

    def __init__(self) -> None:
        bell = Bell()
        channels = [small_channel(owner, bell) for owner in range(2)]
        self.supervised = Supervised(channels)
        self.left, self.right = (Process(channel, self.supervised) for channel in channels)
        self.engine = self.supervised.start()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.engine.take_in()
            self.engine.step()

    @property
    def running(self) -> list[str]:
        """Those that the next step computes."""
        self.engine.take_in()
        return sorted(name for name, each in self.engine.running.items() if not each.is_paused)


def small_channel(owner: int, bell: Bell) -> Channel:
    return Channel(
        owner,
        bell,
        Bell(),
        commands=shared_memory(MessageRing.bytes_for(8192)),
        tokens=shared_memory(TokenRing.bytes_for(32)),
        details=shared_memory(MessageRing.bytes_for(8192)),
    )


def tokens(arrivals: list[Arrival], number: int) -> list[int]:
    return [each.token_id for each in arrivals if each.number == number and each.token_id is not None]


def test_each_process_gets_what_is_its() -> None:
    site = Site()
    left, right = site.left.submit("a", 4), site.right.submit("b", 6)
    site.steps(8)

    answer = answer_of(Request("", (1, 2, 3), SamplingParams(6)))
    arrivals = site.left.read()
    assert tokens(arrivals, left) == answer[:4]
    assert [each.position for each in arrivals] == [1, 2, 3, 4]
    assert [each.detail is not None for each in arrivals] == [True, False, False, False]
    assert arrivals[-1].finish_reason is FinishReason.LENGTH
    assert tokens(site.right.read(), right) == answer
    assert site.engine.numbers == []


def test_a_process_that_stands_still_holds_up_its_own_requests_alone_and_loses_nothing() -> None:
    site = Site()
    slow = [site.left.submit(f"slow {number}", 60) for number in range(3)]
    quick, seen = site.right.submit("quick", 60), list[Arrival]()
    for _ in range(60):
        site.steps(1)
        seen += site.right.read()
    assert len(tokens(seen, quick)) == 60
    assert site.running == []
    assert all(len(each.output_ids) <= 14 for each in site.engine.running.values())

    arrivals: list[Arrival] = []
    for _ in range(200):
        arrivals += site.left.read()
        site.steps(1)
    expected = answer_of(Request("", (1, 2, 3), SamplingParams(60)))
    assert all(tokens(arrivals, number) == expected for number in slow)


def test_nothing_passes_what_waits_for_room() -> None:
    site = Site()
    number = site.left.submit("a", 80)
    site.engine.take_in()
    arrivals: list[Arrival] = []
    for _ in range(40):  # more than its ring holds, without a look at whether it lags
        site.engine.step()
    arrivals += site.left.read()
    for _ in range(40):
        site.engine.step()
    for _ in range(80):
        arrivals += site.left.read()
        site.engine.take_in()
    assert tokens(arrivals, number) == answer_of(Request("", (1, 2, 3), SamplingParams(80)))


def test_who_was_paused_by_its_reader_stays_so_when_its_process_has_caught_up() -> None:
    site = Site()
    first, _ = site.left.submit("a", 500), site.left.submit("b", 500)
    site.left.outbox.send(Pause(first))
    site.steps(40)
    assert site.running == []
    site.left.read()
    assert site.running == ["b"]
    site.left.outbox.send(Proceed(first))
    assert site.running == ["a", "b"]


def test_what_a_dead_process_wanted_is_ended_and_its_words_are_passed_over() -> None:
    site = Site()
    site.left.submit("old")
    site.right.submit("other")
    site.steps(2)
    site.left.submit("last words")
    successor = Process(site.left.channel, site.supervised)
    successor.outbox.begin(site.supervised.board.generation)
    successor.read()
    assert site.running == ["other"]
    number = successor.submit("new", 3)
    site.steps(4)
    assert len(tokens(successor.read(), number)) == 3


def test_commands_for_another_engine_are_passed_over() -> None:
    site = Site()
    site.left.outbox.begin(7)
    site.left.submit("a")
    assert site.running == []


def test_suspects_come_one_at_a_time_and_others_beside_them() -> None:
    site = Site()
    first = site.left.submit("first", is_suspect=True)
    second, _ = site.left.submit("second", is_suspect=True), site.left.submit("third", is_suspect=True)
    site.left.submit("new")
    assert site.running == ["first", "new"]
    assert first in site.engine.numbers
    site.left.outbox.send(Abort(first, FinishReason.ABORT))
    assert site.running == ["new"]
    assert site.running == ["new", "second"]
    site.left.outbox.send(Abort(second, FinishReason.ABORT))
    assert site.running == ["new"]
    assert site.running == ["new", "third"]


def test_a_suspect_whose_process_stands_still_lets_the_next_one_in() -> None:
    site = Site()
    for number in range(3):
        site.left.submit(f"slow {number}")
    site.steps(14)  # its ring is full
    site.left.submit("stuck", is_suspect=True)
    site.right.submit("next", is_suspect=True)
    assert "next" in site.running


def test_suspects_are_not_computed_together_when_their_process_has_caught_up() -> None:
    site = Site()
    site.left.submit("fill", 500)
    site.steps(40)  # its ring is full
    stuck = site.left.submit("stuck", 50, is_suspect=True)
    quick = site.right.submit("next", 50, is_suspect=True)
    site.engine.take_in()
    site.left.read()
    assert site.running == ["fill", "next"]
    site.left.outbox.send(Proceed(stuck))
    assert site.running == ["fill", "next"]

    site.engine.step()  # it is past
    assert site.running == ["fill", "next", "stuck"]
    site.steps(1)
    assert len(tokens(site.left.read(), stuck)) == 1
    assert len(tokens(site.right.read(), quick)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_never_are_two_suspects_computed_that_are_not_past_and_all_get_their_turn(seed: int) -> None:
    """Processes read, pause, give up and lag at random."""
    site, chance = Site(), random.Random(seed)
    sides = {"left": site.left, "right": site.right}
    suspects: dict[str, int] = {}
    past: set[str] = set()
    over: set[str] = set()
    for step in range(300):
        side = chance.choice(list(sides))
        name = f"{side} {step}"
        event = chance.random()
        if event < 0.1:
            suspects[name] = sides[side].submit(name, chance.randint(1, 60), is_suspect=True)
        elif event < 0.2:
            sides[side].submit(name, chance.randint(1, 60))
        elif event < 0.25 and (waiting := [each for each in suspects if each.startswith(side)]):
            given_up = chance.choice(waiting)
            sides[side].outbox.send(Abort(suspects[given_up], FinishReason.ABORT))
            over.add(given_up)
        elif event < 0.5:
            sides[side].read()
        unproven = (set(site.running) & suspects.keys()) - past
        assert len(unproven) <= 1
        past |= unproven  # each of the running gets a token now
        site.engine.step()
        for each in sides.values():
            each.outbox.flush()

    for _ in range(2000):
        for each in sides.values():
            each.read()
            each.outbox.flush()
        unproven = (set(site.running) & suspects.keys()) - past
        assert len(unproven) <= 1
        past |= unproven
        site.engine.step()
    assert suspects.keys() <= past | over
    assert site.engine.running == {}
    assert site.engine.bridge._probation.aside == {}


def test_an_id_in_use_is_refused_to_the_second_and_harms_nobody() -> None:
    site = Site()
    first, second = site.left.submit("a", 3), site.right.submit("a", 3)
    site.steps(4)
    assert len(tokens(site.left.read(), first)) == 3
    (refused,) = site.right.read()
    assert refused.number == second
    assert refused.finish_reason is FinishReason.ERROR
    assert isinstance(refused.detail, Detail)
    assert "in use" in (refused.detail.error or "")


def test_an_answer_that_is_too_long_is_said_to_be() -> None:
    site = Site()
    number = site.left.numbers.next()
    site.left.outbox.send(Explain(number, tuple(range(400))))  # an answer of 400 names
    site.engine.take_in()
    (arrival,) = site.left.read()
    assert isinstance(arrival.detail, Detail)
    assert "too long" in (arrival.detail.error or "")


def test_its_thread_takes_commands_until_it_is_closed_and_says_when_it_cannot() -> None:
    channels = make_channels(1, MAX_MODEL_TOKENS)
    supervised = Supervised(channels)
    process = Process(channels[0], supervised)
    supervised.board.begin(1, 0.0, 1.0)
    intake = Intake(IntakeConfig(8, 1 << 20, MAX_MODEL_TOKENS))
    has_failed = threading.Event()
    bridge = EngineBridge(channels, supervised.board, intake, 1, has_failed.set)
    bridge.start()
    assert supervised.board.is_ready
    process.submit("a")
    intake.wait(10.0)
    assert [request.request_id for request in intake.take().requests] == ["a"]
    bridge.close()
    assert not has_failed.is_set()

    damaged = EngineBridge(channels, supervised.board, intake, 1, has_failed.set)
    channels[0].commands[:16] = b"\xff" * 16
    damaged.start()
    assert has_failed.wait(10.0)
    damaged.close()


@pytest.mark.parametrize("module", ["engine/bridge.py", "engine/desk.py"])
def test_a_process_that_is_killed_at_any_line_leaves_whole_words(module: str) -> None:
    """What it has told is a beginning of each answer; the next engine goes on in the same rings."""
    line = 1
    while kill_at(line, module):
        line += 3
    assert line > 100


def kill_at(line: int, module: str) -> bool:
    """Whether an engine died there; whatever it left is read, and continued."""
    site = Site()
    numbers = [site.left.submit("a", 6), site.right.submit("b", 6), site.left.submit("c", 6)]
    died = dies_at_line(partial(site.steps, 4), line, module)
    arrivals = site.left.read() + site.right.read()
    expected = answer_of(Request("", (1, 2, 3), SamplingParams(6)))
    assert all(each.detail is None or number_of(each.detail) == each.number for each in arrivals)
    far = {number: tokens(arrivals, number) for number in numbers}
    assert all(expected[: len(each)] == each for each in far.values())

    engine = site.supervised.start()
    site.engine = engine
    for process in (site.left, site.right):
        process.outbox.begin(engine.generation)
    for number, name in zip(numbers, "abc", strict=True):
        process = site.right if name == "b" else site.left
        request = Request(name, (1, 2, 3), SamplingParams(6), output_ids=far[number], is_resumed=True)
        process.outbox.send(Submit(number, request))
    site.steps(8)
    arrivals = [each for each in site.left.read() + site.right.read() if each.generation == engine.generation]
    assert all(each.detail is None or number_of(each.detail) == each.number for each in arrivals)
    assert all(far[number] + tokens(arrivals, number) == expected for number in numbers)
    return died
