"""What service classes are worth under overload: the real engine, the default model, more requests than it can serve.

    python -m benchmarks.scheduling.overload [--load 1.5] [--seconds 30] [--rounds 2] [--json]

Capacity is measured first: requests a second while there are always more, first come first served. Then the same
arrivals, an excerpt of Azure's trace of conversations with lengths divided by 16 and time stretched to the load, come
in turn to the scheduler as the server runs it and to the same scheduler with one class, first come first served,
refusing nobody but when its queue is full. Open loop: nobody waits for an answer before the next request is sent.

attainment  requests on target / all that arrived, also refused ones
on target   TTFT within the class's target, and 95 of 100 gaps within the target for these
goodput     requests on target a second, from the first arrival to the last token
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from benchmarks.scheduling.in_process import InProcess, Settled, say_progress
from benchmarks.serving.machine import describe_machine
from tailrace.config import EngineConfig
from tailrace.loading import LoadedModel, load_model
from tailrace.measure.simulation.arrivals import Arrival, Mix, at_rate, from_trace
from tailrace.measure.simulation.policies.catalog import one_class
from tailrace.measure.simulation.report import SimulationReport, make_report
from tailrace.measure.simulation.trace import conversations
from tailrace.weights.load import open_checkpoint

__all__ = ["CONFIG", "Overload", "Rounds", "azure_arrivals", "measure_capacity", "measure_overload", "warmed_up"]

CONFIG = EngineConfig(kv_memory_bytes=1 << 30, max_model_tokens=2048)
MIX = Mix({"gold": 20.0, "silver": 50.0, "bronze": 30.0})
LENGTHS_DIVIDED_BY = 16.0
SATURATED_SHARE = 0.9  # of the answers: while the last ones end there is no longer enough to do
OURS, FCFS = "tailrace", "fcfs"


@dataclass(frozen=True, slots=True)
class Overload:
    """How much of it; `num_saturating` requests are there at once when capacity is measured."""

    load: float = 1.5
    seconds: float = 30.0
    num_rounds: int = 2
    num_saturating: int = 250


Reports = Mapping[str, SimulationReport]
"""By policy."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """`target_scale`: how many times as long as configured the targets are, on this machine."""

    capacity: float
    target_scale: float
    rounds: Sequence[Reports]

    def goodput(self, policy: str) -> float:
        return mean(one[policy].goodput for one in self.rounds)

    def attainment(self, policy: str) -> dict[str, float]:
        """By class, of the requests of all rounds together."""
        classes = zip(*(one[policy].classes for one in self.rounds), strict=True)
        return {
            each[0].name: sum(one.num_on_target for one in each) / max(sum(one.num_requests for one in each), 1)
            for each in classes
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "capacity_requests_per_s": self.capacity,
            "target_scale": self.target_scale,
            "goodput": {policy: self.goodput(policy) for policy in (OURS, FCFS)},
            "attainment": {policy: self.attainment(policy) for policy in (OURS, FCFS)},
            "rounds": [{policy: report.to_dict() for policy, report in one.items()} for one in self.rounds],
        }


def warmed_up(model: LoadedModel, config: EngineConfig) -> Settled:
    """After a few requests that nobody counts: pages are touched, code is loaded."""
    InProcess(Settled.on(model, config)).run(at_rate(azure_arrivals(8), 100.0), say_progress("warm-up"))
    return Settled.on(model, config)


def classless(settled: Settled) -> Settled:
    return replace(settled, config=replace(settled.config, classes=one_class(settled.config.classes)))


def measure_capacity(settled: Settled, num_requests: int) -> float:
    """Requests a second that are completed while there are always more."""
    arrivals = [replace(one, at_s=0.0) for one in azure_arrivals(num_requests)]
    outcome = InProcess(classless(settled), is_first_come=True).run(arrivals, say_progress("capacity"))
    ends_s = sorted(one.token_s[-1] for one in outcome.served.values())
    num_counted = max(round(SATURATED_SHARE * len(ends_s)), 1)
    return num_counted / ends_s[num_counted - 1]


def measure_overload(settled: Settled, overload: Overload) -> Rounds:
    """Both policies in turn, in each round on arrivals of its own."""
    capacity = measure_capacity(settled, overload.num_saturating)
    rate = overload.load * capacity
    num_requests = max(round(overload.seconds * rate), 2)
    rounds = [
        _round(settled, at_rate(azure_arrivals(num_requests, first=number * num_requests), rate), number)
        for number in range(overload.num_rounds)
    ]
    return Rounds(capacity, settled.target_scale, rounds)


def _round(settled: Settled, arrivals: Sequence[Arrival], number: int) -> Reports:
    """Who begins changes from round to round. Both are measured by the targets of the classes."""
    ways = {OURS: settled, FCFS: classless(settled)}
    reports = {}
    for policy in (OURS, FCFS) if number % 2 == 0 else (FCFS, OURS):
        engine = InProcess(ways[policy], is_first_come=policy == FCFS)
        outcome = engine.run(arrivals, say_progress(f"round {number + 1}, {policy}"))
        reports[policy] = make_report(policy, outcome, settled.config.classes)
    return reports


def azure_arrivals(num_requests: int, first: int = 0) -> list[Arrival]:
    traced = conversations()
    first %= max(len(traced) - num_requests, 1)
    return from_trace(traced[first : first + num_requests], replace(MIX, seed=first), LENGTHS_DIVIDED_BY)


def show(rounds: Rounds, overload: Overload) -> None:
    print(describe_machine())
    print(
        f"capacity {rounds.capacity:.2f} requests/s; load {overload.load:.0%}; targets times {rounds.target_scale:.2f}"
    )
    for policy in (OURS, FCFS):
        shares = "  ".join(f"{name} {share:6.1%}" for name, share in rounds.attainment(policy).items())
        print(f"{policy:9} goodput {rounds.goodput(policy):6.2f}/s  on target: {shares}")
        for one in rounds.rounds:
            report = one[policy]
            late = "  ".join(f"{each.name} {_ms(each.ttft_ms.p95)} / {_ms(each.itl_ms.p95)}" for each in report.classes)
            print(f"{'':9} TTFT / ITL P95 ms: {late}; refused {sum(report.refused.values())}")
    print(f"goodput {OURS} / {FCFS}: {rounds.goodput(OURS) / max(rounds.goodput(FCFS), 1e-9):.2f}")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.overload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="another than the default model")
    parser.add_argument("--load", type=float, default=1.5, help="arrivals as a share of capacity [%(default)s]")
    parser.add_argument("--seconds", type=float, default=30.0, help="of arrivals, in each run [%(default)s]")
    parser.add_argument("--rounds", type=int, default=2, help="in each, both policies run [%(default)s]")
    parser.add_argument("--saturating", type=int, default=250, help="requests that measure capacity [%(default)s]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    overload = Overload(arguments.load, arguments.seconds, arguments.rounds, arguments.saturating)
    model = load_model(open_checkpoint(arguments.model or "default"), CONFIG)
    rounds = measure_overload(warmed_up(model, CONFIG), overload)
    if arguments.json:
        figures = {"machine": describe_machine(), "load": overload.load, "seconds": overload.seconds}
        sys.stdout.write(json.dumps(figures | rounds.to_dict(), indent=2) + "\n")
    else:
        show(rounds, overload)


if __name__ == "__main__":
    main()
