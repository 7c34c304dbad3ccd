import json
from importlib.resources import files

from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import StepTimeModel


def test_the_recorded_step_times_can_be_loaded_and_rise() -> None:
    recorded = json.loads((files("tailrace.measure") / "data" / "default-model-2-cores.json").read_text("utf-8"))
    model = StepTimeModel.from_dict(recorded["step_time"])
    for context in (16, 1_000):
        times_s = [
            model.predict(StepSize(rows, rows, rows * context, rows * context)) or 0.0
            for rows in (1, 4, 8, 16, 32, 64, 128)
        ]
        assert 1e-3 < times_s[0] < times_s[-1] < 1.0
        assert times_s == sorted(times_s)
    assert model.prefill_rate is not None
