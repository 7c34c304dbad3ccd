"""Which beginnings of prompts are used most: a bounded count, from which a server knows what to compute ahead.

Prompts are cut every so many tokens into a tree of pieces. A piece that was seen once is a hash and a number; its
tokens are kept from its second use on. Pure: time, in seconds of any clock that outlives a process, is an argument.

Counts are those of Metwally's space-saving: when the tree is full, the least used leaf makes way, and the newcomer
inherits its count as the bound of its own error. Uses fade by half in `half_life_s`, all alike.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace
from itertools import takewhile

from tailrace.kvcache.forecast import Forecast, ForecastConfig

__all__ = ["HotPrefix", "PrefixTally", "TallyConfig"]

_TOKEN_BYTES = array("I").itemsize
_LEAST_USES = 1 / 16  # what is left of one use after four half-lives: then it is forgotten
_MAX_DOUBLINGS = 64.0  # of the weight of a use, before all weights are scaled down


@dataclass(frozen=True, slots=True)
class TallyConfig:
    """`bin_s` and the forecast's season make a day. With `max_pieces` 0 nothing is kept."""

    max_pieces: int = 4096
    piece_tokens: int = 64
    max_prompt_tokens: int = 8192  # what lies behind them in a prompt is not counted
    half_life_s: float = 6 * 3600.0
    bin_s: float = 900.0
    forecast: ForecastConfig = field(default_factory=lambda: ForecastConfig(season_bins=96))


@dataclass(frozen=True, slots=True)
class HotPrefix:
    """Tokens that prompts begin with. Uses are those of its last piece; more use its beginning.

    `saved_tokens` are those that need no computing in all uses expected, were the prefix cached: times the time that a
    prompt's token takes, what it saves.
    """

    salt: str
    token_ids: tuple[int, ...]
    num_uses: float  # so far, as faded as they are old; at least so many were
    expected_uses: float  # in the time to come
    saved_tokens: float


@dataclass(slots=True, eq=False)
class _Piece:
    name: bytes
    salt: str
    parent: "_Piece | None"
    weight: float  # uses, each as heavy as it is young
    error: float  # of the weight, at most so much was never used
    num_children: int = 0
    is_queued: bool = False
    bin: int = 0  # the one that `num_in_bin` counts
    num_in_bin: int = 0
    tokens: bytes | None = None  # four bytes each
    forecast: Forecast | None = None

    def path(self) -> Iterator["_Piece"]:
        """From this piece to the first of the prompt."""
        piece: _Piece | None = self
        while piece is not None:
            yield piece
            piece = piece.parent

    def is_behind(self, name: bytes) -> bool:
        """Whether it has this name or continues the piece that has."""
        return any(piece.name == name for piece in self.path())


