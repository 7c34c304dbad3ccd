from tailrace.classes import STANDARD
from tailrace.scheduler.running import RunningSet
from tests.support.lives import make_live


def test_requests_are_counted_by_class_and_told_in_order_of_their_start() -> None:
    running = RunningSet(STANDARD)
    lives = [make_live("gold"), make_live("bronze"), make_live("gold")]
    for live in lives:
        running.add(live)
    assert list(running) == lives
    assert list(running.num_by_class.values()) == [2, 0, 1]
    running.remove(lives[0])
    assert lives[0] not in running
    assert lives[1] in running
    assert list(running.num_by_class.values()) == [1, 0, 1]
    assert len(running) == 2


def test_ahead_of_a_newcomer_are_those_of_its_class_and_better_ones() -> None:
    running = RunningSet(STANDARD)
    for class_name, gap in (("gold", 7), ("silver", 3), ("bronze", 100)):
        live = make_live(class_name, num_computed=8)
        live.num_computed -= gap - 1
        running.add(live)
    assert running.ahead_of(STANDARD.named("gold")) == (1, 6, 2)
    assert running.ahead_of(STANDARD.named("silver")) == (2, 8, 4)
    assert running.ahead_of(STANDARD.named("bronze")) == (3, 107, 6)


def test_ahead_of_a_newcomer_are_those_of_lower_classes_that_will_not_give_way_any_more() -> None:
    running = RunningSet(STANDARD)
    running.add(live := make_live("bronze", num_computed=8))
    live.num_computed = 2
    assert running.ahead_of(STANDARD.named("gold")) == (0, 0, 0)
    live.num_yields = live.service_class.max_yields
    assert running.ahead_of(STANDARD.named("gold")) == (1, 0, 2)


def test_who_may_still_need_a_block_is_left_one() -> None:
    running = RunningSet(STANDARD)
    running.add(make_live(num_computed=8, max_tokens=100))
    done = make_live(num_computed=8, max_tokens=100)
    done.max_blocks = len(done.table.blocks)
    running.add(done)
    assert running.num_spare_blocks == 1
