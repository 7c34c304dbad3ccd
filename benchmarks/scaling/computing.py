"""What a step costs the CPU back end, by the length of the context and by the size of the model."""

from collections.abc import Sequence

import numpy as np

from benchmarks.kernels.steps import Case, cases
from benchmarks.kernels.subjects import SUBJECTS
from benchmarks.kernels.timing import WHOLE, Line, highest_ceilings, measure
from benchmarks.scaling.finding import Finding
from tailrace.ops.cpu.backend import CpuBackend

__all__ = ["context_finding", "model_finding"]

SMALL, LARGE = "SmolLM2-135M", "R1-Distill-Qwen-1.5B"
CONTEXTS = (256, 1024, 2048, 4096, 8191)  # and the token that is computed: 8,192
MAX_STEEPER = 1.15  # growth for a token above 2,048 of context, as a multiple of that below
MODEL_ROWS = (1, 16)
LEAST_SHARE = 0.9  # of the small model's share of its ceiling
ROUNDS = 3


def context_finding(num_threads: int) -> Finding:
    """One stream: reading the weights, and keys and values of every position."""
    of = [Case(f"decode at {context}", 1, 1, context) for context in CONTEXTS]
    times_ms = [line.time_ms for line in _whole_steps(SMALL, of, num_threads)]
    slopes = np.diff(times_ms) / np.diff(CONTEXTS)
    short, long = _slope(times_ms, 0, 2), _slope(times_ms, 2, 4)
    return Finding(
        claim=f"A step grows no faster than its context ({SMALL}, one stream, {num_threads} threads)",
        columns=("context", "ms a step", "µs for each token more"),
        rows=[
            (f"{context:,}", f"{time:.3f}", "" if slope is None else f"{slope * 1e3:.2f}")
            for context, time, slope in zip(CONTEXTS, times_ms, (None, *slopes), strict=True)
        ],
        verdict=f"a token of a long context costs {long / short:.2f} of one of a short, {MAX_STEEPER:.2f} allowed",
        holds=long <= MAX_STEEPER * short,
    )


def _slope(times_ms: Sequence[float], first: int, last: int) -> float:
    return (times_ms[last] - times_ms[first]) / (CONTEXTS[last] - CONTEXTS[first])


def model_finding(num_threads: int) -> Finding:
    """Twelve times the weights, at the same share of what the memory or the multipliers allow."""
    lines = {name: _whole_steps(name, list(cases(MODEL_ROWS)), num_threads) for name in (SMALL, LARGE)}
    ratios = [
        large.ceiling_share / small.ceiling_share for small, large in zip(lines[SMALL], lines[LARGE], strict=True)
    ]
    return Finding(
        claim=f"A model of 1.5B parameters comes as near to the ceilings as one of 135M ({num_threads} threads)",
        columns=("model", "step", "ms", "GB/s", "TOPS", "of ceiling"),
        rows=[(name, *_figures(line)) for name, of_model in lines.items() for line in of_model],
        verdict=f"{min(ratios):.0%} of the small model's share at least, {LEAST_SHARE:.0%} wanted",
        holds=min(ratios) >= LEAST_SHARE,
    )


def _whole_steps(model: str, of: list[Case], num_threads: int) -> list[Line]:
    backend = CpuBackend()
    ceilings = highest_ceilings(num_threads, backend.isa)
    (subject,) = SUBJECTS[model]()
    profiles = measure(backend, subject, of, num_threads, ROUNDS)
    ceilings = highest_ceilings(num_threads, backend.isa, ceilings)
    return [line for profile in profiles for line in profile.lines(model, ceilings) if line.op == WHOLE]


def _figures(line: Line) -> tuple[str, ...]:
    return (
        line.case,
        f"{line.time_ms:.2f}",
        f"{line.gbytes_per_s:.1f}",
        f"{line.tops:.3f}",
        f"{line.ceiling_share:.0%}",
    )
