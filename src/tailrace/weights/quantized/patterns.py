"""Regular expressions out of a model's settings: matched in time that grows with a name's length, whatever they say.

Those of the standard library take as long as a hostile pattern wants. These know characters, classes, groups without
memory, alternatives, repetition and the two anchors; what else a pattern asks for is refused.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.errors import UnsupportedModel

__all__ = ["Patterns"]

_MAX_NODES = 4096
_MAX_ALL_NODES = 1 << 16
_MAX_STATES = 4096
_MAX_REPEATS = 64
_MAX_DEPTH = 32

Accepts = Callable[[str], bool]

_CLASSES: dict[str, Accepts] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not (char.isalnum() or char == "_"),
    "S": lambda char: not char.isspace(),
}


@dataclass(slots=True)
class _Node:
    """A place in a pattern. `accepts` is what is read there; without, a name goes on to all of `then` at once."""

    then: list["_Node"]
    accepts: Accepts | None = None
    anchor: str = ""
    is_end: bool = False


@dataclass(slots=True)
class _State:
    """All places that a name can have come to, and where each character leads that was met so far."""

    reading: list[_Node]
    ending: list[_Node]  # behind a "$"
    is_match: bool
    moves: dict[str, "_State"] = field(default_factory=dict)


class Patterns:
    """Whether a name begins as any of some patterns say. Raises UnsupportedModel, naming `source` and a pattern."""

    def __init__(self, patterns: Iterable[str], source: str) -> None:
        self._source = source
        self._starts: list[_Node] = []
        self._states: dict[frozenset[int], _State] = {}
        num_nodes = 0
        for pattern in patterns:
            parser = _Parser(pattern, source)
            self._starts.append(parser.parse())
            num_nodes += parser.num_nodes
            if num_nodes > _MAX_ALL_NODES:
                raise self._too_much()
        self._first = self._state(self._starts, is_start=True)

    def match(self, name: str) -> bool:
        state = self._first
        for char in name:
            if state.is_match or not state.reading:
                return state.is_match
            following = state.moves.get(char)
            if following is None:
                following = self._move(state, char)
            state = following
        return state.is_match or any(node.is_end for node in _reached(state.ending, "$"))

    def _move(self, state: _State, char: str) -> _State:
        """Not found yet: work it out, and remember."""
        then = [node.then[0] for node in state.reading if node.accepts and node.accepts(char)]
        state.moves[char] = self._state(then)
        return state.moves[char]

    def _state(self, nodes: Sequence[_Node], *, is_start: bool = False) -> _State:
        reached = _reached(nodes, "^" if is_start else "")
        key = frozenset(id(node) for node in reached)
        if key not in self._states:
            if len(self._states) >= _MAX_STATES:
                raise self._too_much()
            self._states[key] = _State(
                reading=[node for node in reached if node.accepts],
                ending=[node for node in reached if node.anchor == "$"],
                is_match=any(node.is_end for node in reached),
            )
        return self._states[key]

    def _too_much(self) -> UnsupportedModel:
        return UnsupportedModel(f"{self._source}: its patterns are too complicated")


def _reached(nodes: Sequence[_Node], anchors: str) -> list[_Node]:
    """All that is reached without reading, where `anchors` hold."""
    found: dict[int, _Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        if not node.accepts and (not node.anchor or node.anchor in anchors):
            waiting.extend(node.then)
    return list(found.values())


Piece = Callable[[_Node], _Node]
"""Part of a pattern: given what follows it, the place where it begins."""


class _Parser:
    """One pattern, from left to right."""

    def __init__(self, pattern: str, source: str) -> None:
        self._pattern, self._source = pattern, source
        self._place = self._depth = 0
        self.num_nodes = 0

    def parse(self) -> _Node:
        piece = self._alternatives()
        if self._place < len(self._pattern):
            raise self._refused()  # a bracket that nothing opened
        return piece(_Node([], is_end=True))

    def _alternatives(self) -> Piece:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else lambda then: self._node([option(then) for option in options])

    def _sequence(self) -> Piece:
        pieces: list[Piece] = []
        while self._place < len(self._pattern) and self._next not in "|)":
            pieces.append(self._repeated(self._single()))

        def build(then: _Node) -> _Node:
            for piece in reversed(pieces):
                then = piece(then)
            return then

        return build

    def _single(self) -> Piece:
        char = self._read()
        if char == "(":
            return self._group()
        if char in "^$":
            return lambda then: self._node([then], anchor=char)
        accepts = self._accepted(char)
        return lambda then: self._node([then], accepts)

    def _accepted(self, char: str) -> Accepts:
        if char == "[":
            return self._class()
        if char == ".":
            return lambda found: found != "\n"
        if char in "*+?{":
            raise self._refused()
        return self._escaped() if char == "\\" else char.__eq__

    def _group(self) -> Piece:
        self._depth += 1
        if self._depth > _MAX_DEPTH or (self._take("?") and not self._take(":")):
            raise self._refused()
        piece = self._alternatives()
        if not self._take(")"):
            raise self._refused()
        self._depth -= 1
        return piece

    def _escaped(self) -> Accepts:
        char = self._read()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise self._refused()
        return char.__eq__

    def _class(self) -> Accepts:
        is_negated = self._take("^")
        options = [self._member()]
        while not self._take("]"):
            options.append(self._member())
        return lambda char: any(option(char) for option in options) != is_negated

    def _member(self) -> Accepts:
        first = self._read()
        if first == "\\":
            return self._escaped()
        if (
            self._pattern[self._place : self._place + 1] == "-"
            and self._pattern[self._place + 1 : self._place + 2] != "]"
        ):
            self._read()
            last = self._read()
            if last == "\\" or last < first:
                raise self._refused()
            return lambda char: first <= char <= last
        return first.__eq__

    def _repeated(self, piece: Piece) -> Piece:
        if self._place == len(self._pattern) or self._next not in "*+?{":
            return piece
        low, high = self._counts()
        self._take("?")  # as few as possible: whether a name matches is the same
        return self._times(piece, low, high)

    def _counts(self) -> tuple[int, int | None]:
        char = self._read()
        if char != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        text, found, _ = self._pattern[self._place :].partition("}")[0:3]
        low, comma, high = text.partition(",")
        counts = [int(part) for part in (low, high) if part.isascii() and part.isdecimal() and len(part) < 3]
        if not found or len(counts) != (1 + bool(high)) or max(counts) > _MAX_REPEATS or counts[0] > counts[-1]:
            raise self._refused()
        self._place += len(text) + 1
        return counts[0], counts[-1] if high or not comma else None

    def _times(self, piece: Piece, low: int, high: int | None) -> Piece:
        def build(then: _Node) -> _Node:
            if high is None:
                again = self._node([then])
                again.then.append(piece(again))
                then = again
            for _ in range(0 if high is None else high - low):
                then = self._node([piece(then), then])
            for _ in range(low):
                then = piece(then)
            return then

        return build

    def _node(self, then: list[_Node], accepts: Accepts | None = None, anchor: str = "") -> _Node:
        self.num_nodes += 1
        if self.num_nodes > _MAX_NODES:
            raise self._refused()
        return _Node(then, accepts, anchor)

    @property
    def _next(self) -> str:
        return self._pattern[self._place]

    def _read(self) -> str:
        if self._place == len(self._pattern):
            raise self._refused()
        self._place += 1
        return self._pattern[self._place - 1]

    def _take(self, char: str) -> bool:
        """Whether that character comes next; it is read then."""
        is_next = self._pattern[self._place : self._place + 1] == char
        self._place += is_next
        return is_next

    def _refused(self) -> UnsupportedModel:
        return UnsupportedModel(f"{self._source}: pattern {self._pattern[:80]!r} is not one that we can match")
