"""`tailrace serve`: a model behind an OpenAI-compatible HTTP API."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveFloat, PositiveInt, UInt16
from cyclopts.validators import Number

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.commands.class_words import describe_classes
from tailrace.commands.directory import Directory
from tailrace.commands.download import fetch_default_model
from tailrace.commands.keys import read_admin_key, read_api_key
from tailrace.commands.lazy import LazyExpertsOption
from tailrace.commands.lazy import lazy_experts as settle_lazy
from tailrace.commands.loading import LoadingBar
from tailrace.commands.notices import Notice, log_notice, logging_failure, write_notice
from tailrace.commands.precision import PrecisionWords
from tailrace.commands.quantity import ByteCount, ByteCountOrAuto, ByteCountOrNone
from tailrace.config import (
    ChatFormatName,
    EngineConfig,
    KvCacheDtype,
    KvEventsConfig,
    ModelSource,
    OtlpConfig,
    ServeConfig,
    WarmConfig,
)
from tailrace.engine.board import MAX_WORKERS
from tailrace.errors import SetupError
from tailrace.frontends.class_file import read_classes
from tailrace.frontends.exposure import check_exposure
from tailrace.frontends.http.cors import check_origins
from tailrace.frontends.rule_file import read_rules
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.levels.config import DISK_BYTES, HOST_DIRECTORY, LevelsConfig
from tailrace.loading import PlannedModel
from tailrace.rules.rule import Rule
from tailrace.serving import run as serving
from tailrace.serving.children import process_name
from tailrace.serving.shared import Places
from tailrace.serving.traces import check_otlp
from tailrace.telemetry.log_lines import write_json_log
from tailrace.telemetry.pyroscope import check_pyroscope
from tailrace.weights.losses import losses
from tailrace.weights.precision import Precision

__all__ = ["serve"]

WARM = WarmConfig()
SOURCE = ModelSource()

serve = App(
    name="serve",
    help_epilogue="Examples:\n"
    "  tailrace serve\n"
    "  tailrace serve ./model.gguf --port 8123 --name my-model\n"
    "  tailrace serve owner/name --quantize int8 --kv-memory 4GiB\n"
    "  tailrace serve --api-keys keys.jsonl --classes classes.jsonl",
)


@serve.default
def run(
    model: str | None = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: UInt16 = 8000,
    grpc_port: UInt16 | None = None,
    shm: str | None = None,
    insecure: Annotated[bool, Parameter(negative="")] = False,
    name: str | None = None,
    max_model_tokens: PositiveInt | None = None,
    max_running: PositiveInt = 64,
    budget_tokens: PositiveInt = 512,
    chunk_tokens: PositiveInt | None = None,
    max_queued: PositiveInt = 1024,
    max_tenant_requests: PositiveInt | None = None,
    keep_alive: Annotated[float, Parameter(validator=Number(gte=0, lte=86_400))] = 15,
    stall_timeout: PositiveFloat = 30,
    max_answer_tokens: PositiveInt | None = None,
    cors_origin: tuple[str, ...] = (),
    no_console: Annotated[bool, Parameter(negative="")] = False,
    api_workers: Annotated[int, Parameter(validator=Number(gte=1, lte=MAX_WORKERS))] = 1,
    max_restarts: NonNegativeInt = 5,
    hang_timeout: PositiveFloat = 10,
    drain_timeout: Annotated[float, Parameter(validator=Number(gte=0, lte=86_400))] = 30,
    kv_memory: ByteCount | None = None,
    kv_chunk_tokens: PositiveInt = 128,
    kv_cache_dtype: KvCacheDtype | None = None,
    block_tokens: PositiveInt = 16,
    threads: PositiveInt | None = None,
    backend: Literal["auto", "cpu", "reference"] = "auto",
    quantize: PrecisionWords | None = None,
    weight_cache: ByteCountOrNone = SOURCE.cache_bytes,
    lazy_experts: LazyExpertsOption = None,
    chat_format: ChatFormatName = "auto",
    kv_host: ByteCountOrAuto = "auto",
    kv_host_directory: Directory = HOST_DIRECTORY,
    kv_disk: Directory | None = None,
    kv_disk_size: ByteCount | None = None,
    kv_redis: str | None = None,
    kv_ttl: PositiveFloat = 86_400,
    classes: Path | None = None,
    api_keys: Path | None = None,
    admin_key_file: Path | None = None,
    rules: Literal["none"] | Path | None = None,
    warm: Path | None = None,
    warm_state: Path | None = None,
    warm_tokens: NonNegativeInt = WARM.max_tokens,
    kv_events: str | None = None,
    kv_events_topic: str | None = None,
    log_format: Literal["text", "json"] = "text",
    otlp: str | None = None,
    pyroscope: str | None = None,
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
    grpc_port
        Port to speak gRPC on, beside HTTP; 0 takes a free one [none].
    shm
        A name by which this user's programs on this machine reach the server through shared memory, as
        tailrace.connect("shm://NAME") does. They need no key, and may have any class [none].
    insecure
        Listen on addresses of the network, too, without asking anybody for a key.
    name
        What clients call the model [its own name].
    max_model_tokens
        The most tokens of a prompt and its answer, 2 or more [what the model was made for].
    max_running
        Requests computed at the same time; others wait.
    budget_tokens
        Tokens one step may compute.
    chunk_tokens
        Prompt tokens that a step adds to running streams, always [as many as their classes' targets can bear].
    max_queued
        Requests that may wait to be computed; classes below the best fill the less of them the lower they are.
    max_tenant_requests
        Requests of one tenant that may be here at once; those that name no tenant are of one together [no limit].
    keep_alive
        Seconds of silence after which a stream, queued or between tokens, sends a comment so that nobody takes it for
        dead; 0 for never. The answer begins with it: what goes wrong later is an event of the stream, not a status.
    max_answer_tokens
        Tokens that one request may ask for, its choices together [no limit].
    cors_origin
        Web pages that may call the server from browsers, such as https://app.example.com, or * for all; may be given
        several times [none].
    no_console
        Give no page at / to chat and to look at the server; its feed shows counts and times, and no texts.
    stall_timeout
        Seconds for which the client of a stream may take nothing before it is cut off and its work ended.
    api_workers
        Processes that answer clients; one more computes.
    max_restarts
        How often in a minute a process that died is started again at once; then it waits until the minute is over.
    hang_timeout
        Seconds for which the engine may do nothing, or ten times what its step should take, before it is started again.
    drain_timeout
        Seconds that requests under way have to end when the server is told to stop; then they end with an error.
    kv_memory
        Memory for keys and values, such as 512MiB [a quarter of what is free, or what --max-running requests can fill].
    kv_chunk_tokens
        Memory for keys and values is taken from the system, and given back, for so many tokens at a time.
    kv_cache_dtype
        How keys and values are kept: int8 and fp8_e4m3 hold twice as many tokens as bf16. 'tailrace inspect' shows what
        each takes and loses [bf16].
    block_tokens
        Tokens of one block of keys and values.
    threads
        Threads that compute [one for each CPU].
    backend
        What computes; reference is the slow specification, for checking and not for serving.
    quantize
        How wide weights are kept in memory: int8 or int4 narrows what is wider, float is what the file has, exactly.
        Classes by name, such as int4,head=int8,attention=float: attention, dense, experts, shared, index, head, embed;
        kv=int8 is --kv-cache-dtype. A class that the model lacks is refused [as in the file; under int4, 8 bits for
        head and embed; routers and norms never narrowed].
    weight_cache
        Disk for the packed weights of large models, in the directory of the user's cache (TAILRACE_CACHE_DIR), from
        which the next start maps them; those used least recently go. 0 for none.
    lazy_experts
        Leave the experts of a mixture in the model's file, and load each when it is first chosen: for models larger
        than memory. Behind MODEL. With an amount, such as 8GiB, they take no more; who was not used for longest goes.
        A layer of a step always gets all that it chooses, even if they take more [half of what is free beside KV].
    chat_format
        How conversations are written, and thoughts and calls of tools marked. auto goes by the model's chat template,
        where it is DeepSeek's with what its published form gets wrong put right; template is the template as it is.
    kv_host
        Shared memory that keeps KV blocks beyond this server's life, such as 512MiB; 0 for none. auto takes no more
        than --kv-memory, a quarter of what is free, and 1GiB.
    kv_host_directory
        Where that memory lies: servers of one user that name the same directory share it.
    kv_disk
        A directory that keeps KV blocks for the server that is started next. Those of another size, as
        of another model or --block-tokens, are removed.
    kv_disk_size
        The most that --kv-disk may take [8GiB].
    kv_redis
        A Redis or Valkey server that shares KV blocks between hosts, such as redis://localhost:6379/0. Arguments are
        seen by every user of the machine: put a URL with a password into the variable [the variable TAILRACE_KV_REDIS].
    kv_ttl
        Seconds after which a block that nobody uses may go from shared memory, disk and Redis.
    classes
        Service classes, best first, one JSON object a line: "name", "priority", "ttft_ms", "itl_ms", "queue_ttl_s", and
        perhaps "min_share", "is_refused_late" and "max_yields", how often a running request gives way to one of a
        better class that would be late; "default": true on one of them [gold, silver (default), bronze].
    api_keys
        Who may use the server, one JSON object a line: "name", "key", the "class" of its requests [the default one] and
        the "best" that it may ask for [its class]. It is read again when it changes, and at SIGHUP. Without it, who
        has the key in the variable TAILRACE_API_KEY may, in any class; without that, anybody.
    admin_key_file
        A file with the key of those who may ask about the cache and empty it [the variable TAILRACE_ADMIN_KEY].
    rules
        What is done when something has been wrong for a while: a JSON object a line, as docs/rules.md tells, or none
        [levels that cost more time than they save are not waited for; the least class makes way for the best].
    warm
        Prompts to compute ahead, one JSON object a line: "prompt", "messages" or "token_ids", "cache_salt", "user_id".
    warm_state
        A file that keeps from one start to the next what users' prompts begin with; only its owner can read it.
    warm_tokens
        Tokens of users' prompts to remember, in memory, to compute ahead what many begin with; 0 remembers none.
    kv_events
        Address to publish on which prefixes are cached, for routers, as vLLM does: tcp://127.0.0.1:5557 or ipc:///path.
        What a subscriber missed is replayed on the next port.
    kv_events_topic
        What subscribers of --kv-events subscribe to; llm-d expects kv@POD@MODEL [kv-events].
    log_format
        How the log is written to standard error: json is an object a line, with the request and the trace it is about.
    otlp
        Collector of OpenTelemetry that gets a trace of each request, over HTTP, such as http://localhost:4318. The
        standard's variables, such as OTEL_SERVICE_NAME and OTEL_TRACES_SAMPLER, say more [none].
    pyroscope
        Pyroscope server that is told all the time what each process does, such as http://localhost:4040 [none].
    """
    if kv_disk_size is not None and kv_disk is None:
        raise SetupError("--kv-disk-size bounds what --kv-disk keeps: give a directory with --kv-disk, too")
    check_origins(cors_origin)
    notice, begin = write_notice, serving.serve
    if log_format == "json":
        write_json_log(process_name)
        notice, begin = log_notice, logging_failure()(serving.serve)
    admin_key = read_admin_key(admin_key_file)
    api_key = None if api_keys is not None else read_api_key()
    has_keys = api_keys is not None or api_key is not None
    check_exposure(host, has_keys=has_keys, is_insecure=insecure)
    precision = Precision.of(quantize)
    kv_cache_dtype = precision.settle_kv(kv_cache_dtype)
    fetch_default_model(model)
    engine = EngineConfig(
        backend=backend,
        num_threads=threads,
        block_tokens=block_tokens,
        kv_memory_bytes=kv_memory,
        kv_chunk_tokens=kv_chunk_tokens,
        kv_cache_dtype=kv_cache_dtype,
        budget_tokens=budget_tokens,
        chunk_tokens=chunk_tokens,
        max_running=max_running,
        max_queued=max_queued,
        max_tenant_requests=max_tenant_requests,
        max_model_tokens=max_model_tokens,
        lazy_experts=settle_lazy(lazy_experts),
        classes=STANDARD if classes is None else read_classes(classes),
    )
    events = _events(kv_events, kv_events_topic)
    warming = WarmConfig(warm, warm_state, warm_tokens)
    disk_bytes = kv_disk_size or DISK_BYTES
    levels = LevelsConfig(kv_host, kv_disk, disk_bytes, _redis_url(kv_redis), kv_ttl, kv_host_directory)
    acting = _rules(rules, engine.classes, levels)
    source = ModelSource(model, precision, weight_cache, chat_format)
    begin(
        ServeConfig(
            source,
            engine,
            name,
            host,
            port,
            admin_key,
            api_keys,
            warming,
            events,
            levels,
            api_key=api_key,
            keep_alive_s=keep_alive,
            stall_s=stall_timeout,
            max_answer_tokens=max_answer_tokens,
            cors_origins=cors_origin,
            has_console=not no_console,
            grpc_port=grpc_port,
            shm=shm,
            num_workers=api_workers,
            max_restarts=max_restarts,
            patience_s=hang_timeout,
            drain_s=drain_timeout,
            rules=acting,
            otlp=_otlp(otlp),
            pyroscope=_pyroscope(pyroscope),
        ),
        on_planned=partial(_say_bound, notice),
        on_ready=partial(_announce, notice, engine.classes),
        on_loaded=partial(_say_losses, notice),
        progress=LoadingBar() if log_format == "text" else None,
    )


