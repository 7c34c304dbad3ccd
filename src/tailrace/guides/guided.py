"""One answer that follows a grammar: what its next token may be, and what it has to be near the end."""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tailrace.guides.matcher import GuideMatcher
from tailrace.guides.reserve import Reserve
from tailrace.guides.vocabulary import GuideVocabulary
from tailrace.types import Guide

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Guided"]

_COUNT = re.compile(r'"min(?:Items|Length|Properties)"\s*:\s*(\d{1,9})|[{~]\s*(\d{1,9})')
_MANY = 1 << 20


class Guided:
    """Made for an answer of at most `max_tokens`, of which it has `output_ids`. One thread at a time may call it.

    However early `max_tokens` ends it, the answer is whole: near the end a token is taken only if a closing is known
    that fits behind it, else the first of the closing known before. Far from it nothing is done for that, but to look
    now and then how long a closing is. All raise GuideError for a grammar that has become too complex.
    """

    def __init__(
        self, vocabulary: GuideVocabulary, guide: Guide, max_tokens: int, output_ids: Sequence[int] = ()
    ) -> None:
        self._vocabulary = vocabulary
        self._grammar = guide.grammar
        self._matcher = GuideMatcher(vocabulary, guide, output_ids)
        self._growth = _growth(guide.grammar)
        self._behind = list(output_ids)  # tokens that the reserve has not been told of
        self._next_look = max_tokens - len(output_ids)  # when so many tokens are left
        self._eos_ids = vocabulary.table.eos_ids
        self.is_cut = False

    @property
    def is_finished(self) -> bool:
        """Whether nothing may follow: it has ended, or is whole and cannot go on."""
        return self._matcher.is_stopped

    @property
    def allows_end(self) -> bool:
        """Whether what there is, is a whole answer."""
        return self._matcher.allows_end

    def fill(self, mask: "NDArray[np.uint32]") -> None:
        """Set the bit of each token that may come next; clear all others. Leaves the interpreter to other threads."""
        self._matcher.fill(mask)

    def offer(self, token_id: int, num_left: int) -> int:
        """The answer goes on with this token, which the mask allows, or with the one given back.

        That is another one, and the answer `is_cut` from then on, where its end would not fit into `num_left` tokens,
        as many as may follow.
        """
        taken = self._secured(token_id, num_left) if num_left < self._next_look else self._noted(token_id)
        self._matcher.accept(taken)
        self.is_cut |= taken != token_id
        return taken

    @cached_property
    def _reserve(self) -> Reserve:
        return Reserve(self._vocabulary, self._grammar)

    def prepare(self) -> None:
        """Search for the first closing now: it takes long, and `offer` would do it else."""
        self._look(self._next_look)

    def _look(self, num_left: int) -> tuple[int | None, int]:
        """The length of a closing, if one is known, and how many tokens may be taken before another look."""
        self._reserve.follow(self._behind)
        self._behind.clear()
        length = self._reserve.look(num_left)
        num_free = self._num_free(length, num_left)
        self._next_look = num_left - num_free
        return length, num_free

    def _noted(self, token_id: int) -> int:
        self._behind.append(token_id)
        return token_id

    def _secured(self, token_id: int, num_left: int) -> int:
        """This token, or what has to be taken for it."""
        reserve = self._reserve
        length, num_free = self._look(num_left + 1)
        if length is None or num_free > 0 or token_id in self._eos_ids:
            return self._noted(token_id)
        if reserve.secure(token_id, num_left):
            return token_id
        closing_id = reserve.advance()
        return self._eos_ids[0] if closing_id is None else closing_id

    def _num_free(self, length: int | None, num_left: int) -> int:
        """How many tokens may be taken before a closing has to be looked for again.

        Assumes that they make it longer by `_growth` at once, and each by an eighth of that besides.
        """
        if length is None:  # a search that finds nothing takes long: it is tried again after a while
            return num_left // 8
        return max(0, num_left - length - self._growth) // (1 + self._growth // 8)


def _growth(grammar: str) -> int:
    """Tokens by which a single one may make the closing longer, by a rough measure: all that a grammar can demand."""
    counts = [max(1, int(one or other)) for one, other in _COUNT.findall(grammar)]
    return min(32 + len(grammar) // 8 * math.prod(counts), _MANY)
