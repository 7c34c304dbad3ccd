"""What of a server does not change while it runs, and what its machine can do, as far as somebody has measured it."""

from tailrace.loading import PlannedModel
from tailrace.ops.load import instruction_set, is_gauged
from tailrace.telemetry.attribution_reading import ServedOn, host_name
from tailrace.telemetry.kept_roofline import KeptRoofline, this_machine
from tailrace.telemetry.roofline import Ceilings
from tailrace.version import __version__
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.default_model import cache_dir

__all__ = ["served_on", "weight_numbers"]

_AS_FLOATS = {"f32": "f32", "f16": "f32", "bf16": "bf16"}  # a float16 is widened first


def served_on(plan: PlannedModel, name: str) -> ServedOn:
    """The ceilings are looked up each time: they may have been measured since the start."""
    num_threads = plan.limits.num_threads
    return ServedOn(
        model=name,
        version=__version__,
        num_threads=num_threads,
        weight_numbers=weight_numbers(plan.checkpoint),
        ceilings=_ceilings(num_threads) if is_gauged(plan.backend.name) else None,
        host=host_name(),
    )


def weight_numbers(checkpoint: Checkpoint) -> str:
    """What most products with weights are made of, by the way out of the first MLP or the experts beside it."""
    formats = [kept for name, kept in sorted(checkpoint.float_matrices.items()) if name.endswith(".down")]
    return _AS_FLOATS.get(formats[-1], "int8") if formats else "int8"


def _ceilings(num_threads: int) -> Ceilings | None:
    found = KeptRoofline(cache_dir() / "roofline", this_machine(instruction_set())).find()
    return None if found is None else found.of(num_threads)
