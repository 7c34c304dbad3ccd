"""From measurements to standings: for each aim the medians of all engines, the best peer, and our ratio to it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.aims import AIMS, Aim
from benchmarks.peers.rounds import Measurement

__all__ = ["Standing", "standings"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`medians` over rounds, by engine. `ratio`: ours / the best peer's; `in_rounds`: the same in each single round."""

    aim: Aim
    medians: Mapping[str, float]
    best_peer: str | None
    ratio: float | None
    in_rounds: Sequence[float]

    @property
    def is_met(self) -> bool | None:
        """None: there is no peer to tell by."""
        return None if self.ratio is None else self.aim.is_met(self.ratio)


def standings(measurements: Sequence[Measurement], ours: str, aims: Sequence[Aim] = AIMS) -> list[Standing]:
    """One for each aim whose workload we ran ourselves."""
    return [standing for aim in aims if (standing := _standing(aim, measurements, ours)) is not None]


def _standing(aim: Aim, measurements: Sequence[Measurement], ours: str) -> Standing | None:
    by_engine: dict[str, dict[int, float]] = {}
    for measurement in measurements:
        value = aim.figure.of(measurement.report)
        if measurement.report.info.label == aim.workload and not math.isnan(value):
            by_engine.setdefault(measurement.engine, {})[measurement.round_index] = value
    if ours not in by_engine:
        return None
    medians = {engine: median(values.values()) for engine, values in by_engine.items()}
    best_peer = _best(aim, {engine: value for engine, value in medians.items() if engine != ours})
    ratio = None if best_peer is None else medians[ours] / medians[best_peer]
    return Standing(aim, medians, best_peer, ratio, list(_ratios(aim, by_engine, ours)))


def _best(aim: Aim, values: Mapping[str, float]) -> str | None:
    if not values:
        return None
    pick = max if aim.figure.is_rate else min
    return pick(values, key=lambda engine: values[engine])


def _ratios(aim: Aim, by_engine: Mapping[str, Mapping[int, float]], ours: str) -> Iterator[float]:
    for round_index, value in by_engine[ours].items():
        peers = {engine: values[round_index] for engine, values in by_engine.items() if round_index in values}
        best_peer = _best(aim, {engine: peer for engine, peer in peers.items() if engine != ours})
        if best_peer is not None:
            yield value / peers[best_peer]
