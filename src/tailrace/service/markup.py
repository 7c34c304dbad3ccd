"""Finding a vocabulary's markup in text, and keeping what people typed from being taken for it.

Markup are the tokens that give a prompt its shape, such as `<|im_end|>`. In a rendered prompt only the template may
write them. A `Guard` puts a mark that nobody can guess behind each character of message text with which markup could
begin, and takes the marks out again once the prompt has been cut at the template's own markup.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tailrace.errors import InvalidRequest

__all__ = ["Guard", "GuardedText", "Markup", "private_mark"]

_MAX_DEPTH = 64  # of lists and objects inside a message
_MARK_LENGTH = 4


class Markup:
    """A set of strings, of two characters or more, that can be found in a text: the longest where several begin."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._strings = frozenset(strings)
        self._pattern = re.compile(f"({_trie_pattern(self._strings)})" if self._strings else "((?!))")
        self.first_characters = frozenset(string[0] for string in self._strings)

    def split(self, text: str) -> list[str]:
        """The text cut up: other text at even places (it may be empty), markup at odd ones."""
        return self._pattern.split(text)


def _trie_pattern(strings: Iterable[str]) -> str:
    """One pattern for all strings that looks at each character of a text once, whatever their number."""
    root: dict[str, Any] = {}
    for string in strings:
        node = root
        for character in string:
            node = node.setdefault(character, {})
        node[""] = {}
    return _trie_node_pattern(root)


def _trie_node_pattern(node: Mapping[str, Any]) -> str:
    stem = ""
    while len(node) == 1 and "" not in node:  # a stretch without a branch, however long
        ((head, node),) = node.items()
        stem += re.escape(head)
    branches = [re.escape(head) + _trie_node_pattern(tail) for head, tail in sorted(node.items()) if head]
    if not branches:
        return stem
    group = f"(?:{'|'.join(branches)})"
    return f"{stem}{group}?" if "" in node else stem + group


def private_mark() -> str:
    """A string of private-use characters that a request holds only by a guess of one in 2**63."""
    return "".join([chr(0xF0000 + secrets.randbelow(0xFFFE)) for _ in range(_MARK_LENGTH)])


class Guard:
    """Tells message text from template text in one rendered prompt."""

    def __init__(self, markup: Markup) -> None:
        self._markup = markup
        self._firsts = markup.first_characters
        self._mark = private_mark()
        while not self._firsts.isdisjoint(self._mark):
            self._mark = private_mark()
        self._is_touched = re.compile(f"[{re.escape(''.join(self._firsts))}]" if self._firsts else "(?!)")

    def protect(self, value: Any, param: str = "messages", depth: int = 0) -> Any:
        """The value with every string in it protected; one that no markup could begin in is returned as it is."""
        if isinstance(value, str):
            return self.protect_text(value)
        if depth > _MAX_DEPTH:
            raise InvalidRequest(f"{param!r} is nested more than {_MAX_DEPTH} levels deep", param=param)
        if isinstance(value, Mapping):
            return {self.protect(key): self.protect(item, param, depth + 1) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.protect(item, param, depth + 1) for item in value]
        return value

    def protect_text(self, text: str) -> str:
        plain = text.plain if isinstance(text, GuardedText) else text
        return GuardedText(plain, self._broken(plain), self) if self._is_touched.search(plain) else plain

    def cut(self, text: str) -> list[str]:
        """A rendered text cut up: at even places what was typed or is no markup, at odd ones the template's markup."""
        pieces = self._markup.split(text)
        pieces[::2] = map(self.release, pieces[::2])
        return pieces

    def release(self, text: str) -> str:
        """Text as it was typed."""
        return text.replace(self._mark, "")

    def _broken(self, text: str) -> str:
        for first in self._firsts:  # far quicker for a long text than to translate it
            text = text.replace(first, first + self._mark)
        return text


class GuardedText(str):
    """Message text with its markup broken. A template that looks into it sees the text as it was typed.

    As a `str` it is the broken text, so whatever a template does that is not foreseen here (joining, formatting,
    filters written in C) yields protected text. Looking, cutting and replacing work on the plain text and
    protect what they return.
    """

    __slots__ = ("_guard", "plain")
    _guard: Guard
    plain: str

    def __new__(cls, plain: str, broken: str, guard: Guard) -> "GuardedText":
        text = super().__new__(cls, broken)
        text.plain = plain
        text._guard = guard
        return text

    def __str__(self) -> str:
        return self

    def __iter__(self) -> Iterator[str]:
        return map(self._guard.protect_text, self.plain)


def _on_plain_text(name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(str, name)

    def call(self: GuardedText, *args: Any, **kwargs: Any) -> Any:
        plain_args = [arg.plain if isinstance(arg, GuardedText) else arg for arg in args]
        result = method(self.plain, *plain_args, **kwargs)
        return self._guard.protect(result) if isinstance(result, str | list | tuple) else result

    return call


_COMPARING = "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __len__"
_LOOKING = "__contains__ count find index rfind rindex startswith endswith"
_ASKING = "isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper"
_CUTTING = "__getitem__ split rsplit splitlines partition rpartition strip lstrip rstrip removeprefix removesuffix"
_CHANGING = "__mul__ __rmul__ replace translate expandtabs center ljust rjust zfill"
_CASING = "lower upper casefold capitalize title swapcase"
for _name in " ".join((_COMPARING, _LOOKING, _ASKING, _CUTTING, _CHANGING, _CASING)).split():
    setattr(GuardedText, _name, _on_plain_text(_name))
