"""Which inputs of a matrix share a scale: those beside each other, or, where it was reordered, whichever g_idx says."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import GROUP
from tailrace.weights.fields import Fields
from tailrace.weights.safetensors import SafetensorsTensor

__all__ = ["ONE_GROUP", "Grouping", "read_group_size"]

ONE_GROUP = -1  # files write it for a group of all inputs


def read_group_size(settings: Fields, default: int = 128) -> int:
    size = settings.integer("group_size", default, low=ONE_GROUP)
    if size == 0:
        raise settings.wrong("group_size", f"the inputs of a group, or {ONE_GROUP} for all")
    return size


@dataclass(frozen=True)
class Grouping:
    """`stored` is the group of each input, where the file says it; without `is_reordered` only one order is right."""

    num_inputs: int
    group_size: int
    stored: SafetensorsTensor | None = None
    is_reordered: bool = False

    @property
    def num_groups(self) -> int:
        """The last may be smaller."""
        return 1 if self.group_size == ONE_GROUP else -(-self.num_inputs // self.group_size)

    @cached_property
    def has_runs(self) -> bool:
        """Whether each aligned run of 32 inputs lies in one group, as packed formats want it."""
        if self.num_inputs % GROUP:
            return False
        if not self.is_reordered:
            return self.num_groups == 1 or self.group_size % GROUP == 0
        runs = self.of_inputs().reshape(-1, GROUP)
        return bool((runs == runs[:, :1]).all())

    def of_runs(self) -> NDArray[np.integer[Any]]:
        """The group of each aligned run of 32 inputs."""
        return self.of_inputs()[::GROUP]

    def of_inputs(self) -> NDArray[np.integer[Any]]:
        """The group of each input. Raises CheckpointError when the file names one that cannot be."""
        size = self.num_inputs if self.group_size == ONE_GROUP else self.group_size
        plain = np.arange(self.num_inputs) // size
        if self.stored is None:
            return plain
        groups = self.stored.bits()
        if groups.size and not 0 <= groups.min() <= groups.max() < self.num_groups:
            raise CheckpointError(f"{self.stored.where} names groups outside of the {self.num_groups} that there are")
        if not self.is_reordered and not np.array_equal(groups, plain):
            raise CheckpointError(
                f"{self.stored.where} has the inputs in another order than groups of {size}, though desc_act is false; "
                "if the model was quantised in that order, set desc_act to true"
            )
        return groups
