"""How evenly the tokens of a mixture of experts spread: read from whoever counts them, whenever somebody looks."""

from collections.abc import Callable, Mapping, Sequence

from tailrace.telemetry.catalogs import steps as catalog
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["ExpertCounts", "ExpertMetrics"]

ExpertCounts = Mapping[int, Sequence[int]]  # of each layer that is a mixture, the tokens each of its experts computed


class ExpertMetrics:
    """Shows nothing until `watch` has said where the counts are, and nothing of a model without experts."""

    def __init__(self) -> None:
        self._read: Callable[[], ExpertCounts] = dict
        self._tokens = LabelledNumber(catalog.EXPERT_TOKENS)
        self._imbalance = LabelledNumber(catalog.EXPERT_IMBALANCE)
        self.series: tuple[Series, ...] = (self._tokens, self._imbalance)

    def watch(self, read: Callable[[], ExpertCounts]) -> None:
        """Take the counts since the model was loaded from `read`, in any thread."""
        self._read = read

    def counts(self) -> ExpertCounts:
        """The counts as they are now."""
        return self._read()

    def refresh(self) -> None:
        """Bring the series up to date. What an engine before this one has counted stays in that of tokens."""
        for layer, tokens in self._read().items():
            total = sum(tokens)
            self._tokens.follow(total, str(layer))
            self._imbalance.set(max(tokens) * len(tokens) / total if total else 1.0, str(layer))
