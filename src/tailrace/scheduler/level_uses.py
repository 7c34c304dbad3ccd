"""What each level below the engine was asked for, and what came of it: by which rules judge whether it is of use."""

from collections import Counter
from collections.abc import Mapping

from tailrace.kvcache.fetching import FetchCosts
from tailrace.kvcache.transfer import LookupAnswer
from tailrace.records import LevelUse
from tailrace.scheduler.level_modes import LevelModes
from tailrace.types import Level

__all__ = ["LevelUses"]


class LevelUses:
    """Counts since the start. A level is asked for what those before it lack."""

    def __init__(self, costs: FetchCosts, modes: LevelModes) -> None:
        self._costs = costs
        self._modes = modes
        self._uses: dict[Level, LevelUse] = {}

    @property
    def totals(self) -> Mapping[Level, LevelUse]:
        return self._uses

    def looked_up(self, answer: LookupAnswer, num_blocks: int) -> None:
        """Some levels were asked for so many blocks."""
        num_found, num_left = Counter(answer.levels), num_blocks
        for level, took_s in answer.asked:
            num_given = num_found[level]
            self._add(level, LevelUse(1, num_left, num_given, took_s - self._costs.saved_s(level, num_given)))
            num_left -= num_given

    def failed(self, level: Level, num_missing: int, took_s: float) -> None:
        """Of what it was said to have, so many blocks did not come."""
        self._add(level, LevelUse(0, 0, -num_missing, took_s + self._costs.saved_s(level, num_missing)))

    def _add(self, level: Level, use: LevelUse) -> None:
        weight = self._modes.weight(level)
        weighed = LevelUse(*(weight * amount for amount in use))
        self._uses[level] = self._uses.get(level, LevelUse()).plus(weighed)
