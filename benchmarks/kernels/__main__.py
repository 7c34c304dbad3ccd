"""Measures the CPU back end op by op: `python -m benchmarks.kernels --help`.

Each row is one kind of op in one step: its time, the bytes of weights and KV it reads a second, its multiplies and adds
a second, and both as shares of what the same threads reach in the same run when they only read, or only multiply.
Times are those of the quickest of several steps, since neighbours on the machine can only add to them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.kernels.shapes import MODELS, Model
from benchmarks.serving.machine import describe_machine
from tailrace.models.registry import build_program
from tailrace.ops.api import Limits, StepInputs, Weight
from tailrace.ops.cpu import Ceilings, CpuBackend, CpuExecutable, measure_ceilings
from tailrace.ops.lowering import AttentionStage, GatedStage, GemmStage, Stage
from tailrace.ops.packed import PackedTensor

BLOCK_TOKENS = 32
CONTEXT_TOKENS = 256  # that each decoding sequence sees
MAX_DECODING = 64


@dataclass(frozen=True, slots=True)
class Case:
    """`num_sequences` sequences compute `num_tokens` tokens each, behind `start` tokens in their cache."""

    name: str
    num_sequences: int
    num_tokens: int
    start: int

    @property
    def num_rows(self) -> int:
        return self.num_sequences * self.num_tokens


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op had to read and to compute in a step."""

    num_bytes: float = 0
    num_ops: float = 0


@dataclass(frozen=True, slots=True)
class Line:
    case: str
    op: str
    time_ms: float
    gbytes_per_s: float
    gops_per_s: float
    read_share: float
    dot_share: float


def cases(rows: Sequence[int]) -> Iterator[Case]:
    for count in rows:
        if count <= MAX_DECODING:
            yield Case(f"decode {count}", count, 1, CONTEXT_TOKENS)
        else:
            yield Case(f"prefill {count}", 1, count, 0)


def limits(rows: Sequence[int], num_threads: int) -> Limits:
    tokens = max(*rows, MAX_DECODING)
    per_sequence = -(-max(tokens, CONTEXT_TOKENS + 1) // BLOCK_TOKENS)
    return Limits(
        max_tokens=tokens,
        max_samples=MAX_DECODING,
        max_sequences=MAX_DECODING,
        max_model_tokens=per_sequence * BLOCK_TOKENS,
        num_blocks=per_sequence * MAX_DECODING,
        block_tokens=BLOCK_TOKENS,
        num_threads=num_threads,
    )


def step(case: Case, of: Limits) -> StepInputs:
    blocks = np.arange(of.num_blocks, dtype=np.int32).reshape(of.max_sequences, -1)
    starts = np.arange(case.num_sequences + 1, dtype=np.int32) * np.int32(case.num_tokens)
    return StepInputs(
        token_ids=np.arange(case.num_rows, dtype=np.int32) * np.int32(37) % np.int32(40_000),
        row_starts=starts,
        starts=np.full(case.num_sequences, case.start, np.int32),
        slots=np.arange(case.num_sequences, dtype=np.int32),
        block_tables=blocks,
        sample_rows=starts[1:] - np.int32(1),
    )


def op_name(stage: Stage) -> str:
    match stage:
        case GemmStage(weights=weights):
            return "linear " + "+".join(weight.name.rsplit(".", 1)[-1] for weight in weights)
        case GatedStage():
            return "linear gate+up, swiglu"
        case _:
            return type(stage).__name__.removesuffix("Stage").lower()


def cost(stage: Stage, case: Case, model: Model) -> Cost:
    match stage:
        case GemmStage(weights=used, out=out):
            rows = case.num_rows if out.tensor.rows == "tokens" else case.num_sequences
            return linear_cost(used, rows, model.weights)
        case GatedStage(gate=gate, up=up):
            return linear_cost((gate, up), case.num_rows, model.weights)
        case AttentionStage():
            seen = case.num_sequences * sum(case.start + token + 1 for token in range(case.num_tokens))
            config = model.config
            read = case.num_sequences * (case.start + case.num_tokens)
            return Cost(
                num_bytes=read * 2 * config.num_kv_heads * config.head_dim * 2,
                num_ops=seen * config.num_heads * config.head_dim * 4,
            )
        case _:
            return Cost()


def linear_cost(used: Sequence[Weight], rows: int, weights: dict[str, PackedTensor]) -> Cost:
    return Cost(
        num_bytes=sum(weights[weight.name].num_bytes for weight in used),
        num_ops=sum(2 * rows * weight.shape[0] * weight.shape[1] for weight in used),
    )


def measure(
    executable: CpuExecutable, case: Case, of: Limits, model: Model, ceilings: Ceilings, *, repeats: int
) -> Iterator[Line]:
    """Where the time of a step goes; no stage is taken apart from its run: one thread's gain may be another's loss."""
    runs = [executable.profile(step(case, of)) for _ in range(repeats)]
    times: dict[str, float] = {}
    costs: dict[str, list[Cost]] = {}
    for stage, seconds in min(runs, key=lambda run: sum(seconds for _, seconds in run)):
        times[op_name(stage)] = times.get(op_name(stage), 0.0) + seconds
        costs.setdefault(op_name(stage), []).append(cost(stage, case, model))
    times["whole step"] = sum(times.values())
    costs["whole step"] = [one for many in costs.values() for one in many]
    for op, time in times.items():
        read = sum(one.num_bytes for one in costs[op]) / time
        ops = sum(one.num_ops for one in costs[op]) / time
        shares = read / ceilings.read_bytes_per_s, ops / ceilings.dot_ops_per_s
        yield Line(case.name, op, time * 1e3, read / 1e9, ops / 1e9, *shares)


def show(lines: Sequence[Line], title: str) -> None:
    table = Table("step", "op", "ms", "GB/s", "of reading", "GOP/s", "of int8 dots", title=title)
    previous = ""
    for line in lines:
        if previous not in ("", line.case):
            table.add_section()
        has_cost = line.gops_per_s > 0
        figures = (
            f"{line.gbytes_per_s:.1f}",
            f"{line.read_share:.0%}",
            f"{line.gops_per_s:.0f}",
            f"{line.dot_share:.0%}",
        )
        table.add_row(
            line.case if line.case != previous else "", line.op, f"{line.time_ms:.3f}", *(figures if has_cost else ())
        )
        previous = line.case
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="smollm2-135m")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 32, 512], help="above 64: one prompt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--isa", default=None, help="as in TAILRACE_CPU_ISA; the best by default")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    model, of = Model.random(MODELS[args.model]), limits(args.rows, args.threads)
    backend = CpuBackend(args.isa)
    executable = backend.load(build_program(model.config), model.weights, of)
    ceilings = measure_ceilings(args.threads, 96 * 2**20, backend.isa)
    lines = [
        line
        for case in cases(args.rows)
        for line in measure(executable, case, of, model, ceilings, repeats=args.repeats)
    ]
    if args.json:
        json.dump({"ceilings": asdict(ceilings), "lines": [asdict(line) for line in lines]}, sys.stdout, indent=1)
        return
    reads, dots = ceilings.read_bytes_per_s / 1e9, ceilings.dot_ops_per_s / 1e9
    show(
        lines,
        f"{args.model}, {args.threads} threads, {backend.isa}, {describe_machine()}\n"
        f"ceilings of this run: {reads:.1f} GB/s from 96 MiB, {dots:.0f} int8 GOP/s",
    )


if __name__ == "__main__":
    main()
