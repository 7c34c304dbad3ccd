"""Metrics of the ops of steps, of those few steps whose ops are timed; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["OP_BYTES", "OP_CATALOG", "OP_OPERATIONS", "OP_SECONDS", "TIMED_STEPS", "TIMED_STEP_SECONDS"]

_STEPS = "One step in 64 is timed; `decode`: each sequence computed its newest token; `prompt`: some of a prompt too."
_LABELS = ("op", "step")

OP_SECONDS = Metric(
    "tailrace_op_seconds",
    Kind.COUNTER,
    "seconds",
    "Time of timed steps by kind of op: waiting, for weights, experts or grammars' masks; between, in no op at all. "
    + _STEPS,
    labels=_LABELS,
)
OP_BYTES = Metric(
    "tailrace_op_bytes",
    Kind.COUNTER,
    "bytes",
    "What timed steps had to move by kind of op: weights, each once a step, and keys and values. " + _STEPS,
    labels=_LABELS,
)
OP_OPERATIONS = Metric(
    "tailrace_op_operations",
    Kind.COUNTER,
    "operations",
    "Multiplications and additions of timed steps by kind of op. " + _STEPS,
    labels=_LABELS,
)
TIMED_STEPS = Metric("tailrace_timed_steps", Kind.COUNTER, "steps", "Steps whose ops were timed.", labels=("step",))
TIMED_STEP_SECONDS = Metric(
    "tailrace_timed_step_seconds",
    Kind.COUNTER,
    "seconds",
    "What timed steps took to compute: the sum of tailrace_op_seconds over all ops.",
    labels=("step",),
)

OP_CATALOG = (OP_SECONDS, OP_BYTES, OP_OPERATIONS, TIMED_STEPS, TIMED_STEP_SECONDS)
