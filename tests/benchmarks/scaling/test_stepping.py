from benchmarks.scaling.stepping import EngineInSteps


def test_as_many_run_and_wait_as_were_asked_for() -> None:
    engine = EngineInSteps(num_running=4, num_waiting=3)
    assert (engine.num_running, engine.num_waiting) == (4, 3)
    engine.typical_us(5)
    assert (engine.num_running, engine.num_waiting) == (4, 3)


def test_the_place_of_a_request_that_ends_is_taken() -> None:
    engine = EngineInSteps(num_running=4, num_waiting=3, answer_tokens=2)
    for _ in range(9):
        engine.step_us()
        assert engine.num_running + engine.num_waiting >= 3
    assert engine.num_waiting <= 7


def test_a_step_takes_time() -> None:
    assert EngineInSteps(num_running=2, num_waiting=0).typical_us(3) > 0
