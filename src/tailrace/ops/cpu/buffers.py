"""Which activations share memory: each buffer lives from its first writer to its last reader. Knows only intervals."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Lifetime", "plan_offsets"]

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `num_bytes` that is needed during the stages [first, last], both included."""

    num_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Placed:
    start: int
    end: int
    lifetime: Lifetime


def plan_offsets(lifetimes: Iterable[Lifetime]) -> tuple[tuple[int, ...], int]:
    """Byte offsets of the buffers and the memory they need together: no two that live at once overlap.

    The largest are placed first, each into the lowest gap that is free during its life.
    """
    ordered = list(enumerate(lifetimes))
    placed: list[_Placed] = []
    offsets = [0] * len(ordered)
    for index, lifetime in sorted(ordered, key=lambda item: -item[1].num_bytes):
        start = _lowest_gap(lifetime, placed)
        offsets[index] = start
        placed.append(_Placed(start, start + _aligned(lifetime.num_bytes), lifetime))
    return tuple(offsets), max((item.end for item in placed), default=0)


def _lowest_gap(lifetime: Lifetime, placed: list[_Placed]) -> int:
    start = 0
    for other in sorted(placed, key=lambda item: item.start):
        if not _overlaps(lifetime, other.lifetime):
            continue
        if start + lifetime.num_bytes <= other.start:
            break
        start = max(start, other.end)
    return start


def _overlaps(one: Lifetime, other: Lifetime) -> bool:
    return one.first <= other.last and other.first <= one.last


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
