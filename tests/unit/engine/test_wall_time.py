"""Parts of the step loop's time follow each other without a gap."""

import threading
import time

import pytest

from tailrace.engine.wall_time import WallTime
from tailrace.records import EnginePart


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_each_part_lasts_until_the_next() -> None:
    clock = Clock()
    wall = WallTime(clock)
    for part, began_s in ((EnginePart.INTAKE, 101.0), (EnginePart.PLAN, 101.25), (EnginePart.COMPUTE, 102.0)):
        wall.begin(part, began_s)
    wall.begin(EnginePart.PLAN, 104.0)
    clock.now_s = 104.5

    seconds = wall.seconds()
    assert seconds == {"idle": 1.0, "intake": 0.25, "plan": 1.25, "compute": 2.0, "publish": 0.0, "tidy": 0.0}
    assert sum(seconds.values()) == pytest.approx(4.5)


def test_what_is_going_on_counts_while_it_does() -> None:
    clock = Clock()
    wall = WallTime(clock)
    clock.now_s = 160.0
    assert wall.seconds()["idle"] == 60.0


def test_it_adds_up_whenever_another_thread_looks() -> None:
    before_s, wall, after_s = time.monotonic(), WallTime(), time.monotonic()
    is_over = threading.Event()

    def step() -> None:
        while not is_over.is_set():
            for part in EnginePart:
                wall.begin(part, time.monotonic())

    thread = threading.Thread(target=step)
    thread.start()
    try:
        for _ in range(200):
            asked_s = time.monotonic()
            total = sum(wall.seconds().values())
            assert asked_s - after_s - 1e-6 <= total <= time.monotonic() - before_s + 1e-6
    finally:
        is_over.set()
        thread.join()