def _redis_url(given: str | None) -> str | None:
    """What was given as an argument, else the variable, which may be empty; None when there is neither."""
    return given if given is not None else os.environ.get("TAILRACE_KV_REDIS") or None


def _rules(
    given: Literal["none"] | Path | None, classes: ServiceClasses, levels: LevelsConfig
) -> tuple[Rule, ...] | None:
    """Those of the file, or none; None for the standard ones."""
    if given == "none":
        return ()
    return None if given is None else read_rules(Path(given), classes, levels.levels)


def _pyroscope(url: str | None) -> str | None:
    if url is not None:
        check_pyroscope(url)
    return url


def _otlp(url: str | None) -> OtlpConfig | None:
    """Who gets traces, unless the variable of the standard says that nobody does."""
    if url is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    config = OtlpConfig(url, TraceSampler.of(os.environ))
    check_otlp(config)
    return config


def _events(endpoint: str | None, topic: str | None) -> KvEventsConfig | None:
    if endpoint is None:
        if topic is not None:
            raise SetupError("--kv-events-topic is of --kv-events: give an address to publish on as well")
        return None
    return KvEventsConfig(endpoint) if topic is None else KvEventsConfig(endpoint, topic)


def _say_bound(notice: Notice, plan: PlannedModel) -> None:
    if plan.is_bound_by_kv:
        notice(
            f"KV memory holds {plan.max_request_tokens:,} tokens at once: no request may have more, though "
            f"{plan.limits.max_model_tokens:,} were allowed (--kv-memory gives it more)"
        )


def _say_losses(notice: Notice, plan: PlannedModel) -> None:
    """What was narrowed on its way in, be it that somebody wanted it or that no packed format holds it."""
    if lost := losses(plan.checkpoint):
        each = ", ".join(f"{part.num_tensors} of {part.stored_format}, error {part.error:.2%}" for part in lost)
        notice(f"Weights narrowed while they were read: {each} (tailrace inspect shows each class)")


def _announce(notice: Notice, classes: ServiceClasses, places: Places, target_scale: float) -> None:
    notice(describe_classes(classes, target_scale))
    if places.grpc_address is not None:
        notice(f"Serving gRPC at {places.grpc_address}")
    if places.lobby is not None:
        notice(f"Serving in shared memory at shm://{places.lobby.name}")
    notice(f"Serving at {places.url}/v1 (Ctrl-C stops)")
