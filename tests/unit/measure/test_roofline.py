"""What is measured, in which order, and what becomes of it, with a device that does as it is told."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tailrace.measure.caches import Cache
from tailrace.measure.roofline import MeasuringPlan, measure_roofline, thread_counts, working_sets
from tailrace.telemetry.roofline import Machine, ReadRate

MACHINE = Machine("a processor", "some set", 4)
CACHES = [Cache(1, 32 << 10, is_shared=False), Cache(2, 1 << 20, is_shared=False), Cache(3, 64 << 20, is_shared=True)]
PLENTY = 64 << 30


@dataclass
class Device:
    """Reads and multiplies at rates of its own; its clock moves by what it does, and a little by itself."""

    num_threads: int
    slowed_after_s: float = float("inf")
    now_s: float = 0.0
    asked: list[int] = field(default_factory=list)
    numbers: tuple[str, ...] = ("int8", "f32")

    def read(self, num_bytes: int) -> float:
        self.asked.append(num_bytes)
        self.now_s += 0.01
        return self.num_threads * (1e10 if num_bytes > 128 << 20 else 1e11)

    def multiply(self, numbers: str, count: int) -> float:
        rate = self.num_threads * (1e12 if numbers == "int8" else 1e11)
        if self.now_s > self.slowed_after_s:
            rate /= 2
        self.now_s += 32.0 * count * self.num_threads / rate
        return rate

    def clock(self) -> float:
        self.now_s += 1e-6
        return self.now_s


def measured(device: Device) -> MeasuringPlan:
    return MeasuringPlan(MACHINE, [device.num_threads], CACHES, PLENTY)


def test_threads_double_up_to_all() -> None:
    assert [thread_counts(cpus) for cpus in (1, 2, 3, 8)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4, 8]]
    assert thread_counts(12) == [1, 2, 4, 8, 12]


def test_each_cache_has_a_working_set_within_it_and_memory_one_beyond() -> None:
    sets = [(each.where, each.num_bytes) for each in working_sets(CACHES, num_threads=2, free_bytes=PLENTY)]
    assert dict(sets) == {
        "L1": 32 << 10,
        "L2": 1 << 20,
        "L3": 32 << 20,
        "memory": 256 << 20,
    }, "the last of each is the largest"


def test_between_those_that_are_far_apart_there_are_more() -> None:
    sizes = [each.num_bytes for each in working_sets(CACHES, num_threads=2, free_bytes=PLENTY)]
    assert sizes == sorted(set(sizes))
    assert all(2 * smaller <= larger <= 8 * smaller for smaller, larger in pairwise(sizes))


def test_what_lies_beyond_a_large_cache_is_bounded() -> None:
    large = [Cache(3, 1 << 30, is_shared=True)]
    assert [(each.where, each.num_bytes) for each in working_sets(large, 1, PLENTY)] == [
        ("L3", 512 << 20),
        ("memory", 1 << 30),
    ]


def test_little_free_memory_is_not_filled() -> None:
    sets = working_sets(CACHES, num_threads=1, free_bytes=100 << 20)
    assert sets[-1].num_bytes == 25 << 20
    assert {each.where for each in sets} == {"L1", "L2", "memory"}, "the L3 is as large as what may be taken"


def test_the_figures_are_those_of_the_device() -> None:
    device = Device(num_threads=2)
    found = measure_roofline(measured(device), lambda _threads, _bytes: device, clock=device.clock)

    (ceilings,) = found.threads
    assert (found.machine, found.spread) == (MACHINE, 0.0)
    assert ceilings.num_threads == 2
    assert ceilings.reads[0] == ReadRate("L1", 32 << 10, 2e11)
    assert ceilings.reads[-1] == ReadRate("memory", 256 << 20, 2e10)
    assert ceilings.ops_per_s == {"int8": 2e12, "f32": 2e11}


def test_what_a_busy_machine_does_to_one_round_is_seen_and_not_believed() -> None:
    device = Device(num_threads=1, slowed_after_s=4.0)
    found = measure_roofline(measured(device), lambda _threads, _bytes: device, clock=device.clock)

    assert found.spread == pytest.approx(0.5)
    assert found.noisiest.startswith("multiplying")
    assert found.threads[0].ops_per_s == {"int8": 1e12, "f32": 1e11}


def test_memory_is_taken_for_the_largest_set_and_the_whole_is_bounded_in_time() -> None:
    made: list[tuple[int, int]] = []
    device = Device(num_threads=1)

    def make(num_threads: int, max_bytes: int) -> Device:
        made.append((num_threads, max_bytes))
        device.num_threads = num_threads
        return device

    plan = MeasuringPlan(MACHINE, [1, 2, 4], CACHES, PLENTY)
    found = measure_roofline(plan, make, clock=device.clock)

    assert made == [(1, 256 << 20), (2, 256 << 20), (4, 256 << 20)]
    assert [each.num_threads for each in found.threads] == [1, 2, 4]
    assert device.now_s < 12.0


def test_progress_is_told_up_to_the_end() -> None:
    device, told = Device(num_threads=1), []
    measure_roofline(measured(device), lambda _t, _b: device, lambda *done: told.append(done), device.clock)
    assert told == [(0, 2), (1, 2), (1, 1)]