class PrefixTally:
    """Invariant: a piece is counted no more than the one before it, so that the least used piece of all is a leaf."""

    def __init__(self, config: TallyConfig) -> None:
        self._config = config
        self._pieces: dict[bytes, _Piece] = {}
        self._leaves: list[tuple[float, int, _Piece]] = []  # each leaf once; weights may have grown since
        self._num_queued = 0
        self._epoch_s: float | None = None
        self._bin = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def count(self, salt: str, token_ids: Sequence[int], now_s: float, num_uses: float = 1.0) -> None:
        """A prompt came. Only its whole pieces count."""
        self._advance(now_s)
        gain = self._weight(now_s) * num_uses
        parent: _Piece | None = None
        for name, tokens in self._cut(salt, token_ids):
            piece = self._pieces.get(name)
            if piece is not None:
                self._use(piece, gain, tokens)
            elif (piece := self._add(name, salt, parent, gain)) is None:
                return
            parent = piece

    def num_uses(self, salt: str, token_ids: Sequence[int], now_s: float) -> tuple[float, float]:
        """How often prompts began with these whole pieces: a count that is not too low, and by how much too high."""
        names = [name for name, _ in self._cut(salt, token_ids)]
        piece = self._pieces.get(names[-1]) if names else None
        unit = self._weight(now_s)
        return (0.0, 0.0) if piece is None else (piece.weight / unit, piece.error / unit)

    def forget(self, salt: str, token_ids: Sequence[int] = ()) -> None:
        """Drop what prompts of this salt began with: the last whole piece of these tokens and all that continue it.

        Tokens that fill no piece stand for all prompts of the salt.
        """
        names = [name for name, _ in self._cut(salt, token_ids)]
        last = names[-1] if names else None
        self._drop([one for one in self._pieces.values() if one.salt == salt and (last is None or one.is_behind(last))])

    def forget_all(self) -> None:
        self._drop(list(self._pieces.values()))

    def hottest(self, max_tokens: int, now_s: float, horizon_s: float) -> list[HotPrefix]:
        """The prefixes worth the most in the time to come, the best first; together no more than `max_tokens`.

        None is the beginning of another, and pieces that none will use are left out.
        """
        self._advance(now_s)
        self._forget_unused(now_s)
        chosen = self._choose(max_tokens, now_s, horizon_s)
        inner = {piece.parent for piece in chosen if piece.parent is not None}
        unit = self._weight(now_s)
        prefixes = [_prefix(piece, chosen, unit) for piece in chosen if piece not in inner]
        return sorted(prefixes, key=lambda prefix: -prefix.saved_tokens)

    def _forget_unused(self, now_s: float) -> None:
        least = _LEAST_USES * self._weight(now_s)
        if unused := [piece for piece in self._pieces.values() if piece.weight < least]:
            self._drop(unused)

    def _choose(self, max_tokens: int, now_s: float, horizon_s: float) -> dict[_Piece, float]:
        """The most used pieces with all before them, and the uses expected of each."""
        expected = {one: self._expected(one, now_s, horizon_s) for one in self._pieces.values() if one.tokens}
        room = max_tokens // self._config.piece_tokens
        chosen: dict[_Piece, float] = {}
        for piece in sorted(expected, key=lambda one: -expected[one]):
            if expected[piece] <= 0.0 or len(chosen) == room:
                break
            missing = list(takewhile(lambda one: one not in chosen, piece.path()))
            if len(chosen) + len(missing) <= room:
                chosen.update((one, expected[one]) for one in missing)
        return chosen

    def _expected(self, piece: _Piece, now_s: float, horizon_s: float) -> float:
        """By the forecast once it has seen something, until then at the mean rate of what is certain."""
        self._close_bins(piece)
        config, forecast = self._config, piece.forecast
        if forecast is not None and forecast.num_bins > 1:
            whole, rest = divmod(horizon_s / config.bin_s, 1.0)
            bins = [forecast.next(ahead) for ahead in range(1, math.ceil(whole + rest) + 1)]
            return sum(bins) if not rest else sum(bins[:-1]) + rest * bins[-1]
        certain = (piece.weight - piece.error) / self._weight(now_s)
        return certain * horizon_s * math.log(2) / config.half_life_s  # what a steady rate adds up to as it fades

    def _cut(self, salt: str, token_ids: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """The whole pieces, each behind a name that stands for all tokens up to its end."""
        raw = array("I", token_ids[: self._config.max_prompt_tokens]).tobytes()
        size, name = _TOKEN_BYTES * self._config.piece_tokens, salt.encode()
        for end in range(size, len(raw) + 1, size):
            tokens = raw[end - size : end]
            name = blake2b(name + tokens, digest_size=16).digest()
            yield name, tokens

    def _use(self, piece: _Piece, gain: float, tokens: bytes) -> None:
        self._close_bins(piece)
        piece.weight += gain
        piece.num_in_bin += 1
        if piece.tokens is None:
            piece.tokens, piece.forecast = tokens, Forecast(self._config.forecast)

    def _close_bins(self, piece: _Piece) -> None:
        """Of the bins that are over, the first has what was counted, and the others have nothing."""
        num_over, season = self._bin - piece.bin, self._config.forecast.season_bins
        if num_over <= 0:
            return
        if piece.forecast is not None:
            piece.forecast.observe(piece.num_in_bin)
            for _ in range((num_over - 1) if num_over <= season else season + (num_over - 1) % season):
                piece.forecast.observe(0)
        piece.bin, piece.num_in_bin = self._bin, 0

    def _add(self, name: bytes, salt: str, parent: _Piece | None, gain: float) -> _Piece | None:
        """A new piece, in the place of the least used leaf when there is no other; None: that is its own parent."""
        error = 0.0
        if len(self._pieces) >= self._config.max_pieces:
            victim = self._least_used_leaf()
            if victim is None or victim is parent:
                return None
            self._remove(victim)
            error = victim.weight
        if parent is not None:
            error = min(error, parent.weight - gain)
            parent.num_children += 1
        piece = self._pieces[name] = _Piece(name, salt, parent, error + gain, error, bin=self._bin, num_in_bin=1)
        self._queue(piece)
        return piece

    def _remove(self, leaf: _Piece) -> None:
        del self._pieces[leaf.name]
        heappop(self._leaves)
        parent = leaf.parent
        if parent is not None:
            parent.num_children -= 1
            if not parent.num_children and not parent.is_queued:
                self._queue(parent)

    def _drop(self, pieces: Sequence[_Piece]) -> None:
        """Pieces go with all that continue them."""
        for piece in pieces:
            del self._pieces[piece.name]
            if piece.parent is not None:
                piece.parent.num_children -= 1
        self._leaves = []
        for piece in self._pieces.values():
            piece.is_queued = False
            if not piece.num_children:
                self._queue(piece)

    def _queue(self, piece: _Piece) -> None:
        self._num_queued += 1
        piece.is_queued = True
        heappush(self._leaves, (piece.weight, self._num_queued, piece))

    def _least_used_leaf(self) -> _Piece | None:
        """The top of the queue, once those are settled that are no leaves any more, or that were used since."""
        while self._leaves:
            weight, order, piece = self._leaves[0]
            if piece.num_children:
                heappop(self._leaves)
                piece.is_queued = False
            elif piece.weight != weight:
                heapreplace(self._leaves, (piece.weight, order, piece))
            else:
                return piece
        return None

    def _weight(self, now_s: float) -> float:
        """Of a use now. It doubles in a half-life, which is how older uses fade."""
        return 1.0 if self._epoch_s is None else 2.0 ** ((now_s - self._epoch_s) / self._config.half_life_s)

    def _advance(self, now_s: float) -> None:
        """Say which bin it is, and keep weights within what floats can hold."""
        if self._epoch_s is None:
            self._epoch_s = now_s
        elif now_s - self._epoch_s > _MAX_DOUBLINGS * self._config.half_life_s:
            self._scale_down(now_s)
        self._bin = max(self._bin, int(now_s // self._config.bin_s))

    def _scale_down(self, now_s: float) -> None:
        factor = 1.0 / self._weight(now_s)
        self._epoch_s = now_s
        for piece in self._pieces.values():
            piece.weight *= factor
            piece.error *= factor
        self._leaves = [(piece.weight, order, piece) for _, order, piece in self._leaves]
        heapify(self._leaves)


def _prefix(last: _Piece, expected: dict[_Piece, float], unit: float) -> HotPrefix:
    pieces = list(last.path())[::-1]
    token_ids = array("I", b"".join(piece.tokens or b"" for piece in pieces))
    saved = sum(expected[piece] * len(piece.tokens or b"") for piece in pieces) / _TOKEN_BYTES
    return HotPrefix(last.salt, tuple(token_ids), (last.weight - last.error) / unit, expected[last], saved)
