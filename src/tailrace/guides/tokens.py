"""What each token of a model stands for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["TokenTable"]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The bytes of each token. `special_ids` are not text: a grammar allows them by their ids alone, as `<[17]>`.

    An id has no bytes where the model's output layer is wider than its vocabulary.
    """

    tokens: Sequence[bytes] = field(repr=False)
    special_ids: frozenset[int]
    eos_ids: tuple[int, ...]
