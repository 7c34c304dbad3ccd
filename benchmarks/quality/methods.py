"""What the methods of `tailrace quantize` cost in quality: `python -m benchmarks.quality.methods --help`.

Each model foretells 2,000 tokens that no method has seen, in float32 arithmetic on its weights, so that what is lost
is lost by rounding alone: the default model the opening of a novel, tiny-deepseek the end of one. Methods that look at
a text look at the one that comes with Tailrace.

The default model is published at 4 bits: its values lie on a grid that rounding to nearest finds again. Here each two
numbers of the stream between layers are turned by an angle drawn at random, with all that reads and writes them: the
same model, to the last digit that is shown, in values that nobody has rounded.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine
from tailrace.ops.packed import PackedTensor
from tailrace.quantizing.awq import Awq
from tailrace.quantizing.calibration import calibrated
from tailrace.quantizing.gptq import Gptq
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO
from tailrace.quantizing.perplexity import foretell, perplexity
from tailrace.quantizing.plan import Target, make_plan
from tailrace.quantizing.rounding import rounded
from tailrace.quantizing.source import Made, Source, open_source
from tailrace.quantizing.text import TextReader
from tailrace.weights.checkpoint import Checkpoint
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
    checkpoint = open_checkpoint(name)
    return turned(checkpoint) if name == "default" else open_source(checkpoint)


def turned(checkpoint: Checkpoint) -> Source:
    """A Llama whose stream x [hidden] is x Q for a rotation Q of pairs, and whose head is a matrix of its own.

    What writes to it becomes Q^T W. What reads it behind a norm of weight n becomes W diag(n) Q diag(1 / m) behind a
    norm of weight m, for any m: a norm's mean square is that of the turned stream. Here m is as large as n, turned.
    """
    read = open_source(checkpoint).reader()
    untied = open_source(replace(checkpoint, config=replace(checkpoint.config, tie_word_embeddings=False)))
    turn, tied = Turn.drawn(checkpoint.config.hidden_size), checkpoint.config.tie_word_embeddings
    tensors = dict(untied.tensors)
    for file_name, place in untied.places.items():
        name = "embed" if tied and place.weight == "head" else place.weight
        values = read(name, 0, untied.program.weights[place.weight].shape[0])
        norm = _NORMS.get(place.role)
        if norm is not None:
            weight = read(place.weight.removesuffix(place.role) + norm, 0, values.shape[1])
            values = turn.columns(values * weight) / turn.norm(weight)
        elif place.role in ("o", "down"):
            values = turn.columns(values.T).T
        else:
            values = turn.columns(values) if values.ndim == 2 else turn.norm(values)
        tensors[file_name] = Made(values.shape, PackedTensor(values.shape, "f16", values.astype(np.float16)), file_name)
    return replace(untied, tensors=tensors)


_NORMS = {**dict.fromkeys("qkv", "attention_norm"), "gate": "mlp_norm", "up": "mlp_norm", "head": "norm"}


@dataclass(frozen=True, slots=True)
class Turn:
    """Number i and number i + hidden / 2 turn by an angle of their own."""

    cos: NDArray[np.float32]
    sin: NDArray[np.float32]

    @classmethod
    def drawn(cls, hidden: int) -> "Turn":
        angles = np.random.default_rng(0).uniform(0, 2 * np.pi, hidden // 2)
        return cls(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))

    def columns(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """values Q."""
        first, second = np.split(values, 2, axis=1)
        return np.concatenate(
            [first * self.cos - second * self.sin, first * self.sin + second * self.cos], axis=1, dtype=np.float32
        )

    def norm(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """The weight of a norm as large as this one: root mean squares, as the turn mixes them."""
        first, second = np.split(np.square(weight), 2)
        cos, sin = np.square(self.cos), np.square(self.sin)
        mixed: NDArray[np.float32] = np.sqrt(np.concatenate([first * cos + second * sin, first * sin + second * cos]))
        return mixed


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
