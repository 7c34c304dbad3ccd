"""How soon the tokens of a step are in another process, and what that costs: `python -m benchmarks.ring --help`.

The ring in shared memory beside what others use. A step's tokens leave at once; the time runs from before they are sent
until the reader has each of them as an object. Transports are measured in turn, `--rounds` times.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from rich.console import Console
from rich.table import Table

from benchmarks.ring.grpc_stream import GrpcStream
from benchmarks.ring.iceoryx import Iceoryx
from benchmarks.ring.measure import Figures, Load, Run, figures_of, measure
from benchmarks.ring.ours import FutexRing, LoopRing, Ring
from benchmarks.ring.transport import Mode, Transport
from benchmarks.ring.unix_socket import UnixSocket
from benchmarks.ring.zeromq import ZeroMq
from benchmarks.serving.machine import describe_machine

EXAMPLES = """examples:
  python -m benchmarks.ring
  python -m benchmarks.ring --transports ring unix-socket --tokens 1 --json
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    transport: type[Transport]
    module: str | None = None  # what it needs, and the package that has it
    package: str = ""

    @property
    def is_here(self) -> bool:
        return self.module is None or find_spec(self.module) is not None


CONTESTANTS: Mapping[str, Contestant] = {
    "ring": Contestant(Ring),
    "ring-futex": Contestant(FutexRing),
    "ring-event-loop": Contestant(LoopRing),
    "unix-socket": Contestant(UnixSocket),
    "zeromq": Contestant(ZeroMq, "zmq", "pyzmq"),
    "grpc": Contestant(GrpcStream, "grpc", "grpcio"),
    "iceoryx2": Contestant(Iceoryx, "iceoryx2", "iceoryx2"),
}

Entry = tuple[str, Mode]


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ring",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--transports", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--steps", type=int, default=2000, help="of each transport, mode and round")
    parser.add_argument("--tokens", type=int, default=32, help="of a step")
    parser.add_argument("--period-ms", type=float, default=1.0, help="from step to step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    if arguments.steps < 10 or not 1 <= arguments.tokens <= 1000 or arguments.rounds < 1 or arguments.period_ms < 0:
        parser.error("there must be at least 10 steps of 1 to 1000 tokens, 1 round, and a period of 0 or more")
    return arguments


def say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def those_here(names: Sequence[str]) -> dict[str, Contestant]:
    for name in names:
        if not CONTESTANTS[name].is_here:
            say(f"{name} is not measured: pip install {CONTESTANTS[name].package}")
    return {name: CONTESTANTS[name] for name in names if CONTESTANTS[name].is_here}


def measure_all(contestants: Mapping[str, Contestant], load: Load, num_rounds: int) -> dict[Entry, Figures]:
    runs: dict[Entry, list[Run]] = {}
    for _ in range(num_rounds):
        for name, contestant in contestants.items():
            for mode in contestant.transport.modes:
                say(f"{name}, {mode} ...")
                runs.setdefault((name, mode), []).append(measure(contestant.transport(), mode, load))
    return {entry: figures_of(of_entry, load) for entry, of_entry in runs.items()}


def show(figures: Mapping[Entry, Figures]) -> None:
    table = Table("transport", "reader", "P50, us", "P99, us", "to send, us", "CPU us / 1,000 tokens")
    for (name, mode), found in figures.items():
        # A reader that spins uses all the time that there is.
        cpu = f"{found.cpu_us:.0f}" if mode is Mode.SLEEP else ""
        table.add_row(name, mode, f"{found.p50_us:.1f}", f"{found.p99_us:.1f}", f"{found.send_us:.1f}", cpu)
    Console().print(table)


def main() -> None:
    arguments = parse_arguments()
    load = Load(arguments.steps, arguments.tokens, arguments.period_ms / 1e3)
    figures = measure_all(those_here(arguments.transports), load, arguments.rounds)
    if arguments.json:
        found = [{"transport": name, "reader": mode, **asdict(of)} for (name, mode), of in figures.items()]
        print(json.dumps({"machine": describe_machine(), "load": asdict(load), "figures": found}))
    else:
        print(describe_machine())
        show(figures)


if __name__ == "__main__":
    main()
