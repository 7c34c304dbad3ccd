from tailrace.classes import STANDARD
from tailrace.measure.simulation.policies.catalog import POLICIES, Bounds, classes_of, make_planner, one_class
from tailrace.scheduler.scheduler import Scheduler


def test_there_is_a_plan_maker_for_each_policy() -> None:
    for policy in POLICIES:
        planner = make_planner(policy, Bounds())
        assert not planner.has_work
        assert planner.stats.num_blocks_total == Bounds().num_blocks


def test_ours_is_the_scheduler_of_the_server_and_tells_classes_apart() -> None:
    assert isinstance(make_planner("tailrace", Bounds()), Scheduler)
    assert {policy for policy in POLICIES if len(classes_of(policy, Bounds()).classes) > 1} == {"tailrace"}


def test_one_class_is_as_good_as_the_best_and_refuses_nobody() -> None:
    (only,) = one_class(STANDARD)
    best = next(iter(STANDARD))
    assert (only.ttft_s, only.itl_s) == (best.ttft_s, best.itl_s)
    assert not only.is_refused_late
    assert only.queue_ttl_s > 1e6
