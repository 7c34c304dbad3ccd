"""Times and costs of a step, summed over what is of one kind."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.op_kinds import OpKind
from tailrace.types import OpTime

__all__ = ["KindSums"]

_Values = NDArray[np.float64]


class KindSums:
    """Of what a back end times one by one, whose kinds are known beforehand. Kinds are told in the order of these."""

    def __init__(self, kinds: Sequence[OpKind]) -> None:
        self._names = tuple(dict.fromkeys(kind.value for kind in kinds))
        self._kinds = np.array([self._names.index(kind.value) for kind in kinds], np.intp)

    def of(self, seconds: _Values, places: NDArray[np.intp], costs: tuple[_Values, _Values]) -> tuple[OpTime, ...]:
        """From what each took, and the costs (`ProgramCosts.of`) of the parts of ops that were done in these places.

        Kinds of which there was nothing are left out.
        """
        of_parts = self._kinds[places]
        sums = [
            np.bincount(kinds, values, len(self._names)).tolist()
            for kinds, values in ((self._kinds, seconds), *((of_parts, values) for values in costs))
        ]
        times = (OpTime(name, *values) for name, *values in zip(self._names, *sums, strict=True))
        return tuple(time for time in times if any(time[1:]))
