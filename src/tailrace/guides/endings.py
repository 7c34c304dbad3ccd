"""Texts that end a part of an answer in which anything may stand, noted in a grammar for who looks for its end.

Inside of free text every byte is as good as another: nothing but such a note tells that `</think>` leads out of it.
"""

import json

__all__ = ["noted_endings", "with_endings"]

_MARK = "// endings: "


def with_endings(grammar: str, endings: tuple[str, ...]) -> str:
    """The grammar with a note, which is a comment to all others."""
    return f"{_MARK}{json.dumps(endings)}\n{grammar}" if endings else grammar


def noted_endings(grammar: str) -> tuple[str, ...]:
    if not grammar.startswith(_MARK):
        return ()
    note = json.loads(grammar[len(_MARK) :].split("\n", 1)[0])
    return tuple(str(ending) for ending in note)
