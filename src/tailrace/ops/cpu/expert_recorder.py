"""Hands the stages of mixtures of experts to the native program, and keeps what counts their experts' rows."""

import numpy as np
from numpy.typing import NDArray

from tailrace.ops import _native
from tailrace.ops.cpu.activations import ActivationMemory, Codes
from tailrace.ops.cpu.residency import ResidentExperts
from tailrace.ops.cpu.stages import (
    DispatchStage,
    ExpertDownStage,
    ExpertGatedStage,
    RouteStage,
    RowForms,
)
from tailrace.ops.cpu.store import WeightStore
from tailrace.ops.program import Experts

__all__ = ["ExpertLoads", "ExpertRecorder", "ExpertStage"]

ExpertStage = RouteStage | DispatchStage | ExpertGatedStage | ExpertDownStage


class ExpertLoads:
    """How many rows every expert of every mixture has computed. May be read while a step runs."""

    def __init__(self) -> None:
        self._loads: list[_native.ExpertLoad] = []

    def new(self, num_experts: int) -> _native.ExpertLoad:
        """The counts of one more mixture."""
        self._loads.append(_native.ExpertLoad(num_experts))
        return self._loads[-1]

    def read(self) -> tuple[NDArray[np.uint64], ...]:
        """Of each mixture, in order, the rows of each expert since the program was loaded, [num_experts]."""
        return tuple(np.array(load.num_rows, np.uint64) for load in self._loads)


class ExpertRecorder:
    """Hands over stages in the order in which they were lowered: those of one mixture follow each other."""

    def __init__(
        self,
        builder: _native.Builder,
        store: WeightStore,
        memory: ActivationMemory,
        resident: ResidentExperts | None = None,
    ) -> None:
        self.loads = ExpertLoads()
        self._resident = resident
        self._builder = builder
        self._store = store
        self._memory = memory
        self._plan = _native.ExpertPlan()
        self._mixtures: dict[Experts, _native.MixtureBuilder] = {}

    def record(self, stage: ExpertStage) -> None:
        """Add one stage."""
        mixture = self._mixture(stage.op)
        match stage:
            case RouteStage(op=op, logits=logits):
                bias = None if op.bias is None else self._store.id_of(op.bias)
                mixture.route(self._memory.shared[logits], bias, self.loads.new(op.routing.num_experts))
            case DispatchStage(op=op, x=x, out=out):
                mixture.dispatch(op.x.cols, self._places(x), self._places(out))
            case ExpertGatedStage(op=op, x=x, places=places, out=out):
                gates, ups = self._store.ids_of(op.gate), self._store.ids_of(op.up)
                mixture.gated(self._places(x), self._places(places), gates, ups, self._places(out))
            case ExpertDownStage(op=op, x=x, residual=residual, out=out):
                downs, offsets = self._store.ids_of(op.down), self._memory.shared
                mixture.down(self._places(x), downs, offsets[residual], offsets[out])

    def _mixture(self, op: Experts) -> _native.MixtureBuilder:
        if op not in self._mixtures:
            routing = op.routing
            self._mixtures[op] = _native.MixtureBuilder(
                self._builder,
                self._plan,
                samples=op.x.rows == "samples",
                num_experts=routing.num_experts,
                top_k=routing.top_k,
                sigmoid=routing.scoring == "sigmoid",
                num_groups=routing.num_groups,
                top_groups=routing.top_groups,
                ranked_by_two=routing.group_rank == "top two",
                normalized=routing.normalize,
                scale=routing.scale,
            )
            if self._resident is not None:
                self._mixtures[op].reside(self._resident.native, self._resident.add(op))
        return self._mixtures[op]

    def _places(self, forms: RowForms) -> tuple[int | None, Codes | None]:
        return (
            None if forms.floats is None else self._memory.shared[forms.floats],
            None if forms.codes is None else self._memory.codes(forms.codes),
        )
