"""Two readings of a server whose figures come out round, and its machine."""

from tailrace.telemetry.attribution_reading import AttributionReading, OpSums, PathSums, ServedOn, TimedSteps
from tailrace.telemetry.roofline import FEW_ROWS, Ceilings, ReadRate

__all__ = ["CEILINGS", "SERVED", "at_first", "ten_seconds_later"]

CEILINGS = Ceilings(
    2,
    (ReadRate("L3", 100_000_000, 1e11), ReadRate("memory", 1_000_000_000, 1e10)),
    {"int8": 1e12, "bf16": 1e11, "f32": 5e10, FEW_ROWS: 2e11},
)
SERVED = ServedOn("model", "0", 2, "int8", CEILINGS, "this host")


def at_first() -> AttributionReading:
    """As of a server that has run for a while."""
    return AttributionReading(
        at_s=100.0,
        served=SERVED,
        engine_pid=4242,
        engine_seconds={"idle": 50.0, "intake": 1.0, "plan": 1.0, "compute": 40.0, "publish": 1.0, "tidy": 1.0},
        num_steps=500.0,
        num_output_tokens=1000.0,
        num_prompt_tokens=300.0,
        num_requests=10.0,
        timed={"decode": TimedSteps(5.0, 1.0, {"down": OpSums(1.0, 1e9, 1e9)})},
        num_first_tokens=10.0,
        first_token_seconds={"queue": 1.0, "prefill": 1.0},
        token_path={"ring": PathSums(0.5, 100.0, 200.0)},
        process_seconds={"engine": 60.0, "api 0": 5.0},
    )


def ten_seconds_later() -> AttributionReading:
    """1000 steps of 4 sequences; ten of the steps were timed."""
    return AttributionReading(
        at_s=110.0,
        served=SERVED,
        engine_pid=4242,
        engine_seconds={"idle": 52.0, "intake": 1.1, "plan": 1.4, "compute": 47.0, "publish": 1.4, "tidy": 1.1},
        num_steps=1500.0,
        num_output_tokens=5000.0,
        num_prompt_tokens=900.0,
        num_requests=30.0,
        timed={
            "decode": TimedSteps(
                15.0,
                5.0,
                {"down": OpSums(4.0, 2.5e10, 6.1e10), "attention": OpSums(0.8, 2e9, 4e10), "between": OpSums(0.2)},
            )
        },
        num_first_tokens=30.0,
        first_token_seconds={"queue": 3.0, "prefill": 2.0},
        token_path={"ring": PathSums(0.7, 500.0, 2200.0), "text": PathSums(0.1, 100.0, 1000.0)},
        process_seconds={"engine": 76.0, "api 0": 5.5},
    )
