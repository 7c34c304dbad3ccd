"""Adds up where the time of answers goes: of first tokens by the lives of their requests, of later ones by pieces."""

from collections.abc import Callable

from tailrace.telemetry.catalogs import lives as life_catalog
from tailrace.telemetry.life_parts import FIRST_TOKEN_PARTS, parts_of
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["TOKEN_PATH_PARTS", "LifeMetrics"]

TOKEN_PATH_PARTS = ("ring", "text", "write", "client")


class LifeMetrics:
    """Written by the thread of the event loop."""

    def __init__(self) -> None:
        path = [(part,) for part in TOKEN_PATH_PARTS]
        self._first_tokens = Number(life_catalog.FIRST_TOKENS)
        self._parts = LabelledNumber(life_catalog.FIRST_TOKEN_PART_SECONDS, [(part,) for part in FIRST_TOKEN_PARTS])
        self._path_seconds = LabelledNumber(life_catalog.TOKEN_PATH_SECONDS, path)
        self._path_pieces = LabelledNumber(life_catalog.TOKEN_PATH_PIECES, path)
        self._path_tokens = LabelledNumber(life_catalog.TOKEN_PATH_TOKENS, path)
        self.series: tuple[Series, ...] = tuple(vars(self).values())

    def first_token(self, life: RequestLife) -> None:
        """The first piece of an answer has been written: the life has not ended, and has all that lies before."""
        self._first_tokens.value += 1
        for part in parts_of(life):
            self._parts.add(part.end_s - part.start_s, part.name)

    def observer(self, part: str) -> Callable[[float, int], None]:
        """What is to be told of each piece that is timed, in one of the parts: its seconds, and its tokens."""
        labels = (part,)
        seconds, pieces, tokens = (each.values for each in (self._path_seconds, self._path_pieces, self._path_tokens))

        def observe(took_s: float, num_tokens: int) -> None:
            seconds[labels] += took_s
            pieces[labels] += 1
            tokens[labels] += num_tokens

        return observe
