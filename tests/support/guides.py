"""Guides that are told what to allow, token by token, in place of a grammar."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import EngineError
from tailrace.types import Guide

__all__ = ["ScriptedGuide", "guide_of", "make_scripted", "script_of"]


def guide_of(*steps: Sequence[int]) -> Guide:
    """Allows the ids of each step, one after the other, and nothing behind."""
    return Guide(" ".join("|".join(map(str, ids)) for ids in steps))


def script_of(guide: Guide) -> list[list[int]]:
    return [[int(token_id) for token_id in step.split("|")] for step in guide.grammar.split()]


@dataclass
class ScriptedGuide:
    """Follows `script`. Where no more tokens may follow than it has steps, it takes the first id of each."""

    script: list[list[int]]
    taken: list[int] = field(default_factory=list)
    gate: threading.Event | None = None  # masks wait for it
    is_cut: bool = False

    def fill(self, row: NDArray[np.uint32]) -> None:
        if self.gate is not None:
            self.gate.wait()
        row[:] = 0
        if len(self.taken) < len(self.script):
            for token_id in self.script[len(self.taken)]:
                row[token_id // 32] |= np.uint32(1 << token_id % 32)

    def offer(self, token_id: int, num_left: int) -> int:
        step = self.script[len(self.taken)]
        if token_id not in step:
            raise EngineError(f"token {token_id} is not allowed here")
        if num_left <= len(self.script) - len(self.taken) - 1:
            self.is_cut |= token_id != step[0]
            token_id = step[0]
        self.taken.append(token_id)
        return token_id


def make_scripted(guide: Guide, max_tokens: int, output_ids: Sequence[int]) -> ScriptedGuide:
    """Raises EngineError for a grammar that is no script."""
    try:
        made = ScriptedGuide(script_of(guide))
    except ValueError as error:
        raise EngineError(f"no script: {error}") from error
    for token_id in output_ids:
        made.offer(token_id, max_tokens)
    return made
