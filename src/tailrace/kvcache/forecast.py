"""How often something will be used in the minutes to come, from its uses a bin so far: Holt-Winters with a season.

Additive, with a trend that fades. A season is believed only while it errs less than doing without. Knows no clock: the
caller closes bins.
"""

from array import array
from dataclasses import dataclass

__all__ = ["Forecast", "ForecastConfig"]

_ERROR_GAIN = 0.05  # how much of each error is taken into the running error of a way to foretell


@dataclass(frozen=True, slots=True)
class ForecastConfig:
    """`season_bins` make a season, a day as a rule. The others say how much of each error is taken over, in [0, 1]."""

    season_bins: int
    level_gain: float = 0.3
    trend_gain: float = 0.02
    season_gain: float = 0.2
    fading: float = 0.9  # of the trend, a bin


class Forecast:
    """One series. Its first season is foretold by level and trend; from then on its bins are the first pattern.

    A bin without an observation leaves pattern and level as they are, and lets the trend go on.
    """

    __slots__ = ("_beside", "_config", "_num_bins", "_pattern", "_plain")

    def __init__(self, config: ForecastConfig) -> None:
        self._config = config
        self._num_bins = 0
        self._plain = _Line(config)
        self._beside: _Line | None = None  # of what is left without the pattern; None: in the first season
        self._pattern = array("d")  # by place in the season; in the first season, what was counted

    @property
    def num_bins(self) -> int:
        return self._num_bins

    def observe(self, count: float | None) -> None:
        """The next bin is over; None: nobody counted in it."""
        if self._beside is not None:
            self._learn(count, self._beside)
        else:
            self._pattern.append(self._plain.after(1) if count is None else count)
        self._plain.observe(count)
        self._num_bins += 1
        if self._num_bins == self._config.season_bins:
            self._begin_season()

    def next(self, ahead: int = 1) -> float:
        """What bin number `ahead` from now will count, 1 being the one that is open. Never below zero."""
        line = self._beside
        if line is None or line.mean_error > self._plain.mean_error:
            return max(self._plain.after(ahead), 0.0)
        return max(line.after(ahead) + self._pattern[self._place(ahead)], 0.0)

    def _place(self, ahead: int) -> int:
        return (self._num_bins + ahead - 1) % self._config.season_bins

    def _learn(self, count: float | None, line: "_Line") -> None:
        place = self._place(1)
        line.observe(None if count is None else count - self._pattern[place])
        if count is not None:
            self._pattern[place] += self._config.season_gain * (count - line.level - self._pattern[place])

    def _begin_season(self) -> None:
        """What the bins of the first season were becomes the pattern around their mean."""
        mean = sum(self._pattern) / len(self._pattern)
        self._pattern = array("d", [count - mean for count in self._pattern])
        self._beside = _Line(self._config, mean, self._plain.mean_error)


class _Line:
    """A level with a trend, and how far off it was from bin to bin."""

    __slots__ = ("_config", "_has_begun", "_trend", "level", "mean_error")

    def __init__(self, config: ForecastConfig, level: float | None = None, mean_error: float = 0.0) -> None:
        self._config = config
        self._has_begun = level is not None
        self.level = level or 0.0
        self._trend = 0.0
        self.mean_error = mean_error

    def after(self, num_bins: int) -> float:
        fading = self._config.fading
        reach = fading * (1.0 - fading**num_bins) / (1.0 - fading) if fading < 1.0 else num_bins
        return self.level + reach * self._trend

    def observe(self, value: float | None) -> None:
        if not self._has_begun:
            self._has_begun, self.level = value is not None, value or 0.0
            return
        config = self._config
        expected, slope = self.after(1), config.fading * self._trend
        error = 0.0 if value is None else value - expected
        self.level = expected + config.level_gain * error
        self._trend = slope + config.trend_gain * config.level_gain * error
        if value is not None:
            self.mean_error += _ERROR_GAIN * (abs(error) - self.mean_error)
