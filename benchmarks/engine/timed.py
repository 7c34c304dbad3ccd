"""What it costs to time the ops of a step: the same steps with and without, in turns, on the default model."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.kernels.steps import Case, fill_context, limits, step
from benchmarks.kernels.subjects import SUBJECTS
from tailrace.ops.api import Executable, Limits
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.runtime.runner import TIMED_EVERY
from tests.support.steps import sampling

__all__ = ["TimedCost", "cost_of_timing", "measure_timing"]

_CASES = (Case("1 stream", 1, 1, 256), Case("32 streams", 32, 1, 256), Case("a prompt of 256", 1, 256, 0))
_MODEL = "SmolLM2-135M"


@dataclass(frozen=True, slots=True)
class TimedCost:
    """Medians. `ops_share`: of the time of a timed step, what its ops say they took."""

    case: str
    num_pairs: int
    step_s: float
    extra_s: float  # of a step that is timed
    ops_share: float

    @property
    def share(self) -> float:
        """Of the time of all steps, when one in many is timed."""
        return self.extra_s / TIMED_EVERY / self.step_s


def measure_timing(num_pairs: int, num_threads: int) -> list[TimedCost]:
    (subject,) = SUBJECTS[_MODEL]()
    bounds = limits(_CASES, num_threads)
    executable = CpuBackend().load(subject.program, subject.weights, bounds)
    fill_context(executable, bounds, range(256))
    found = [_measure(executable, case, bounds, num_pairs) for case in _CASES]
    executable.close()
    return found


def _measure(executable: Executable, case: Case, bounds: Limits, num_pairs: int) -> TimedCost:
    inputs, draw = step(case, bounds, range(256)), sampling(case.num_sequences, temperature=0.0)
    in_ops_s: list[float] = []

    def timed() -> None:
        _, ops = executable.run_timed(inputs, draw)
        in_ops_s.append(sum(op.seconds for op in ops))

    pairs = [(_took_s(lambda: executable.run(inputs, draw)), _took_s(timed)) for _ in range(num_pairs)]
    return cost_of_timing(case.name, pairs, in_ops_s)


def _took_s(call: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s


def cost_of_timing(case: str, pairs: list[tuple[float, float]], in_ops_s: list[float]) -> TimedCost:
    """From what steps took without and with timing, one behind the other, and what the timed ones say of their ops."""
    return TimedCost(
        case,
        len(pairs),
        step_s=median(plain_s for plain_s, _ in pairs),
        extra_s=median(timed_s - plain_s for plain_s, timed_s in pairs),
        ops_share=median(ops_s / timed_s for ops_s, (_, timed_s) in zip(in_ops_s, pairs, strict=True)),
    )
