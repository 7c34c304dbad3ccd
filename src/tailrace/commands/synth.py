"""`tailrace bench synth`: what a model would cost on this machine, found without having it."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from cyclopts import App
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.console import Group, RenderableType
from rich.table import Table

from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.loading import LoadingBar
from tailrace.commands.quantity import format_bytes
from tailrace.config import EngineConfig, KvCacheDtype
from tailrace.measure.report import DecodeReport, ShapeReport
from tailrace.measure.shape import Shape, measure_shape
from tailrace.measure.streams import Workload
from tailrace.weights.synthetic import SyntheticFormat
from tailrace.weights.synthetic_checkpoint import synthetic_tensors
from tailrace.weights.synthetic_gguf import write_gguf
from tailrace.weights.synthetic_shapes import SHAPES

__all__ = ["synth"]

synth = App(
    name="synth",
    help_epilogue="Examples:\n"
    "  tailrace bench synth deepseek-v2-lite\n"
    "  tailrace bench synth r1-distill-qwen-1.5b --quantize int8 --threads 4 --json\n"
    "  tailrace bench synth deepseek-v2-lite --gguf ./weights.gguf\n\n"
    f"Shapes: {', '.join(SHAPES)}",
)


@synth.default
def run(
    shape: str,
    /,
    *,
    quantize: SyntheticFormat = "int4",
    streams: PositiveInt = 8,
    prompt_tokens: PositiveInt = 512,
    output_tokens: PositiveInt = 64,
    rounds: PositiveInt = 3,
    threads: PositiveInt | None = None,
    kv_cache_dtype: KvCacheDtype | None = None,
    backend: Literal["auto", "cpu", "reference"] = "auto",
    seed: NonNegativeInt = 0,
    json: JsonTarget = None,
    gguf: Path | None = None,
) -> None:
    """Measure a model that is not here: its shape, filled with random weights, runs through the engine.

    Parameters
    ----------
    shape
        Which model: see below.
    quantize
        How the weights are packed; embedding and head take 8 bits at least.
    streams
        How many are measured at a time, besides one alone.
    prompt_tokens
        Tokens of each prompt: what streams see before their first token.
    output_tokens
        Tokens of each stream.
    rounds
        How often streams are measured, each time beside the rate at which memory is read just then.
    threads
        Threads that compute [one for each CPU].
    kv_cache_dtype
        How keys and values are kept [bf16].
    backend
        What computes.
    seed
        Gives other weights.
    json
        Write JSON to a file, or, without a name, to standard output.
    gguf
        Measure nothing: write the weights to this file, for other engines to be measured with.
    """
    if gguf is not None:
        write_gguf(synthetic_tensors(shape, quantize, seed), gguf, LoadingBar("Writing the weights"))
        sys.stderr.write(f"Wrote {gguf}, {format_bytes(gguf.stat().st_size)}\n")
        return
    report = measure_shape(
        Shape(shape, quantize, seed),
        Workload(streams, prompt_tokens, output_tokens, rounds),
        EngineConfig(backend=backend, num_threads=threads, kv_cache_dtype=kv_cache_dtype),
        progress=LoadingBar(),
        say=_say,
    )
    show_figures(_render(report), report.to_dict(), json)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{what} ...\n")


def _render(report: ShapeReport) -> RenderableType:
    return Group(_overview(report), "", _decodes(report.decodes))


def _overview(report: ShapeReport) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(report):
        table.add_row(name, value)
    return table


def _rows(report: ShapeReport) -> Iterator[tuple[str, str]]:
    yield "shape", f"{report.name}, {report.parameters / 1e9:.2f} B parameters, random"
    yield "weights", f"{report.weights}, {report.weight_bytes / 1e9:.2f} GB as packed"
    yield "back end", f"{report.back_end}, {report.num_threads} threads"
    yield "loaded", f"in {report.load_s:.1f} s, drawing included"
    rate = f"{report.prompt_tokens_per_s:.1f} tok/s"
    yield "prompt", f"{report.prompt_tokens} tokens in {report.prefill_ms:.1f} ms, {rate}"


def _decodes(decodes: Sequence[DecodeReport]) -> Table:
    headings = ("streams", "context", "steps", "tok/s", "ITL ms", "p90", "MB read", "at GB/s", "floor ms", "ratio")
    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.justify = "right"
    for one in decodes:
        table.add_row(*_cells(one))
    return table


def _cells(one: DecodeReport) -> Iterator[str]:
    yield from (str(one.num_streams), f"{one.context_tokens:,}", str(one.num_steps), f"{one.tokens_per_s:.1f}")
    yield from (f"{one.itl_p50_ms:.2f}", f"{one.itl_p90_ms:.2f}", f"{one.read_bytes / 1e6:,.0f}")
    yield "-" if one.read_bytes_per_s is None else f"{one.read_bytes_per_s / 1e9:.1f}"
    yield "-" if one.floor_ms is None else f"{one.floor_ms:.2f}"
    yield "-" if one.floor_ratio is None else f"{one.floor_ratio:.2f}"
