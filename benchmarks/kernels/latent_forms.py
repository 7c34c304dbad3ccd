"""Both forms of latent attention at the sizes of DeepSeek-V2-Lite, one layer: what it costs to have one for all rows.

The CPU back end computes the absorbed form, whatever the number of rows: a row's bits may depend on the row alone. What
the expanded one would take is put together from what there is: a linear that makes keys and values of the latents, of
the whole context in each step because nothing but latents is kept, and attention with as many KV heads as heads. That
has values of 192 dimensions where 128 would do, so its time is counted at (192 + 128) / (192 + 192).

    python -m benchmarks.kernels.latent_forms
    python -m benchmarks.kernels.latent_forms --rows 1 512 --contexts 1024 --kv int8
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from benchmarks.kernels.steps import Case, fill_context, limits, step
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, KvFormat
from tailrace.ops.cpu.stages import AttentionStage, GemmStage, HeadGemmStage, LatentAttentionStage, LatentStoreStage
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int8
from tailrace.ops.program import Program, RopeSpec, Weight

HEADS, LATENT, PLAIN, TURNED, VALUE = 16, 512, 128, 64, 128
NUM_IDS = 512
ABSORBED = (LatentStoreStage, HeadGemmStage, LatentAttentionStage)
LEAST_RUNS, MOST_RUNS, ROWS_OF_RUNS = 3, 60, 2000


def absorbed() -> Program:
    build = ProgramBuilder()
    rope = RopeSpec(tuple(1e4 ** (-2 * i / TURNED) for i in range(TURNED // 2)), interleaved=True)
    out = build.latent_attention(
        build.embed(Weight("q", (NUM_IDS, HEADS * (PLAIN + TURNED)))),
        build.embed(Weight("latent", (NUM_IDS, LATENT + TURNED))),
        build.kv_cache(1, LATENT + TURNED, has_values=False),
        HEADS,
        norm=Weight("norm", (LATENT,)),
        eps=1e-6,
        rope=rope,
        k_b=Weight("k_b", (HEADS * LATENT, PLAIN)),
        v_b=Weight("v_b", (HEADS * VALUE, LATENT)),
        scale=(PLAIN + TURNED) ** -0.5,
        selection=None,
    )
    return build.finish(build.gather_rows(out))


def expanded() -> Program:
    build = ProgramBuilder()
    dim = PLAIN + TURNED
    cache = build.kv_cache(HEADS, dim)
    qkv = build.embed(Weight("qkv", (NUM_IDS, 3 * HEADS * dim)))
    q = build.rope_and_store(qkv, cache, HEADS, RopeSpec((0.0,)))
    return build.finish(build.gather_rows(build.paged_attention(q, cache, HEADS, dim**-0.5)))


def expansion() -> Program:
    build = ProgramBuilder()
    latents = build.embed(Weight("latent", (NUM_IDS, LATENT)))
    out = build.linear(latents, Weight("kv_b", (HEADS * (PLAIN + VALUE), LATENT)))
    return build.finish(build.gather_rows(out))


def random_weights(program: Program) -> dict[str, PackedTensor]:
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=weight.shape).astype(np.float32) for name, weight in program.weights.items()}
    return {
        name: quantize_int8(array) if name.endswith("_b") else from_float32(array) for name, array in values.items()
    }


def measure(
    backend: CpuBackend, program: Program, of: Sequence[Case], stages: tuple[type, ...], num_threads: int
) -> Iterator[float]:
    """Seconds that stages of these kinds take in each case, at best."""
    bounds = limits(of, num_threads)
    executable = backend.load(program, random_weights(program), bounds)
    if program.caches:
        fill_context(executable, bounds, range(NUM_IDS))
    for case in of:
        num_runs = min(max(ROWS_OF_RUNS // case.num_rows, LEAST_RUNS), MOST_RUNS)
        inputs = step(case, bounds, range(NUM_IDS))
        yield min(_seconds(executable.profile(inputs), stages) for _ in range(num_runs))
    executable.close()


def _seconds(profile: Sequence[tuple[object, float]], stages: tuple[type, ...]) -> float:
    return sum(seconds for stage, seconds in profile if isinstance(stage, stages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 512], help="of one sequence, in one step")
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kv", choices=get_args(KvFormat), default="bf16")
    arguments = parser.parse_args()
    backend = CpuBackend(kv_format=arguments.kv)
    of = [Case("", 1, rows, context) for rows in arguments.rows for context in arguments.contexts]
    one_form = list(measure(backend, absorbed(), of, ABSORBED, arguments.threads))
    attention = list(measure(backend, expanded(), of, (AttentionStage,), arguments.threads))
    (linear,) = measure(backend, expansion(), [Case("", 1, 512, 0)], (GemmStage,), arguments.threads)
    print("rows  context   absorbed ms   expanded ms (linear + attention)   absorbed / expanded")
    for case, absorbed_s, attention_s in zip(of, one_form, attention, strict=True):
        linear_ms = linear / 512 * (case.start + case.num_tokens) * 1e3
        attention_ms = attention_s * 1e3 * (PLAIN + TURNED + VALUE) / (2 * (PLAIN + TURNED))
        both_ms = linear_ms + attention_ms
        print(
            f"{case.num_tokens:4}  {case.start:7}   {absorbed_s * 1e3:11.3f}   {both_ms:11.3f}"
            f" ({linear_ms:8.3f} + {attention_ms:8.3f})   {absorbed_s * 1e3 / both_ms:19.2f}"
        )


if __name__ == "__main__":
    main()
