"""From the times of the stages that the native program ran to what is told of a step's ops."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.costs import ProgramCosts
from tailrace.ops.cpu.lowering import LoweredStage
from tailrace.ops.cpu.stages import AnglesStage, HeadGemmStage, LatentStoreStage, RouteStage, Stage
from tailrace.ops.op_kinds import OpKind, kinds_of
from tailrace.ops.op_times import KindSums
from tailrace.ops.program import Program
from tailrace.ops.step_work import StepWork
from tailrace.types import OpTime

__all__ = ["StageTimes"]


class StageTimes:
    """Knows of each stage which op it computes, and so of what kind it is, and what it moves.

    Behind the stages comes drawing. A stage that took no time was done together with the next one that did: what it
    moves and computes is counted there.
    """

    def __init__(self, program: Program, stages: Sequence[LoweredStage], costs: ProgramCosts) -> None:
        of_ops = kinds_of(program)
        kinds = [_kind_of(lowered.stage, of_ops[lowered.op]) for lowered in stages]
        # Of several stages the last: what comes before the one that moves something prepares it, for other layers too.
        places = {(lowered.op, kind): place for place, (lowered, kind) in enumerate(zip(stages, kinds, strict=True))}
        self._costs = costs
        self._places = np.array([places[part] for part in costs.parts], np.intp)
        self._sums = KindSums([*kinds, OpKind.SAMPLING, OpKind.WAITING])

    def of(self, work: StepWork, busy_s: Sequence[float], waited_s: Sequence[float]) -> tuple[OpTime, ...]:
        """Of a step, from the seconds that each stage was busy and waited, and drawing behind them."""
        seconds = np.array([*busy_s, sum(waited_s)])
        places = _next_busy(np.array(busy_s))[self._places]
        return self._sums.of(seconds, places, self._costs.of(work))


def _kind_of(stage: Stage, kind_of_op: OpKind) -> OpKind:
    """As its op, where that is not lowered to stages of several kinds."""
    match stage:
        case AnglesStage() | LatentStoreStage():
            return OpKind.ROPE
        case HeadGemmStage():
            return OpKind.LATENT
        case RouteStage():
            return OpKind.ROUTE
        case _:
            return kind_of_op


def _next_busy(busy_s: NDArray[np.float64]) -> NDArray[np.intp]:
    """Of each stage the first one, from itself on, that took time; the last where none did."""
    last = len(busy_s) - 1
    places = np.where(busy_s > 0.0, np.arange(len(busy_s)), last)
    return np.minimum.accumulate(places[::-1])[::-1]
