"""Metrics of where the step loop's time goes; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["ENGINE_SECONDS", "ENGINE_TIME_CATALOG"]

ENGINE_SECONDS = Metric(
    "tailrace_engine_seconds",
    Kind.COUNTER,
    "seconds",
    "Time of the step loop by part: idle (nobody wants anything), intake, plan, compute, publish, tidy. The parts add "
    "up to all of it.",
    labels=("part",),
)

ENGINE_TIME_CATALOG = (ENGINE_SECONDS,)
