"""Which requests live about as long as each other: blocks of those that end together become free together.

Three groups, found while requests come by: an online k-means over the logarithms of prompt length, expected output and
what the class usually says, each in standard deviations of the latest traffic: what is the same for all separates
nobody. Knows no block.
"""

import math
from typing import NamedTuple

__all__ = ["NUM_GROUPS", "RequestGroups", "Shape"]

NUM_GROUPS = 3
_MIN_RATE = 1.0 / 256.0  # centres and moments forget what came so many requests before
_MIN_DEVIATION = 1e-3
_NUM_FIRST = 32  # requests told apart by size alone: they bring each centre to where some are
_SIZE_BOUND = 0.5  # deviations from the mean at which a request is small or large


class Shape(NamedTuple):
    """What is known of a request before it starts, in tokens."""

    num_prompt_tokens: int
    num_expected_tokens: int  # of output
    num_class_tokens: int  # that answers of its class usually have


Point = tuple[float, ...]


class _Moments:
    """Mean and deviation of one feature over the latest requests."""

    def __init__(self) -> None:
        self._mean = 0.0
        self._variance = 0.0

    def add(self, value: float, rate: float) -> None:
        gap = value - self._mean
        self._mean += rate * gap
        self._variance = (1.0 - rate) * (self._variance + rate * gap * gap)

    def standard(self, value: float) -> float:
        return (value - self._mean) / max(math.sqrt(self._variance), _MIN_DEVIATION)


class RequestGroups:
    """Groups 0 to 2, which begin as small, middling and large requests. A label stays with its centre."""

    def __init__(self) -> None:
        self._moments = [_Moments() for _ in Shape._fields]
        self._centres: list[Point] = [(side,) * len(Shape._fields) for side in (-1.0, 0.0, 1.0)]
        self._num_in = [0] * NUM_GROUPS
        self._num_seen = 0

    def group_of(self, shape: Shape) -> int:
        """The nearest group; among equals the smaller requests'."""
        return self._group_at(self._point(shape))

    def place(self, shape: Shape) -> int:
        """The group of a newcomer, whose centre goes a little towards it."""
        self._num_seen += 1
        for moments, count in zip(self._moments, shape, strict=True):
            moments.add(math.log2(1 + count), _rate(self._num_seen))
        point = self._point(shape)
        group = self._group_at(point)
        self._num_in[group] += 1
        rate = _rate(self._num_in[group])
        self._centres[group] = tuple(
            old + rate * (new - old) for old, new in zip(self._centres[group], point, strict=True)
        )
        return group

    def _point(self, shape: Shape) -> Point:
        return tuple(
            moments.standard(math.log2(1 + count)) for moments, count in zip(self._moments, shape, strict=True)
        )

    def _group_at(self, point: Point) -> int:
        if self._num_seen <= _NUM_FIRST:
            return _group_by_size(point)
        return min(range(NUM_GROUPS), key=lambda group: math.dist(point, self._centres[group]))


def _group_by_size(point: Point) -> int:
    """By the mean of the features in which requests differ."""
    telling = [value for value in point if abs(value) > _MIN_DEVIATION]
    size = sum(telling) / len(telling) if telling else 0.0
    return 1 + (size > _SIZE_BOUND) - (size < -_SIZE_BOUND)


def _rate(count: int) -> float:
    """The mean of the first few, then a moving one."""
    return max(1.0 / count, _MIN_RATE)
