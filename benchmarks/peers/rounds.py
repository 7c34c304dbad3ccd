"""Who is measured when: in each round every workload meets all engines in turn, one alive at a time.

Neighbours on the machine come and go in minutes, so what is compared lies as close together as it can, and each round
begins with another engine: none always runs after the same one.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.engine import EngineUnavailable, Load, Runner
from benchmarks.peers.noise import OtherCpu
from benchmarks.peers.progress import working
from benchmarks.peers.prompts import PromptWriter
from benchmarks.serving.workloads import ServingWorkload
from tailrace.bench.report import Report

__all__ = ["Contestant", "Measurement", "Outcome", "Turn", "run_rounds", "turns"]


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    runner: Runner
    max_rounds: int | None = None

    def plays_in(self, round_index: int) -> bool:
        return self.max_rounds is None or round_index < self.max_rounds


@dataclass(frozen=True, slots=True)
class Turn:
    round_index: int
    workload: ServingWorkload
    contestant: Contestant

    def __str__(self) -> str:
        return f"round {self.round_index + 1}: {self.workload.name} on {self.contestant.name}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of an engine. `other_cpu`: the share of the machine that neither it nor the client used, but others."""

    engine: str
    round_index: int
    report: Report
    other_cpu: float


@dataclass(slots=True)
class Outcome:
    """All that was measured, and why an engine has no figures, or none after some round."""

    measurements: list[Measurement] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    is_interrupted: bool = False


def turns(contestants: Sequence[Contestant], workloads: Sequence[ServingWorkload], num_rounds: int) -> Iterator[Turn]:
    """Every turn, in order."""
    for round_index in range(num_rounds):
        first = round_index % len(contestants)
        for workload in workloads:
            for contestant in (*contestants[first:], *contestants[:first]):
                if contestant.plays_in(round_index):
                    yield Turn(round_index, workload, contestant)


def run_rounds(planned: Sequence[Turn], writer: PromptWriter, seed: int, needed: str) -> Outcome:
    """Take every turn; within a round a workload has the same prompts for all. An engine that fails is dropped.

    Ctrl-C ends it early, with what was measured until then; so does a failure of `needed`: the rest were in vain.
    """
    outcome, loads = Outcome(), _Loads(writer, seed)
    try:
        for number, turn in enumerate(planned, 1):
            if needed in outcome.dropped:
                break
            if turn.contestant.name not in outcome.dropped:
                with working(f"[{number} of {len(planned)}] {turn}"):
                    _take(turn, loads, outcome)
    except KeyboardInterrupt:
        outcome.is_interrupted = True
    return outcome


def _take(turn: Turn, loads: "_Loads", outcome: Outcome) -> None:
    load = loads.of(turn)
    others = OtherCpu()
    try:
        report = turn.contestant.runner.measure(load)
    except EngineUnavailable as error:
        outcome.dropped[turn.contestant.name] = f"{turn.workload.name}: {error}"
        sys.stderr.write(f"dropped: {turn.contestant.name}: {error}\n")
        return
    outcome.measurements.append(Measurement(turn.contestant.name, turn.round_index, report, others.share()))


class _Loads:
    """The load of a turn; kept while turns ask for the same."""

    def __init__(self, writer: PromptWriter, seed: int) -> None:
        self._writer = writer
        self._seed = seed
        self._last: Load | None = None

    def of(self, turn: Turn) -> Load:
        seed = self._seed + turn.round_index
        last = self._last
        if last is None or last.seed != seed or last.workload is not turn.workload:
            last = self._last = self._writer.load(turn.workload, seed)
        return last
