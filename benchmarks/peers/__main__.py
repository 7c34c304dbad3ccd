"""Compares the server with other engines on this machine: `make compare`, or `python -m benchmarks.peers --help`.

What is needed is built first, once, under .peers/ in this checkout: llama.cpp from source (six minutes on two cores),
OpenVINO GenAI, transformers; vLLM's CPU build takes part where it is installed. All run the default model's weights.
In each round every workload meets all engines in turn, each started anew and alone on the machine; the table shows
medians over the rounds, and the ratio of ours to the peer that is best at that very figure.
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
from benchmarks.serving.workloads import WORKLOADS
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint

CHECKOUT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results")
PEERS = ("llama.cpp", "openvino-int4", "openvino-int8", "transformers", "vllm")
WIDTH_IN_A_PIPE = 200
EXAMPLE = """examples:
  make compare
  make compare ARGS="--peers llama.cpp openvino-int4 --workloads W1 W4 --rounds 5 --json figures.json"
  make compare ARGS="--rounds 0"        only build what is needed
"""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make compare",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    workloads = [workload.name for workload in WORKLOADS]
    every_peer, every_workload = f"all of {', '.join(PEERS)}", f"all of {', '.join(workloads)}"
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, metavar="PEER", help=every_peer)
    parser.add_argument(
        "--workloads", nargs="+", choices=workloads, default=workloads, metavar="W", help=every_workload
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often (3)")
    parser.add_argument(
        "--json", type=Path, help="where to keep every run's figures (a new file in benchmarks/peers/results)"
    )
    parser.add_argument("--serve", default="", metavar="ARGS", help="arguments for our `tailrace serve`")
    parser.add_argument("--vllm", default="vllm", metavar="PROGRAM", help="an installed vLLM (the one on PATH)")
    return parser.parse_args(words)


def engines(arguments: argparse.Namespace, workshop: Workshop, checkpoint: Checkpoint) -> list[Engine]:
    """Ours first, then the chosen peers."""
    threads = len(os.sched_getaffinity(0))
    weights = Weights(workshop, checkpoint)
    peers: list[Engine] = [
        LlamaCpp(workshop, weights, threads),
        OpenVino(workshop, weights, threads, "int4"),
        OpenVino(workshop, weights, threads, "int8"),
        TransformersServe(workshop, weights, threads),
        VllmServe(workshop, weights, arguments.vllm),
    ]
    ours = Ours(workshop, checkpoint, tuple(shlex.split(arguments.serve)))
    return [ours, *(peer for peer in peers if peer.name in arguments.peers)]


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
    checkpoint = open_checkpoint(None)
    descriptions, contestants, skipped = prepare(engines(arguments, Workshop(CHECKOUT / ".peers"), checkpoint))
    workloads = [workload for workload in WORKLOADS if workload.name in arguments.workloads]
    seed = random.SystemRandom().randrange(1 << 30)
    planned = list(turns(contestants, workloads, arguments.rounds))
    outcome = run_rounds(planned, PromptWriter(checkpoint), seed, needed=OURS)
    comparison = Comparison(
        machine=describe_machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        num_rounds=arguments.rounds,
        seed=seed,
        engines=descriptions,
        skipped=skipped,
        outcome=outcome,
        standings=standings(outcome.measurements, OURS),
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
