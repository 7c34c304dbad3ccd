"""`tailrace inspect`: what a model file holds and what it needs."""

import sys
from collections.abc import Iterator
from typing import Literal

import msgspec
from cyclopts import App
from cyclopts.types import PositiveInt
from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table

from tailrace.commands.download import fetch_default_model
from tailrace.commands.quantity import format_bytes
from tailrace.models.config import MixtureConfig
from tailrace.weights.inspection import ModelReport, inspect_checkpoint
from tailrace.weights.load import open_checkpoint
from tailrace.weights.tensor_classes import TensorClass

__all__ = ["inspect"]

inspect = App(
    name="inspect",
    help_epilogue="Examples:\n  tailrace inspect\n  tailrace inspect ./model.gguf --json",
)


@inspect.default
def run(
    model: str | None = None,
    /,
    *,
    context: PositiveInt | None = None,
    quantize: Literal["int8", "int4"] | None = None,
    json: bool = False,
) -> None:
    """Show what a model file holds and what it needs.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face directory, a hub id or tiny-deepseek [the embedded default model].
    context
        Tokens of the context to give memory for [all that the model can take].
    quantize
        As for 'tailrace serve': shows sizes and errors after it.
    json
        Write JSON.
    """
    fetch_default_model(model)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Reading tensors", total=None)
        report = inspect_checkpoint(
            open_checkpoint(model, quantize=quantize),
            context_tokens=context,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report.to_dict())).decode() + "\n")
    else:
        Console(highlight=False, markup=False).print(Group(_overview(report), "", _tensors(report)))


def _overview(report: ModelReport) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(report):
        table.add_row(name, value)
    return table


def _rows(report: ModelReport) -> Iterator[tuple[str, str]]:
    yield "model", report.name
    yield "file", report.source
    yield "architecture", f"{report.architecture}, {report.num_layers} layers, {report.parameters:,} parameters"
    yield "sizes", f"hidden {report.hidden_size}, MLP {report.intermediate_size}, vocabulary {report.vocab_size:,}"
    yield "attention", _attention(report)
    if report.sparse is not None:
        yield (
            "index",
            f"{report.sparse.num_heads} heads, {report.sparse.head_dim} wide, keeps {report.sparse.top_k:,} tokens",
        )
    if report.mixture is not None:
        yield "experts", _experts(report, report.mixture)
        yield "parameters in use", f"{report.active_parameters:,} for a token"
    if report.num_mtp_layers:
        state = "loaded" if report.is_mtp_loaded else "not loaded"
        yield "multi-token prediction", f"in the file, {state}; layers: {report.num_mtp_layers}"
    yield "positions", f"{report.rope}, up to {report.max_model_tokens:,} tokens"
    yield "embedding", "also the output head" if report.is_tied else "separate from the output head"
    yield "chat template", "yes" if report.has_chat_template else "none"
    yield "weights", f"{format_bytes(report.weight_bytes)} in memory, {format_bytes(report.stored_bytes)} in the file"
    yield "KV per token", format_bytes(report.kv_bytes_per_token)
    yield f"KV of {report.context_tokens:,} tokens", format_bytes(report.kv_bytes_at_context)
    yield "memory needed", f"{format_bytes(report.memory_bytes)} for one request of that length"


def _attention(report: ModelReport) -> str:
    sizes = report.latent
    if sizes is None:
        return f"{report.num_heads} heads, {report.num_kv_heads} of keys and values, {report.head_dim} wide"
    queries = "" if sizes.query_latent_dim is None else f", queries from {sizes.query_latent_dim}"
    return (
        f"{report.num_heads} heads of {sizes.plain_dim} + {sizes.rope_dim} turned, values of {sizes.value_dim}; "
        f"latents of {sizes.latent_dim} + {sizes.rope_dim}{queries}"
    )


def _experts(report: ModelReport, mixture: MixtureConfig) -> str:
    routing = mixture.routing
    groups = f" from {routing.top_groups} of {routing.num_groups} groups" if routing.num_groups > 1 else ""
    return (
        f"{routing.num_experts} in each of {report.num_mixture_layers} layers, {mixture.expert_size} wide: "
        f"{routing.top_k} used{groups}, {mixture.num_shared} shared"
    )


def _tensors(report: ModelReport) -> Table:
    table = Table("tensors", "count", "parameters", "in memory", "format", "error", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:4]:
        column.justify = "right"
    for part in report.tensors:
        table.add_row(
            part.name,
            str(part.num_tensors),
            f"{part.parameters:,}",
            format_bytes(part.bytes),
            _formats(part),
            "" if part.requantize_error is None else f"{part.requantize_error:.2%}",
        )
    return table


def _formats(part: TensorClass) -> str:
    """`Q4_1` where a format is kept, `Q6_K -> int8` where it is not, with counts where there are several."""
    names = [stored if stored == loaded else f"{stored} -> {loaded}" for stored, loaded, _ in part.formats]
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{count} {name}" for name, (_, _, count) in zip(names, part.formats, strict=True))
