from tailrace.loading import load_model
from tailrace.scheduler.plan import StepSize
from tailrace.weights.checkpoint import Checkpoint
from tests.engine.harness import CONFIG


def test_a_real_model_is_measured_and_left_as_it_was(checkpoint: Checkpoint) -> None:
    model = load_model(checkpoint, CONFIG)
    resident_bytes = model.executable.kv_resident_bytes
    step_times = model.calibrate()
    assert model.executable.kv_resident_bytes == resident_bytes
    for rows in (1, 8, 16, 64):
        predicted_s = step_times.predict(StepSize(rows, rows, rows * 16, rows * 16))
        assert predicted_s is not None
        assert predicted_s > 0.0
    assert step_times.prefill_rate is not None
    model.executable.close()
