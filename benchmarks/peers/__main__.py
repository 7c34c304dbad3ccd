"""Compares the server with other engines on this machine: `make compare`, or `python -m benchmarks.peers --help`.

What is needed is built first, once, under .peers/ in this checkout: llama.cpp from source (six minutes on two cores),
OpenVINO GenAI, transformers; vLLM's CPU build takes part where it is installed. All run the default model's weights.
In each round every workload meets all engines in turn, each started anew and alone on the machine; the table shows
medians over the rounds, and the ratio of ours to the peer that is best at that very figure.

With --model FILE, a GGUF file that llama.cpp reads too, both run that file as it is, under loads for large models.
`tailrace bench synth SHAPE --gguf FILE` writes one of a shape's real size, with random weights.
"""

import argparse
import os
import random
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.peers.contest import OF_A_FILE, OF_THE_DEFAULT_MODEL, Contest
from benchmarks.peers.engine import Description, Engine, EngineUnavailable
from benchmarks.peers.llamacpp import LlamaCpp
from benchmarks.peers.openvino_engine import OpenVino
from benchmarks.peers.ours import OURS, Ours
from benchmarks.peers.prompts import PromptWriter
from benchmarks.peers.rounds import Contestant, run_rounds, turns
from benchmarks.peers.standings import standings
from benchmarks.peers.table import Comparison, render, to_dict
from benchmarks.peers.transformers_serve import TransformersServe
from benchmarks.peers.vllm_serve import VllmServe
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop
from benchmarks.serving.machine import describe_machine
from benchmarks.serving.workloads import ServingWorkload
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint

CHECKOUT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results")
WIDTH_IN_A_PIPE = 200
EXAMPLE = """examples:
  make compare
  make compare ARGS="--peers llama.cpp openvino-int4 --workloads W1 W4 --rounds 5 --json figures.json"
  make compare ARGS="--rounds 0"        only build what is needed
  make compare ARGS="--model ./deepseek-v2-lite.gguf --rounds 2"
"""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make compare",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    everyone, file = OF_THE_DEFAULT_MODEL, OF_A_FILE
    peers = f"all of {', '.join(everyone.peers)}; with --model of {', '.join(file.peers)}"
    workloads = f"all of {', '.join(everyone.workload_names)}; with --model of {', '.join(file.workload_names)}"
    parser.add_argument("--model", type=Path, metavar="FILE", help="a GGUF file to run instead of the default model")
    parser.add_argument("--peers", nargs="+", metavar="PEER", help=peers)
    parser.add_argument("--workloads", nargs="+", metavar="W", help=workloads)
    parser.add_argument("--rounds", type=int, default=3, help="how often (3)")
    parser.add_argument(
        "--json", type=Path, help="where to keep every run's figures (a new file in benchmarks/peers/results)"
    )
    parser.add_argument("--serve", default="", metavar="ARGS", help="arguments for our `tailrace serve`")
    parser.add_argument("--vllm", default="vllm", metavar="PROGRAM", help="an installed vLLM (the one on PATH)")
    arguments = parser.parse_args(words)
    contest = contest_of(arguments)
    if unknown := contest.unknown(arguments.peers or (), arguments.workloads or ()):
        parser.error(f"invalid choice: {', '.join(map(repr, unknown))}")
    return arguments


def contest_of(arguments: argparse.Namespace) -> Contest:
    return OF_THE_DEFAULT_MODEL if arguments.model is None else OF_A_FILE


def chosen_workloads(arguments: argparse.Namespace) -> list[ServingWorkload]:
    workloads = contest_of(arguments).workloads
    return [workload for workload in workloads if workload.name in (arguments.workloads or [workload.name])]


def engines(arguments: argparse.Namespace, workshop: Workshop, checkpoint: Checkpoint) -> list[Engine]:
    """Ours first, then the chosen peers."""
    threads = len(os.sched_getaffinity(0))
    weights = Weights(workshop, checkpoint)
    num_slots = max(workload.concurrency for workload in contest_of(arguments).workloads)
    peers: list[Engine] = [
        LlamaCpp(workshop, weights, threads, arguments.model, num_slots),
        OpenVino(workshop, weights, threads, "int4"),
        OpenVino(workshop, weights, threads, "int8"),
        TransformersServe(workshop, weights, threads),
        VllmServe(workshop, weights, arguments.vllm),
    ]
    ours = Ours(workshop, weights, tuple(shlex.split(arguments.serve)), arguments.model)
    chosen = arguments.peers or contest_of(arguments).peers
    return [ours, *(peer for peer in peers if peer.name in chosen)]


def prepare(wanted: Iterable[Engine]) -> tuple[dict[str, Description], list[Contestant], dict[str, str]]:
    """Build all; those that cannot be built are named with the reason."""
    descriptions: dict[str, Description] = {}
    contestants: list[Contestant] = []
    skipped: dict[str, str] = {}
    for engine in wanted:
        try:
            descriptions[engine.name], runner = engine.prepare()
            contestants.append(Contestant(engine.name, runner, engine.max_rounds))
        except (EngineUnavailable, OSError) as error:  # such as a full disk
            skipped[engine.name] = str(error)
            sys.stderr.write(f"left out: {engine.name}: {error}\n")
    return descriptions, contestants, skipped


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no engine outlives this
    checkpoint = open_checkpoint(None if arguments.model is None else str(arguments.model))
    descriptions, contestants, skipped = prepare(engines(arguments, Workshop(CHECKOUT / ".peers"), checkpoint))
    seed = random.SystemRandom().randrange(1 << 30)
    planned = list(turns(contestants, chosen_workloads(arguments), arguments.rounds))
    outcome = run_rounds(planned, PromptWriter(checkpoint), seed, needed=OURS)
    comparison = Comparison(
        machine=describe_machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        num_rounds=arguments.rounds,
        seed=seed,
        engines=descriptions,
        skipped=skipped,
        outcome=outcome,
        standings=standings(outcome.measurements, OURS, contest_of(arguments).aims),
    )
    show(comparison)
    keep(comparison, arguments.json)
    return 1 if OURS in comparison.left_out else 130 if outcome.is_interrupted else 0


def show(comparison: Comparison) -> None:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_A_PIPE
    console.print(render(comparison))


def keep(comparison: Comparison, file: Path | None) -> None:
    if not comparison.outcome.measurements:
        return
    file = file or RESULTS / f"{comparison.date.replace(':', '')}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(to_dict(comparison))))
    sys.stderr.write(f"every run's figures: {file}\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
