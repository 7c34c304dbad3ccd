"""`tailrace inspect`: what a model file holds and what it needs."""

import sys
from collections.abc import Iterator

import msgspec
from cyclopts import App
from cyclopts.types import PositiveInt
from rich.console import Console, Group
from rich.progress import Progress
from rich.table import Table

from tailrace.commands.download import fetch_default_model
from tailrace.commands.precision import PrecisionWords
from tailrace.commands.quantity import format_bytes
from tailrace.errors import ModelError
from tailrace.models.config import MixtureConfig
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.inspection import ModelReport, inspect_checkpoint
from tailrace.weights.load import open_checkpoint
from tailrace.weights.precision import Precision
from tailrace.weights.tensor_classes import TensorClass

__all__ = ["inspect"]

inspect = App(
    name="inspect",
    help_epilogue="Examples:\n  tailrace inspect\n  tailrace inspect ./model.gguf --json\n"
    "  tailrace inspect owner/name --quantize int4,attention=int8,kv=int8",
)


@inspect.default
def run(
    model: str | None = None,
    /,
    *,
    context: PositiveInt | None = None,
    quantize: PrecisionWords | None = None,
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
        How wide weights are kept in memory: int8 or int4 narrows what is wider, float is what the file has, exactly.
        Classes by name, such as int4,head=int8,attention=float: attention, dense, experts, shared, index, head, embed;
        kv=int8 is how keys and values are kept. A class that the model lacks is refused [as in the file; under int4, 8
        bits for head and embed; routers and norms never narrowed].
    json
        Write JSON.
    """
    precision = Precision.of(quantize)
    fetch_default_model(model)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Reading tensors", total=None)
        checkpoint = open_checkpoint(model, quantize=precision)
        report = inspect_checkpoint(
            checkpoint,
            context_tokens=context,
            precision=precision,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    refusal = _tokenizer_refusal(checkpoint)
    if json:
        data = report.to_dict() | {"tokenizer_refusal": refusal}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(data)).decode() + "\n")
    else:
        Console(highlight=False, markup=False).print(
            Group(_overview(report, refusal), "", _kv_costs(report), "", _classes(report), "", _tensors(report))
        )


def _tokenizer_refusal(checkpoint: Checkpoint) -> str | None:
    """Why the model's text cannot be read or written; None: it can."""
    try:
        Tokenizer.from_source(checkpoint.tokenizer)
    except ModelError as error:
        return str(error)
    return None


def _overview(report: ModelReport, tokenizer_refusal: str | None) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(report, tokenizer_refusal):
        table.add_row(name, value)
    return table


def _rows(report: ModelReport, tokenizer_refusal: str | None) -> Iterator[tuple[str, str]]:
    yield "model", report.name
    yield "file", report.source
    yield "architecture", f"{report.architecture}, {_layers(report.num_layers)}, {report.parameters:,} parameters"
    yield "sizes", f"hidden {report.hidden_size}, MLP {report.intermediate_size}, vocabulary {report.vocab_size:,}"
    yield "attention", _attention(report)
    if report.num_sliding_layers:
        yield "window", _window(report)
    if report.sparse is not None:
        yield (
            "index",
            f"{report.sparse.num_heads} heads, {report.sparse.head_dim} wide, keeps {report.sparse.top_k:,} tokens",
        )
    if report.mixture is not None:
        yield "experts", _experts(report, report.mixture)
        yield "parameters in use", f"{report.active_parameters:,} for a token"
    if report.num_mtp_layers:
        state = "loaded" if report.is_mtp_loaded else "not loaded, and not among the parameters"
        yield "multi-token prediction", f"in the file, {state}; layers: {report.num_mtp_layers}"
    yield "positions", f"{report.rope}, up to {report.max_model_tokens:,} tokens"
    yield "embedding", "also the output head" if report.is_tied else "separate from the output head"
    if tokenizer_refusal is not None:
        yield "tokenizer", f"cannot be used: {tokenizer_refusal}"
    yield "chat template", "yes" if report.has_chat_template else "none"
    yield "weights", f"{format_bytes(report.weight_bytes)} in memory, {format_bytes(report.stored_bytes)} in the file"
    yield "KV per token", format_bytes(report.kv_bytes_per_token)
    yield f"KV of {report.context_tokens:,} tokens", _kv(report)
    yield "memory needed", f"{format_bytes(report.memory_bytes)} for one request of that length"
    if report.expert_bytes:
        yield "with --lazy-experts", _lazily(report)


def _lazily(report: ModelReport) -> str:
    always = format_bytes(report.memory_bytes - report.expert_bytes)
    return (
        f"{always}, and as much of {format_bytes(report.expert_bytes)} of experts as there is room for: "
        f"a token uses {format_bytes(report.chosen_expert_bytes)}"
    )


def _attention(report: ModelReport) -> str:
    sizes = report.latent
    if sizes is None:
        return f"{report.num_heads} heads, {report.num_kv_heads} of keys and values, {report.head_dim} wide"
    queries = "" if sizes.query_latent_dim is None else f", queries from {sizes.query_latent_dim}"
    return (
        f"{report.num_heads} heads of {sizes.plain_dim} + {sizes.rope_dim} turned, values of {sizes.value_dim}; "
        f"latents of {sizes.latent_dim} + {sizes.rope_dim}{queries}"
    )


def _window(report: ModelReport) -> str:
    which = "" if report.num_sliding_layers == report.num_layers else f" in {_layers(report.num_sliding_layers)}"
    return f"{report.sliding_window:,} tokens{which}"


def _kv(report: ModelReport) -> str:
    held = report.kv_tokens_at_context
    only = f", of the {held:,} that are held at once" if held < report.context_tokens else ""
    return f"{format_bytes(report.kv_bytes_at_context)}{only}"


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _experts(report: ModelReport, mixture: MixtureConfig) -> str:
    routing = mixture.routing
    groups = f" from {routing.top_groups} of {routing.num_groups} groups" if routing.num_groups > 1 else ""
    each = "each of " if report.num_mixture_layers > 1 else ""
    return (
        f"{routing.num_experts} in {each}{_layers(report.num_mixture_layers)}, {mixture.expert_size} wide: "
        f"{routing.top_k} used{groups}, {mixture.num_shared} shared"
    )


def _kv_costs(report: ModelReport) -> Table:
    table = Table("--kv-cache-dtype", "bytes per token", "perplexity", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for cost in report.kv_costs:
        change = "not measured" if cost.perplexity_change is None else f"{cost.perplexity_change:+.2%}"
        table.add_row(cost.kv_cache_dtype, f"{cost.bytes_per_token:,}", change)
    return table


def _classes(report: ModelReport) -> Table:
    """What `--quantize` decides, class by class, and what that comes to."""
    title = f"--quantize {report.quantize}" if report.quantize else "--quantize"
    table = Table(title, "stored", "in memory", "bytes", "error", box=None, padding=(0, 2, 0, 0))
    table.columns[3].justify = table.columns[4].justify = "right"
    for part in report.classes:
        stored = ", ".join(sorted({stored for stored, _, _ in part.formats}))
        loaded = ", ".join(sorted({loaded for _, loaded, _ in part.formats}))
        table.add_row(part.name, stored, loaded, format_bytes(part.bytes), _error(part))
    kv = f"kv of {report.context_tokens:,} tokens"
    table.add_row(kv, "", report.kv_cache_dtype, format_bytes(report.kv_bytes_at_context), "")
    table.add_row("total", "", "", format_bytes(report.memory_bytes), "")
    return table


def _error(part: TensorClass) -> str:
    return "" if part.requantize_error is None else f"{part.requantize_error:.2%}"


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
            _error(part),
        )
    return table


def _formats(part: TensorClass) -> str:
    """`Q4_1` where a format is kept, `Q6_K -> int8` where it is not, with counts where there are several."""
    names = [stored if stored == loaded else f"{stored} -> {loaded}" for stored, loaded, _ in part.formats]
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{count} {name}" for name, (_, _, count) in zip(names, part.formats, strict=True))
