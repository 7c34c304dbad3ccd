"""What an op of the reference can see while a step runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import Experts, Tensor, Weight
from tailrace.ops.reference_cache import KvCache, Rows
from tailrace.ops.reference_math import Array

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The weights, the caches, where the step's rows stand, and what earlier ops computed.

    `expert_loads` counts the rows of each expert, of mixtures by the tensor that they put out.
    """

    weights: Mapping[str, Array]
    caches: Sequence[KvCache]
    rows: Rows
    tensors: dict[int, Array] = field(default_factory=dict)
    expert_loads: Mapping[int, NDArray[np.uint64]] = field(default_factory=dict)

    def __getitem__(self, operand: Tensor | Weight) -> Array:
        return self.weights[operand.name] if isinstance(operand, Weight) else self.tensors[operand.index]

    def count(self, mixture: Experts, expert: int) -> None:
        """A row has gone through one of a mixture's experts."""
        if (load := self.expert_loads.get(mixture.out.index)) is not None:
            load[expert] += 1

    def matrices(self, weight: Weight, count: int) -> Array:
        """A weight that holds `count` matrices one below the other, [count, rows, cols]."""
        return self[weight].reshape(count, -1, weight.shape[1])
