"""The steps whose instructions are counted: one hot kernel each, at the sizes of SmolLM2-135M, on one thread.

`python -m benchmarks.kernels.counted ISA` runs each of them once between two calls of `os.getppid`, which is where
callgrind cuts its counts.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np

from benchmarks.kernels.projections import projections_subject
from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.shapes import Projections
from benchmarks.kernels.steps import CONTEXT_TOKENS, Case, fill_context, limits, step
from tailrace.ops.api import Limits, SamplingInputs, StepInputs
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, KvFormat
from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.program import Program, RopeSpec, Weight
from tests.support.steps import sampling

__all__ = ["Call", "calls"]

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 576, 1536, 9, 3, 64
VOCABULARY = 2048
NUM_IDS = 256
TOKEN_IDS = range(NUM_IDS)
LINEAR_BYTES = 2**20  # so many weights that the norm in front of them hardly counts
DECODING = (Case("1 row", 1, 1, 0), Case("8 rows", 8, 1, 0), Case("64 rows", 1, 64, 0))
ATTENDING = (
    Case("1 row", 1, 1, CONTEXT_TOKENS),
    Case("8 rows", 8, 1, CONTEXT_TOKENS),
    Case("64 rows", 1, 64, CONTEXT_TOKENS),
)
GREEDY = partial(sampling, temperature=0.0)
DRAWN = partial(sampling, temperature=0.8, top_p=0.95, top_k=40)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the back end, ready to be made."""

    name: str
    executable: CpuExecutable
    inputs: StepInputs
    sampling: SamplingInputs | None = None

    def __call__(self) -> None:
        if self.sampling is None:
            self.executable.logits(self.inputs)
        else:
            self.executable.run(self.inputs, self.sampling)


def calls(isa: str) -> Iterator[Call]:
    """Each call once the one before it is done: their executables do not live together."""
    yield from _linear_calls(isa, "linear int4", Projections(HIDDEN, {"q": 576, "k": 192, "v": 192}))
    yield from _linear_calls(
        isa, "gate+up, swiglu, down int4", Projections(HIDDEN, {"gate": INNER, "up": INNER}, is_gated=True)
    )
    yield from _bfloat_calls(isa)
    yield from _head_calls(isa)
    for kv_format in get_args(KvFormat):
        yield from _attention_calls(isa, kv_format)


def _linear_calls(isa: str, name: str, projections: Projections) -> Iterator[Call]:
    subject = projections_subject(projections, num_bytes=LINEAR_BYTES)
    yield from _calls(name, CpuBackend(isa), subject.program, subject.weights, DECODING)


def _bfloat_calls(isa: str) -> Iterator[Call]:
    build = ProgramBuilder()
    x = build.embed(Weight("embed", (NUM_IDS, HIDDEN)))
    out = build.linear(x, Weight("matrix", (960, HIDDEN)))
    program = build.finish(build.gather_rows(out))
    upper = np.random.default_rng(0).normal(size=(960, HIDDEN)).astype(np.float32).view(np.uint32) >> 16
    matrix = PackedTensor((960, HIDDEN), "bf16", upper.astype(np.uint16))
    weights = {"matrix": matrix, "embed": _random_table(HIDDEN)}
    yield from _calls("linear bf16", CpuBackend(isa), program, weights, DECODING)


def _head_calls(isa: str) -> Iterator[Call]:
    build = ProgramBuilder()
    x = build.gather_rows(build.embed(Weight("embed", (NUM_IDS, HIDDEN))))
    x = build.rms_norm(x, Weight("norm", (HIDDEN,)), 1e-5)
    program = build.finish(build.linear(x, Weight("head", (VOCABULARY, HIDDEN))))
    weights = random_weights(program)
    for name, draw in (("head int8, greedy", GREEDY), ("head int8, drawn", DRAWN)):
        for call in _calls(name, CpuBackend(isa), program, weights, DECODING[:2]):
            yield Call(call.name, call.executable, call.inputs, draw(len(call.inputs.sample_rows)))


def _attention_calls(isa: str, kv_format: KvFormat) -> Iterator[Call]:
    build = ProgramBuilder()
    columns = (HEADS + 2 * KV_HEADS) * HEAD_DIM
    qkv = build.embed(Weight("embed", (NUM_IDS, columns)))
    rope = RopeSpec(tuple(1e5 ** (-pair * 2 / HEAD_DIM) for pair in range(HEAD_DIM // 2)))
    cache = build.kv_cache(KV_HEADS, HEAD_DIM)
    attended = build.paged_attention(build.rope_and_store(qkv, cache, HEADS, rope), cache, HEADS, HEAD_DIM**-0.5)
    program = build.finish(build.gather_rows(attended))
    weights = {"embed": _random_table(columns)}
    yield from _calls(f"attention, {kv_format} KV", CpuBackend(isa, kv_format), program, weights, ATTENDING)


def _random_table(columns: int) -> PackedTensor:
    return from_float32(np.random.default_rng(0).normal(size=(NUM_IDS, columns)).astype(np.float32))


def _calls(
    name: str, backend: CpuBackend, program: Program, weights: Mapping[str, PackedTensor], of: tuple[Case, ...]
) -> Iterator[Call]:
    bounds: Limits = limits(of, num_threads=1)
    executable = backend.load(program, weights, bounds)
    if program.caches:
        fill_context(executable, bounds, TOKEN_IDS)
    for case in of:
        yield Call(f"{name}, {case.name}", executable, step(case, bounds, TOKEN_IDS))
    executable.close()


def main() -> None:
    for call in calls(sys.argv[1]):
        os.getppid()
        call()
        os.getppid()
        print(call.name, flush=True)


if __name__ == "__main__":
    main()
