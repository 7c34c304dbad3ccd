"""What the methods of `tailrace quantize` cost in quality: `python -m benchmarks.quality.methods --help`.

Each model foretells 2,000 tokens that no method has seen, in float32 arithmetic on its weights, so that what is lost
is lost by rounding alone: the default model the opening of a novel, tiny-deepseek the end of one. Methods that look at
a text look at the one that comes with Tailrace.

The default model is published at 4 bits: its values lie on a grid that rounding to nearest finds again. Here each is
moved by up to half a step of its grid, drawn at random: where it may have been before it was rounded. That is a worse
model, and one that nobody has rounded yet.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine
from tailrace.ops.packed import GROUP, PackedTensor
from tailrace.quantizing.awq import Awq
from tailrace.quantizing.calibration import calibrated
from tailrace.quantizing.gptq import Gptq
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO
from tailrace.quantizing.perplexity import foretell, perplexity
from tailrace.quantizing.plan import Target, make_plan
from tailrace.quantizing.rounding import rounded
from tailrace.quantizing.source import Made, Source, open_source
from tailrace.quantizing.text import TextReader
from tailrace.weights.load import open_checkpoint
from tailrace.weights.stored import FileTensor
from tests.support.oracle import Prose

MODELS = {"default": "default_model", "tiny-deepseek": "tiny_deepseek"}
METHODS = ("rtn", "awq", "gptq")
GRIDS = {"GGUF": INT4, "compressed-tensors": INT4_WITH_ZERO}
EXAMPLES = """examples:
  python -m benchmarks.quality.methods
  python -m benchmarks.quality.methods --models tiny-deepseek --methods rtn gptq --json
"""


@dataclass(frozen=True, slots=True)
class Line:
    """`perplexity_change` is relative to the model before; `seconds` is what quantising took."""

    model: str
    layout: str
    method: str
    perplexity: float
    perplexity_change: float
    seconds: float


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.methods",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS), help="all by default")
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS), help="all by default")
    parser.add_argument("--layouts", choices=GRIDS, nargs="+", default=list(GRIDS), help="all by default")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def open_model(name: str) -> Source:
    source = open_source(open_checkpoint(name))
    return moved_off_its_grid(source) if name == "default" else source


def moved_off_its_grid(source: Source) -> Source:
    """A model of floats, each of whose 4-bit values lies somewhere in the step that would be rounded to it."""
    rng, moved = np.random.default_rng(0), dict(source.tensors)
    for name, tensor in source.tensors.items():
        if tensor.format == "q4":
            packed = tensor.packed()
            assert packed.scales is not None
            steps = np.repeat(packed.scales.astype(np.float32), GROUP, axis=1)
            values = packed.dequantize() + steps * (rng.random(packed.shape, np.float32) - np.float32(0.5))
            moved[name] = Made(tensor.shape, PackedTensor(packed.shape, "f16", values.astype(np.float16)), tensor.where)
    return replace(source, tensors=moved)


def quantized(source: Source, method: str, layout: str) -> dict[str, FileTensor]:
    """The int4 model in memory, by names of the file; embedding and head take 8 bits, as in a GGUF file."""
    plan = make_plan(source, "int4", is_scaling=method == "awq")
    targets: dict[str, Target] = {name: GRIDS[layout] if grid == INT4 else grid for name, grid in plan.items()}
    return dict(_made(source, targets, method))


def _made(source: Source, plan: Mapping[str, Target], method: str) -> Iterator[tuple[str, FileTensor]]:
    if method == "rtn":
        return rounded(source, plan, _silent)
    token_ids = TextReader.of(source.checkpoint).calibration(None)
    return calibrated(source, plan, token_ids, Awq() if method == "awq" else Gptq(), _silent)


def _silent(_done: int, _total: int) -> None:
    """Progress is told line by line."""


def measure(source: Source, made: Mapping[str, FileTensor], name: str) -> float:
    ids = np.array([Prose.read(MODELS[name]).token_ids])
    return perplexity(foretell(source.program, source.reader(made), ids, _silent))


def measure_all(arguments: argparse.Namespace) -> Iterator[Line]:
    for name in arguments.models:
        source = open_model(name)
        before = measure(source, {}, name)
        yield Line(name, "", "before", before, 0.0, 0.0)
        for layout in arguments.layouts:
            for method in arguments.methods:
                sys.stderr.write(f"{name}, {layout}, {method}\n")
                started_s = time.monotonic()
                made = quantized(source, method, layout)
                seconds = time.monotonic() - started_s
                after = measure(source, made, name)
                yield Line(name, layout, method, after, after / before - 1, seconds)


def show(lines: Sequence[Line]) -> None:
    table = Table(
        "model", "int4 as in", "method", title="2,000 tokens of prose, float32 arithmetic", title_justify="left"
    )
    for heading in ("perplexity", "change", "seconds"):
        table.add_column(heading, justify="right")
    for line in lines:
        is_first = line.method == "before"
        change, seconds = ("", "") if is_first else (f"{line.perplexity_change:+.2%}", f"{line.seconds:.0f}")
        table.add_row(line.model, line.layout, line.method, f"{line.perplexity:.3f}", change, seconds)
    Console(width=None if sys.stdout.isatty() else 100).print(table)


def main() -> None:
    arguments = parse_arguments()
    lines = list(measure_all(arguments))
    if arguments.json:
        json.dump({"machine": describe_machine(), "lines": [asdict(line) for line in lines]}, sys.stdout)
        print()
        return
    show(lines)


if __name__ == "__main__":
    main()
