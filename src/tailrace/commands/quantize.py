"""`tailrace quantize`: writes a model with narrower weights, and says what that costs."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Literal

import msgspec
from cyclopts import App
from cyclopts.types import NonNegativeInt
from rich.console import Console
from rich.table import Table

from tailrace.commands.download import fetch_default_model
from tailrace.commands.loading import LoadingBar
from tailrace.commands.quantity import format_bytes
from tailrace.quantizing.quantize import Job, QuantizeReport, default_output
from tailrace.quantizing.quantize import quantize as quantize_model
from tailrace.weights.load import open_checkpoint

__all__ = ["quantize"]

quantize = App(
    name="quantize",
    help_epilogue="Examples:\n"
    "  tailrace quantize ./model --to int4\n"
    "  tailrace quantize ./model --to int4 --method gptq --calibrate ./mine.txt --output ./model-int4\n"
    "  tailrace quantize ./model.gguf --to int8 --json",
)


@quantize.default
def run(
    model: str,
    /,
    *,
    to: Literal["int8", "int4"],
    method: Literal["rtn", "awq", "gptq"] = "rtn",
    calibrate: Path | None = None,
    output: Path | None = None,
    force: bool = False,
    perplexity_tokens: NonNegativeInt = 2000,
    json: bool = False,
) -> None:
    """Write a model with narrower weights, and show what that costs.

    A directory becomes one of compressed-tensors, a GGUF file a GGUF file of Q8_0 or Q4_1: 'tailrace serve OUTPUT'
    reads either. Routers and norms stay as they are; embedding and head take 8 bits in a GGUF file, and stay as they
    are in a directory.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face directory, a hub id or tiny-deepseek.
    to
        How wide matrices become: in groups of 32, 8 bits symmetric or 4 bits with offsets.
    method
        rtn rounds to nearest; awq first scales what matters most up; gptq lets later weights make up for what earlier
        ones lost. The last two look at a text.
    calibrate
        The text they look at, UTF-8: 4,096 tokens of it [a text that comes with Tailrace].
    output
        Where to write [beside you, named after model, width and method].
    force
        Replace what is there.
    perplexity_tokens
        Tokens of a text kept from calibration on which perplexity is measured, before and after; 0 measures nothing.
    json
        Write JSON.
    """
    fetch_default_model(model)
    checkpoint = open_checkpoint(model)
    job = Job(to, method, calibrate, perplexity_tokens)
    with _ended_by_signals():
        report = quantize_model(checkpoint, job, output or default_output(checkpoint, job), _Bars(), may_replace=force)
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report.to_dict())).decode() + "\n")
    else:
        Console(highlight=False, markup=False).print(_overview(report))


class _Bars:
    """A bar for each stage."""

    def __init__(self) -> None:
        self._stages: dict[str, LoadingBar] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._stages:
            self._stages[what] = LoadingBar(what)
        self._stages[what](done, total)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does: what was half written is removed."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _overview(report: QuantizeReport) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(report):
        table.add_row(name, value)
    return table


def _rows(report: QuantizeReport) -> Iterator[tuple[str, str]]:
    yield "model", report.model
    yield "output", report.output
    yield "weights", f"{report.to}, {report.method}"
    yield "size", f"{format_bytes(report.output_bytes)}, from {format_bytes(report.source_bytes)}"
    if report.perplexity_before is not None and report.perplexity_after is not None:
        change = report.perplexity_after / report.perplexity_before - 1
        of = f"of {report.held_out_tokens:,} tokens that no method has seen"
        yield "perplexity", f"{report.perplexity_before:.3f} -> {report.perplexity_after:.3f} ({change:+.2%}), {of}"
    yield "took", f"{report.seconds:.1f} s"
    for note in report.notes:
        yield "note", note
