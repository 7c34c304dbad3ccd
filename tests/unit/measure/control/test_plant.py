import pytest

from tailrace.measure.control.plant import NUM_KNOWN, Conditions, Device, Plant, Workload
from tailrace.measure.simulation.cost import default_cost
from tailrace.scheduler.controller import Controller, ControllerConfig
from tailrace.scheduler.plan import StepSize

MODEL = default_cost()


def plant(workload: Workload | None = None, *, max_batch: int = 64) -> Plant:
    controller = Controller(ControllerConfig.up_to(max_batch))
    return Plant(workload or Workload(), MODEL, Device(MODEL, 1.0, 0.0, seed=0), controller)


def test_a_device_keeps_to_the_model_for_as_many_tokens_as_that_knows() -> None:
    device = Device(MODEL, 3.0, 0.0, seed=0)
    known, beyond = StepSize(NUM_KNOWN, 1, 1), StepSize(2 * NUM_KNOWN, 1, 1)
    known_s, beyond_s = MODEL.predict(known), MODEL.predict(beyond)
    assert known_s is not None
    assert beyond_s is not None
    assert device.seconds(known) == pytest.approx(known_s)
    assert device.seconds(beyond) == pytest.approx(known_s + 3.0 * (beyond_s - known_s))


def test_all_clients_run_where_there_is_room() -> None:
    engine = plant()
    engine.meet(Conditions(num_clients=6))
    engine.run_until(3.0)
    sample = engine.sample()
    assert sample.num_running in (5, 6)  # one may just have ended
    assert sample.p99_ratio > 0.0


def test_no_more_run_than_the_controller_allows_or_memory_holds() -> None:
    few_places = plant(max_batch=4)
    few_places.meet(Conditions(num_clients=20))
    few_places.run_until(3.0)
    assert few_places.sample().num_running <= 4
    little_memory = plant(Workload(kv_tokens=400))
    little_memory.meet(Conditions(num_clients=20))
    for at_s in range(1, 20):
        little_memory.run_until(at_s)
        assert little_memory.sample().free_share >= 0.0


def test_clients_that_are_too_many_leave_at_once() -> None:
    engine = plant()
    engine.meet(Conditions(num_clients=20))
    engine.run_until(2.0)
    engine.meet(Conditions(num_clients=3))
    assert engine.sample().num_running == 3
    engine.run_until(4.0)
    assert engine.sample().num_running <= 3


def test_without_clients_nothing_happens_and_time_goes_on() -> None:
    engine = plant()
    engine.run_until(5.0)
    assert engine.now_s >= 5.0
    assert engine.sample()[1:3] == (0.0, 0)
