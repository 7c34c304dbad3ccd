"""How long an answer will be: a high quantile of the latest of its class, and a margin. Knows no block, no request."""

import math
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from dataclasses import dataclass

from tailrace.errors import SetupError

__all__ = ["ExpectedLengths", "RecentLengths", "ReservationConfig"]


@dataclass(frozen=True, slots=True)
class ReservationConfig:
    quantile: float = 0.95
    margin: float = 0.10  # on top of the quantile
    num_recent: int = 512  # answers of a class that count
    max_classes: int = 64  # the class unused for longest is forgotten first

    def __post_init__(self) -> None:
        if not 0.0 < self.quantile <= 1.0 or self.margin < 0.0:
            raise SetupError(f"a quantile of {self.quantile} and a margin of {self.margin}: use (0, 1] and 0 or more")
        if self.num_recent < 1 or self.max_classes < 1:
            raise SetupError(f"{self.num_recent} answers of {self.max_classes} classes: keep at least one of each")


class RecentLengths:
    """The last few lengths, kept in order beside: a quantile is an index, and a new length two bisections."""

    def __init__(self, num_recent: int) -> None:
        self._num_recent = num_recent
        self._latest: deque[int] = deque()
        self._sorted: list[int] = []

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, num_tokens: int) -> None:
        if len(self._latest) == self._num_recent:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._latest.append(num_tokens)
        insort(self._sorted, num_tokens)

    def quantile(self, share: float) -> int:
        """The least length that `share` of them do not exceed. There must be one."""
        return self._sorted[max(math.ceil(share * len(self._sorted)) - 1, 0)]


class ExpectedLengths:
    """Lengths of answers by class. One that nobody has heard of is expected to say nothing: nothing is reserved."""

    def __init__(self, config: ReservationConfig | None = None) -> None:
        self.config = config or ReservationConfig()
        self._recent: OrderedDict[str, RecentLengths] = OrderedDict()  # the class used last comes last

    def observe(self, class_name: str, num_output_tokens: int) -> None:
        """An answer came to its own end. One that was cut off says nothing of its length: leave it out."""
        recent = self._recent.get(class_name)
        if recent is None:
            if len(self._recent) == self.config.max_classes:
                self._recent.popitem(last=False)
            recent = self._recent[class_name] = RecentLengths(self.config.num_recent)
        self._recent.move_to_end(class_name)
        recent.add(num_output_tokens)

    def usual(self, class_name: str) -> int:
        """The median of the answers of a class; 0 of one that nobody has heard of."""
        recent = self._recent.get(class_name)
        return 0 if recent is None else recent.quantile(0.5)

    def expected(self, class_name: str, max_tokens: int) -> int:
        """Output tokens to reserve room for, at most `max_tokens`."""
        recent = self._recent.get(class_name)
        if recent is None:
            return 0
        wanted = recent.quantile(self.config.quantile) * (1.0 + self.config.margin)
        return min(math.ceil(wanted), max_tokens)
