"""`tailrace serve`: a model behind an OpenAI-compatible HTTP API."""

import sys
from typing import Literal

from cyclopts import App
from cyclopts.types import PositiveInt, UInt16

from tailrace import app
from tailrace.commands.download import fetch_default_model
from tailrace.commands.loading import LoadingBar
from tailrace.commands.quantity import ByteCount
from tailrace.config import EngineConfig, ModelSource, ServeConfig

__all__ = ["serve"]

serve = App(
    name="serve",
    help_epilogue="Examples:\n"
    "  tailrace serve\n"
    "  tailrace serve ./model.gguf --port 8123 --name my-model\n"
    "  tailrace serve owner/name --quantize int8 --kv-memory 4GiB",
)


@serve.default
def run(
    model: str | None = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: UInt16 = 8000,
    name: str | None = None,
    max_model_tokens: PositiveInt | None = None,
    max_running: PositiveInt = 64,
    budget_tokens: PositiveInt = 512,
    chunk_tokens: PositiveInt = 32,
    kv_memory: ByteCount | None = None,
    kv_format: Literal["bf16", "int8", "f32"] | None = None,
    block_tokens: PositiveInt = 16,
    threads: PositiveInt | None = None,
    backend: Literal["auto", "cpu", "reference"] = "auto",
    quantize: Literal["int8", "int4"] | None = None,
) -> None:
    """Serve a model over an OpenAI-compatible HTTP API.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face directory, a hub id or tiny-deepseek [the embedded default model].
    host
        Address to listen on.
    port
        Port to listen on; 0 takes a free one.
    name
        What clients call the model [its own name].
    max_model_tokens
        The most tokens of a prompt and its answer, 2 or more [what the model was made for].
    max_running
        Requests computed at the same time; others wait.
    budget_tokens
        Tokens one step may compute.
    chunk_tokens
        Prompt tokens a step adds to running streams: more is faster for prompts, less is smoother for streams.
    kv_memory
        Memory for keys and values, such as 512MiB [a quarter of what is free, or what --max-running requests can fill].
    kv_format
        How keys and values are kept: int8 holds twice as many tokens as bf16 [bf16].
    block_tokens
        Tokens of one block of keys and values.
    threads
        Threads that compute [one for each CPU].
    backend
        What computes; reference is the slow specification, for checking and not for serving.
    quantize
        Store wider matrices in fewer bits while loading.
    """
    fetch_default_model(model)
    engine = EngineConfig(
        backend=backend,
        num_threads=threads,
        block_tokens=block_tokens,
        kv_memory_bytes=kv_memory,
        kv_format=kv_format,
        budget_tokens=budget_tokens,
        chunk_tokens=chunk_tokens,
        max_running=max_running,
        max_model_tokens=max_model_tokens,
    )
    app.serve(
        ServeConfig(ModelSource(model, quantize), engine, name, host, port),
        on_planned=_say_bound,
        on_ready=_announce,
        progress=LoadingBar(),
    )


def _say_bound(plan: app.PlannedModel) -> None:
    if plan.is_bound_by_kv:
        sys.stderr.write(
            f"KV memory holds {plan.max_request_tokens:,} tokens at once: no request may have more, though "
            f"{plan.limits.max_model_tokens:,} were allowed (--kv-memory gives it more)\n"
        )
        sys.stderr.flush()


def _announce(url: str) -> None:
    sys.stderr.write(f"Serving at {url}/v1 (Ctrl-C stops)\n")
    sys.stderr.flush()
