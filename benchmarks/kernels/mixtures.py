"""A mixture of experts by itself, its router included: again and again, each time with weights of its own."""

import numpy as np

from benchmarks.kernels.projections import NUM_IDS
from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.subject import Subject
from tailrace.models.config import MixtureConfig
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.program import Program, Tensor, Weight

__all__ = ["mixture_subject"]

COPIES = 3  # a row's experts are then beyond any cache when it comes by again


def mixture_subject(hidden: int, mixture: MixtureConfig) -> Subject:
    """Routed experts, int4 and random, of a model that is `hidden` wide; rows spread evenly over them."""
    program = _record(hidden, mixture)
    table = np.random.default_rng(1).normal(size=(NUM_IDS, hidden)).astype(np.float32)
    weights = {**random_weights(program), "embed": from_float32(table), **_routers(hidden, mixture)}
    return Subject(program, weights, range(NUM_IDS), is_whole=False, copies=COPIES, prefix="experts ")


def _routers(hidden: int, mixture: MixtureConfig) -> dict[str, PackedTensor]:
    rng, shape = np.random.default_rng(2), (mixture.routing.num_experts, hidden)
    scale = np.float32(hidden**-0.5)
    return {f"{i}.router": from_float32(rng.normal(size=shape).astype(np.float32) * scale) for i in range(COPIES)}


def _record(hidden: int, mixture: MixtureConfig) -> Program:
    build = ProgramBuilder()
    x = build.embed(Weight("embed", (NUM_IDS, hidden)))
    normed = build.rms_norm(x, Weight("norm", (hidden,)), 1e-6)
    for copy in range(COPIES):
        x = _record_copy(build, mixture, f"{copy}.", normed, residual=x)
    return build.finish(build.gather_rows(x))


def _record_copy(build: ProgramBuilder, mixture: MixtureConfig, name: str, x: Tensor, *, residual: Tensor) -> Tensor:
    count, inner = mixture.routing.num_experts, mixture.expert_size
    return build.experts(
        x,
        build.linear(x, Weight(f"{name}router", (count, x.cols))),
        mixture.routing,
        gate=Weight(f"{name}gate", (count * inner, x.cols)),
        up=Weight(f"{name}up", (count * inner, x.cols)),
        down=Weight(f"{name}down", (count * x.cols, inner)),
        residual=residual,
    )
