"""What a metric is: one row of a catalog."""

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Kind", "Metric"]


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. Counters are named here without the `_total` that the exposition adds."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, ascending, without +Inf
    aliases: tuple[str, ...] = ()  # under these, the sum over service classes

    @property
    def scraped_name(self) -> str:
        """As a scraper stores it; of a histogram what its series begin with."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    def without(self, label: str) -> "Metric":
        """The same row without a label; itself if it has none of that name."""
        if label not in self.labels:
            return self
        return replace(self, labels=tuple(each for each in self.labels if each != label))
