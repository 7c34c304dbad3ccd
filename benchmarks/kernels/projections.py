"""Linears by themselves: behind one norm the same linears again and again, each time with weights of their own."""

import numpy as np

from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.shapes import Projections
from benchmarks.kernels.subject import Subject
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.packed import from_float32
from tailrace.ops.program import Program, Tensor, Weight

__all__ = ["NUM_IDS", "projections_subject"]

NUM_IDS = 512  # tokens that its embedding knows


def projections_subject(projections: Projections, *, num_bytes: int) -> Subject:
    """The linears of `projections`, int4 and random, as often as it takes to read `num_bytes` of weights in a step.

    That many are beyond any cache when they are meant to be: a model reads every layer's weights from memory, too.
    """
    single = random_weights(_record(projections, 1))
    copies = -(-num_bytes // sum(tensor.num_bytes for name, tensor in single.items() if name != "embed"))
    program = _record(projections, copies)
    table = np.random.default_rng(1).normal(size=(NUM_IDS, projections.inputs)).astype(np.float32)
    weights = {**random_weights(program), "embed": from_float32(table)}
    return Subject(program, weights, range(NUM_IDS), False, copies, projections.prefix)


def _record(projections: Projections, copies: int) -> Program:
    build = ProgramBuilder()
    x = build.embed(Weight("embed", (NUM_IDS, projections.inputs)))
    x = build.rms_norm(x, Weight("norm", (projections.inputs,)), 1e-6)
    if projections.is_sampled:
        x = build.gather_rows(x)
    for copy in range(copies):
        out = _record_copy(build, projections, copy, x)
    return build.finish(out if projections.is_sampled else build.gather_rows(out))


def _record_copy(build: ProgramBuilder, projections: Projections, copy: int, x: Tensor) -> Tensor:
    sizes = projections.outputs
    out = build.linear(x, *(Weight(f"{copy}.{name}", (size, x.cols)) for name, size in sizes.items()))
    if not projections.is_gated:
        return out
    gated = build.swiglu(out)
    return build.linear(gated, Weight(f"{copy}.down", (x.cols, gated.cols)))
