"""What the step loop says of its time, as a counter."""

from tailrace.telemetry.engine_time import EngineTime
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.series import samples_of


def shown(engine_time: EngineTime) -> dict[str, float]:
    (series,) = engine_time.series
    return {labels[0]: values[0] for labels, values in samples_of(series) if values[0]}


def test_every_part_is_there_from_the_start() -> None:
    (series,) = EngineTime().series
    parts = {labels[0] for labels, _ in samples_of(series)}
    assert parts == {"idle", "intake", "plan", "compute", "publish", "tidy"}


def test_it_follows_the_loop_and_never_goes_back() -> None:
    engine_time, said = EngineTime(), {"idle": 1.0, "compute": 2.0}
    engine_time.watch(lambda: said)
    engine_time.refresh()
    assert shown(engine_time) == {"idle": 1.0, "compute": 2.0}

    said.update(idle=0.75, compute=2.5)
    engine_time.refresh()
    assert shown(engine_time) == {"idle": 1.0, "compute": 2.5}

    said.update(idle=1.25)
    engine_time.refresh()
    assert shown(engine_time) == {"idle": 1.25, "compute": 2.5}


def test_the_next_engine_counts_on_and_processes_add_up() -> None:
    first = Metrics(model_name="m", version="0")
    first.engine_time.watch(lambda: {"idle": 3.0})
    second = Metrics(model_name="m", version="0")
    second.go_on_from(first.snapshot())
    second.engine_time.watch(lambda: {"idle": 0.5})

    whole = Metrics(model_name="m", version="0").with_others([second.snapshot()])
    assert shown(whole.engine_time) == {"idle": 3.5}
    assert b'tailrace_engine_seconds_total{part="idle"} 3.5' in whole.render("")[0]
