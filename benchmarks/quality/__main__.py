"""What weight and KV formats cost in quality: `make bench-quality`, or `python -m benchmarks.quality --help`.

A model reads 2,000 tokens of a novel. The truth is float32 arithmetic on the weights as shipped, for the default model
computed by transformers (tests/oracle/data/README.md); each line is the CPU back end with other formats: its
perplexity, how far that is from the truth's, and how often it thinks the same next token the best. All weights but
those as shipped are made from the dequantised ones, so int4 of a model that is shipped in 4 bits is quantised twice.

--combinations measures the maps of `--quantize` that the README has. --record writes what the KV formats cost, on the
weights as shipped, to the file that `tailrace inspect` shows.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.quality.combinations import COMBINATIONS, kv_of, prose_of, weights_of
from benchmarks.quality.variants import AS_SHIPPED, BFLOAT16, ConvertedTensors, read_variant
from benchmarks.serving.machine import describe_machine
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, KvFormat, supported_isas
from tailrace.weights.kv_costs import QUALITY_FILE
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose
from tests.support.predictions import PROSE_LIMITS, predict

KV_FORMATS: tuple[KvFormat, ...] = get_args(KvFormat)
EXAMPLES = """examples:
  python -m benchmarks.quality
  python -m benchmarks.quality --weights int4 int4,attention=int8 --kv bf16 --isa avx2 --json
  python -m benchmarks.quality --combinations --model tiny-deepseek
  python -m benchmarks.quality --record
"""


@dataclass(frozen=True, slots=True)
class Quality:
    """`perplexity_change` is relative to float32 on the weights as shipped."""

    weights: str
    kv: str
    weight_bytes: int
    perplexity: float
    perplexity_change: float
    top1_agreement: float


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", choices=COMBINATIONS, default="default")
    parser.add_argument(
        "--weights",
        nargs="+",
        default=[AS_SHIPPED, BFLOAT16, "int8", "int4"],
        help=f"{AS_SHIPPED!r}, {BFLOAT16}, or as --quantize takes it",
    )
    parser.add_argument("--kv", choices=KV_FORMATS, nargs="+", default=list(KV_FORMATS), help="all by default")
    parser.add_argument("--isa", choices=supported_isas(), help="the best by default, or TAILRACE_CPU_ISA")
    parser.add_argument(
        "--combinations", action="store_true", help="instead of --weights and --kv: those of the README"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true")
    output.add_argument("--record", action="store_true", help=f"write {QUALITY_FILE.name} for `tailrace inspect`")
    arguments = parser.parse_args(words)
    if arguments.record:
        arguments.model, arguments.weights, arguments.kv = "default", [AS_SHIPPED], list(KV_FORMATS)
    return arguments


def measure(model: str, weights: str, kv: KvFormat, isa: str | None, prose: Prose) -> Quality:
    checkpoint = open_checkpoint(model)
    tensors = ConvertedTensors(checkpoint.tensors, read_variant(weights))
    executable = CpuBackend(isa, kv).load(build_program(checkpoint.config), tensors, PROSE_LIMITS)
    predicted = predict(executable, prose)
    ratio = predicted.perplexity_ratio(prose)
    agreement = predicted.agreement(prose)
    weight_bytes = executable.weight_bytes
    executable.close()
    return Quality(weights, kv, weight_bytes, predicted.perplexity, ratio - 1, agreement)


def measure_all(arguments: argparse.Namespace, prose: Prose) -> Iterator[Quality]:
    chosen: list[tuple[str, KvFormat]] = [(weights, kv) for weights in arguments.weights for kv in arguments.kv]
    if arguments.combinations:
        chosen = [(weights_of(words), kv_of(words)) for words in COMBINATIONS[arguments.model]]
    for number, (weights, kv) in enumerate(chosen, start=1):
        sys.stderr.write(f"{number} of {len(chosen)}: weights {weights}, KV {kv}\n")
        yield measure(arguments.model, weights, kv, arguments.isa, prose)


def show(lines: Sequence[Quality], prose: Prose, isa: str) -> None:
    table = Table("weights", "KV", title=f"{len(prose.logprobs):,} tokens of prose, {isa}", title_justify="left")
    for heading in ("packed MB", "perplexity", "against float32", "same best token"):
        table.add_column(heading, justify="right")
    truth = float(np.exp(-prose.logprobs.mean(dtype=np.float64)))
    table.add_row("float32 arithmetic", "f32", "", f"{truth:.3f}", "", "", end_section=True)
    for line in lines:
        figures = f"{line.perplexity:.3f}", f"{line.perplexity_change:+.2%}", f"{line.top1_agreement:.2%}"
        table.add_row(line.weights, line.kv, f"{line.weight_bytes / 1e6:.0f}", *figures)
    Console(width=None if sys.stdout.isatty() else 100).print(table)


def record(lines: Sequence[Quality], prose: Prose, isa: str, to: Path = QUALITY_FILE) -> None:
    """What tailrace.weights.kv_costs reads."""
    checkpoint = open_checkpoint("default")
    measured = {
        "command": "python -m benchmarks.quality --record",
        "model": checkpoint.name,
        "fingerprint": checkpoint.fingerprint,
        "num_tokens": len(prose.logprobs),
        "machine": describe_machine(),
        "isa": isa,
        "lines": [asdict(line) for line in lines],
    }
    to.write_text(json.dumps(measured, indent=2) + "\n")


def main() -> None:
    arguments = parse_arguments()
    prose = prose_of(arguments.model, open_checkpoint(arguments.model))
    isa = CpuBackend(arguments.isa).isa
    lines = list(measure_all(arguments, prose))
    if arguments.json:
        json.dump({"machine": describe_machine(), "isa": isa, "lines": [asdict(line) for line in lines]}, sys.stdout)
        print()
        return
    show(lines, prose, isa)
    if arguments.record:
        record(lines, prose, isa)


if __name__ == "__main__":
    main()
