"""`tailrace bench`: measure any OpenAI-compatible server."""

import asyncio
import random
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tailrace.bench.benchmark import Benchmark, run_benchmark
from tailrace.bench.exchange import Address
from tailrace.bench.goodput import parse_objectives
from tailrace.bench.report import FORMULAS
from tailrace.bench.server import Endpoint, Server
from tailrace.bench.table import render_report
from tailrace.bench.workload import Arrivals, Workload
from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.progress import RequestProgress
from tailrace.errors import SetupError

__all__ = ["bench"]

OPEN_LOOP_IN_FLIGHT = 1024

bench = App(
    name="bench",
    help_epilogue="Examples:\n"
    "  tailrace bench --concurrency 8 --requests 64 --ignore-eos\n"
    "  tailrace bench --rate 4 --shared-prefix 128 --goodput ttft:200 tpot:50\n\n"
    "How each figure comes about:\n" + "\n".join(f"  {name:<13} {formula}" for name, formula in FORMULAS.items()),
)
bench.command("tailrace.commands.synth:synth", name="synth", help="Measure a model that is not here, by its shape.")
bench.command(
    "tailrace.commands.bench_cache:cache", name="cache", help="Compare eviction policies of the cache on a trace."
)
bench.command(
    "tailrace.commands.bench_simulate:simulate", name="simulate", help="Run a workload through the scheduler, no model."
)
bench.command(
    "tailrace.commands.bench_matrix:matrix", name="matrix", help="Compare scheduling policies on the same arrivals."
)
bench.command(
    "tailrace.commands.bench_controller:controller", name="controller", help="See how feedback answers a sudden change."
)


@bench.default
def run(
    *,
    url: str = "http://127.0.0.1:8000",
    concurrency: PositiveInt | None = None,
    rate: PositiveFloat | None = None,
    burstiness: PositiveFloat = 1.0,
    requests: PositiveInt = 64,
    prompt_tokens: PositiveInt = 256,
    shared_prefix: NonNegativeInt = 0,
    output_tokens: PositiveInt = 128,
    endpoint: Endpoint = "completions",
    model: str | None = None,
    api_key: Annotated[str | None, Parameter(env_var="OPENAI_API_KEY")] = None,
    ignore_eos: bool = False,
    temperature: NonNegativeFloat = 0.0,
    extra_body: str | None = None,
    seed: int | None = None,
    warmup: NonNegativeInt = 2,
    timeout: PositiveFloat = 600.0,
    goodput: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    label: str | None = None,
    json: JsonTarget = None,
) -> int:
    """Measure any OpenAI-compatible server under load.

    Parameters
    ----------
    url
        The server, with or without /v1.
    concurrency
        Requests in flight; each that ends makes room for the next [8; with --rate: 1024].
    rate
        Requests a second, at random times, whatever the server does (open loop).
    burstiness
        Shape of the gamma-distributed gaps between arrivals: 1 is Poisson, below 1 is bursty.
    requests
        How many to measure.
    prompt_tokens
        Tokens of each prompt, template included; words, if the server has no /tokenize.
    shared_prefix
        How many of these, from the start, are the same in every prompt.
    output_tokens
        The most tokens of an answer.
    endpoint
        Which API to ask.
    model
        The model's name [the first that the server lists].
    api_key
        Sent as a bearer token.
    ignore_eos
        Ask for exactly --output-tokens; not every server can.
    temperature
        Sampling temperature of every request.
    extra_body
        JSON object merged into every request.
    seed
        Repeats prompts and arrivals [new each time, so that no cache knows the prompts].
    warmup
        Requests sent before measuring: other prompts, same shared prefix.
    timeout
        Seconds after which a request counts as failed.
    goodput
        Limits in ms a good request meets: ttft:N, tpot:N, e2el:N.
    label
        A name for this run, kept in the JSON.
    json
        Write JSON like 'vllm bench serve' to a file, or, without a name, to standard output.
    """
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    benchmark = Benchmark(
        server=Server(Address.parse(url, api_key), timeout),
        workload=Workload(requests, prompt_tokens, output_tokens, shared_prefix, endpoint, seed),
        arrivals=Arrivals(concurrency or (8 if rate is None else OPEN_LOOP_IN_FLIGHT), rate, burstiness),
        model=model,
        num_warmup=warmup,
        objectives=parse_objectives(goodput or ()),
        extra_body=_extra_body(temperature, extra_body, ignore_eos),
        label=label,
    )
    with RequestProgress(requests) as progress:
        report = asyncio.run(run_benchmark(benchmark, progress.advance))
    show_figures(render_report(report), report.to_dict(), json)
    return 0 if report.completed else 1


def _extra_body(temperature: float, extra: str | None, ignore_eos: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"temperature": temperature}
    if ignore_eos:
        body["ignore_eos"] = True
    try:
        return body | msgspec.json.decode(extra or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise SetupError(f"--extra-body is not a JSON object: {error}") from error
