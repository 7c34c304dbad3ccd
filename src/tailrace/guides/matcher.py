"""Where an answer stands in its grammar, and which tokens may come next."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailrace.errors import GuideError
from tailrace.guides.vocabulary import GuideVocabulary, reason_of
from tailrace.types import Guide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GuideMatcher"]


class GuideMatcher:
    """One answer. Only one thread at a time may call it. `fill` and the constructor leave the interpreter to others.

    All but the properties raise GuideError when llguidance gives up: the grammar has become too complex.
    """

    def __init__(self, vocabulary: GuideVocabulary, guide: Guide, token_ids: Sequence[int] = ()) -> None:
        """`token_ids` are what the answer has already."""
        self._matcher = vocabulary.compile(guide.grammar)
        self._eos_ids = frozenset(vocabulary.table.eos_ids)
        self._eos_bits = [(token_id >> 5, 1 << (token_id & 31)) for token_id in self._eos_ids]
        self._is_ended = False
        for token_id in token_ids:
            self.accept(token_id)

    @property
    def allows_end(self) -> bool:
        """Whether what there is, is a whole answer."""
        return self._is_ended or self._matcher.is_accepting()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may follow but the end."""
        return self._is_ended or self._matcher.is_stopped()

    def fill(self, mask: "NDArray[np.uint32]") -> None:
        """Set the bit of each token that may come next, in `num_words` words; clear all others."""
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        self._check()
        for word, bit in self._eos_bits:  # a client's grammar may name an end by its number, as if it were text
            if int(mask[word]) & bit and not self.allows_end:
                mask[word] &= ~np.uint32(bit)

    def accept(self, token_id: int) -> None:
        """The answer goes on with this token, or ends with it."""
        if token_id in self._eos_ids:
            self._end()
        elif self._is_ended or not self._matcher.consume_token(token_id):
            self._check()
            raise GuideError(f"token {token_id} is not allowed here")

    def _end(self) -> None:
        if not self.allows_end:
            raise GuideError("the answer may not end here")
        self._is_ended = True

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GuideError(reason_of(self._matcher))
