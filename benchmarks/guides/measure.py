"""One grammar under one vocabulary: what it takes to make it, what a token of a long answer takes, and what the end."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tailrace.guides.guided import Guided
from tailrace.guides.reserve import Reserve
from tailrace.guides.vocabulary import GuideVocabulary
from tailrace.types import Guide

__all__ = ["Figures", "measure", "timed_us"]

_TOKENS = 200  # of an answer
_NEAR = 40  # more than the shortest that one has, which is cut


@dataclass(frozen=True, slots=True)
class Figures:
    """Microseconds of processor time, medians and 99th percentiles. `near` is a token whose closing is looked for."""

    compile_us: float
    mask_us: float
    mask_p99_us: float
    accept_us: float
    near_us: float
    near_p99_us: float
    closing_us: float
    closing_tokens: int


def timed_us(call: Callable[[], object]) -> float:
    started = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - started) / 1000


def measure(vocabulary: GuideVocabulary, grammar: str, rounds: int) -> Figures:
    reserve = Reserve(vocabulary, grammar)
    closing_us = timed_us(lambda: reserve.look(4096))
    closing_tokens = reserve.look(4096) or 0
    far, near = _Spent(vocabulary.num_words), _Spent(vocabulary.num_words)
    for seed in range(rounds):
        far.answer(Guided(vocabulary, Guide(grammar), 1 << 20), 1 << 20, random.Random(seed))
        max_tokens = closing_tokens + _NEAR
        near.answer(Guided(vocabulary, Guide(grammar), max_tokens), max_tokens, random.Random(seed))
    return Figures(
        median([timed_us(lambda: vocabulary.compile(grammar)) for _ in range(5)]),
        median(far.masks_us),
        float(np.percentile(far.masks_us, 99)),
        median(far.offers_us),
        median(near.offers_us),
        float(np.percentile(near.offers_us, 99)),
        closing_us,
        closing_tokens,
    )


class _Spent:
    def __init__(self, num_words: int) -> None:
        self.masks_us: list[float] = []
        self.offers_us: list[float] = []
        self._mask = np.zeros(num_words, np.uint32)

    def answer(self, guided: Guided, max_tokens: int, rng: random.Random) -> None:
        """Of a model that draws among the allowed tokens."""
        for num_left in range(max_tokens - 1, max(-1, max_tokens - 1 - _TOKENS), -1):
            if guided.is_finished:
                return
            self.masks_us.append(timed_us(partial(guided.fill, self._mask)))
            self.offers_us.append(timed_us(partial(guided.offer, _drawn(self._mask, rng), num_left)))


def _drawn(mask: NDArray[np.uint32], rng: random.Random) -> int:
    return int(rng.choice(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))))
