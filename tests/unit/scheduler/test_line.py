from math import inf

from tailrace.classes import STANDARD
from tailrace.scheduler.line import ClassLine
from tailrace.scheduler.waiting import WaitingRequest
from tests.support.lives import make_waiting


def request(
    rank: int, work_tokens: int = 3, *, cohort_s: float = 0.0, ttft_s: float | None = None, tenant: str = ""
) -> WaitingRequest:
    live = make_waiting(rank, work_tokens, ttft_s=ttft_s, tenant=tenant)
    waiting = WaitingRequest(live, cohort_s, may_expire=False)
    waiting.look(seconds_per_token=0.01)
    return waiting


def line_of(*requests: WaitingRequest) -> ClassLine:
    line = ClassLine(STANDARD.default)
    for each in requests:
        line.add(each, 0)
    return line


def in_order(line: ClassLine) -> list[int]:
    ranks = []
    while line.by_age:
        ranks.append(line.first.live.arrival_rank)
        line.remove(line.first)
    return ranks


def test_an_older_cohort_goes_before_less_slack_and_less_work() -> None:
    assert in_order(line_of(request(0, ttft_s=100.0), request(4, ttft_s=1.0, cohort_s=4.0))) == [0, 4]


def test_in_a_cohort_the_least_slack_goes_first_and_then_the_least_work() -> None:
    patient, urgent, large, small = (
        request(0, ttft_s=100.0),
        request(1, 300, ttft_s=8.0),
        request(2, 300, ttft_s=8.0),
        request(3, 100, ttft_s=5.0),
    )
    assert in_order(line_of(patient, urgent, large, small)) == [1, 3, 2, 0]


def test_the_weight_doubles_at_the_longest_wait_and_grows_no_further() -> None:
    line = line_of(request(10), request(30))
    priority = STANDARD.default.priority
    assert [line.weight(now_s, 8.0) for now_s in (10.0, 14.0, 18.0, 50.0)] == [
        priority,
        1.5 * priority,
        2 * priority,
        2 * priority,
    ]


def test_the_oldest_is_known_whoever_comes_and_goes() -> None:
    first, second, third = request(0), request(1), request(2)
    line = line_of(second, third)
    line.add(first, 0)
    assert (line.oldest, line.oldest_s) == (first, 0.0)
    line.remove(second)
    assert line.oldest is first
    line.remove(first)
    assert (line.oldest, line.oldest_s) == (third, 2.0)
    line.remove(third)
    assert (line.oldest_s, line.due) == (inf, inf)


def test_the_oldest_is_due_when_the_class_has_saved_up_for_it() -> None:
    line = ClassLine(STANDARD.default)  # a share of 5%
    line.add(request(0, 10), 1_000)
    line.add(request(1, 30), 1_000)
    assert line.due == 1_000 + 10 / 0.05
    line.start(line.oldest, 10, 1_300)
    assert line.due == 1_200 + 30 / 0.05


def test_who_starts_before_it_is_due_leaves_no_debt() -> None:
    line = ClassLine(STANDARD.default)
    line.add(request(0, 10), 0)
    line.add(request(1, 30), 0)
    line.start(line.oldest, 10, 50)
    assert line.due == 50 + 30 / 0.05


def test_only_what_the_oldest_gets_is_taken_from_what_was_saved_up() -> None:
    line = ClassLine(STANDARD.default)
    oldest, other, last = request(0, 10, ttft_s=100.0), request(1, 30), request(2, 10)
    for each in (oldest, other, last):
        line.add(each, 0)
    line.start(other, 30, 150)
    line.start(oldest, 10, 250)
    assert line.due == 10 / 0.05 + 10 / 0.05


def test_nothing_is_saved_up_while_none_waits() -> None:
    line = ClassLine(STANDARD.default)
    line.add(request(0, 10), 0)
    line.start(line.oldest, 10, 0)
    line.add(request(1, 10), 5_000)
    assert line.due == 5_000 + 10 / 0.05


def test_a_class_that_was_promised_nothing_gets_one_in_a_hundred() -> None:
    line = ClassLine(STANDARD.named("gold"))
    line.add(request(0, 10), 0)
    assert line.due == 10 / 0.01
