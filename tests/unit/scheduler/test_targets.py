from tailrace.classes import STANDARD
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.scheduler.targets import Targets


def model(seconds_per_row: float) -> StepTimeModel:
    step_times = StepTimeModel()
    learn(step_times, seconds_per_row)
    return step_times


def learn(step_times: StepTimeModel, seconds_per_row: float) -> None:
    for rows in (*range(9, 65),) * 20:
        step_times.observe(StepSize(rows, rows, rows * 256, rows * 256), rows * seconds_per_row)


def follow(targets: Targets, start_s: int, seconds: int) -> float:
    for now_s in range(start_s, start_s + seconds):
        targets.follow(float(now_s))
    return targets.scale


def test_targets_come_down_once_the_machine_proves_faster_than_its_first_steps() -> None:
    step_times = model(0.0005)  # 32 rows in 16 ms: gold's gap of 50 ms is no more than it should be
    targets = Targets(STANDARD.scaled(8.0), 8.0, step_times, 64)
    assert follow(targets, 0, 60) < 1.1
    assert targets.classes.named("gold").itl_s < 0.055
    assert targets.classes.named("bronze").ttft_s < 66


def test_targets_never_rise_beyond_what_was_announced() -> None:
    step_times = model(0.0005)
    targets = Targets(STANDARD.scaled(2.0), 2.0, step_times, 64)
    follow(targets, 0, 60)
    learn(step_times, 0.05)
    assert follow(targets, 60, 120) <= 2.0
    assert targets.scale > 1.9


def test_targets_as_configured_stay_so() -> None:
    targets = Targets(STANDARD, 1.0, model(0.05), 64)
    assert follow(targets, 0, 60) == 1.0
    assert targets.classes is STANDARD


def test_a_single_look_changes_little() -> None:
    targets = Targets(STANDARD.scaled(8.0), 8.0, model(0.0005), 64)
    targets.follow(0.0)
    assert targets.scale > 7.0
    scale = targets.scale
    targets.follow(0.5)  # too soon
    assert targets.scale == scale
