"""Traces of prompts that share prefixes, in the format of Mooncake: one JSON object a line, in order of arrival."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from tailrace.errors import SetupError

__all__ = ["BLOCK_TOKENS", "PromptTrace", "TracedPrompt", "read_trace"]

BLOCK_TOKENS = 512

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Line(msgspec.Struct):
    timestamp: Annotated[float, msgspec.Meta(ge=0)]  # milliseconds
    input_length: _Count
    hash_ids: list[int]


@dataclass(frozen=True, slots=True)
class TracedPrompt:
    """`block_ids` name its blocks, first to last: equal ids stand for equal tokens from the beginning up to there.

    All blocks have BLOCK_TOKENS tokens, but the last may have fewer.
    """

    at_s: float
    num_tokens: int
    block_ids: tuple[int, ...]

    def tokens_of(self, num_blocks: int) -> int:
        """Tokens of the first `num_blocks` blocks."""
        return min(num_blocks * BLOCK_TOKENS, self.num_tokens)


@dataclass(frozen=True, slots=True)
class PromptTrace:
    prompts: tuple[TracedPrompt, ...]

    @property
    def num_blocks(self) -> int:
        return sum(len(prompt.block_ids) for prompt in self.prompts)

    @property
    def num_tokens(self) -> int:
        return sum(prompt.num_tokens for prompt in self.prompts)

    @property
    def num_distinct_blocks(self) -> int:
        return len(Counter(block for prompt in self.prompts for block in prompt.block_ids))


def read_trace(path: Path) -> PromptTrace:
    """Raises SetupError for a file that cannot be read or is no trace, naming the line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise SetupError(f"cannot read the trace {path}: {error.strerror}") from error
    prompts = tuple(_prompts(lines, path))
    if not prompts:
        raise SetupError(f"{path} has no prompts: give a trace with one JSON object a line")
    return PromptTrace(prompts)


def _prompts(lines: list[bytes], path: Path) -> Iterator[TracedPrompt]:
    """Every prompt, checked: time goes on, and a block has one parent wherever it comes."""
    decoder, parents, at_s = msgspec.json.Decoder(_Line), dict[int, int | None](), 0.0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompt = _prompt(decoder.decode(line))
            _check_chain(prompt.block_ids, parents)
            if prompt.at_s < at_s:
                raise ValueError(f"arrives at {prompt.at_s:g} s, before the line above")
        except (msgspec.DecodeError, ValueError) as error:
            raise SetupError(f"{path}, line {number}: {error}") from error
        at_s = prompt.at_s
        yield prompt


def _prompt(line: _Line) -> TracedPrompt:
    expected = -(-line.input_length // BLOCK_TOKENS)
    if len(line.hash_ids) != expected:
        raise ValueError(
            f"{line.input_length} tokens make {expected} blocks of {BLOCK_TOKENS}, not {len(line.hash_ids)} hash_ids"
        )
    return TracedPrompt(line.timestamp / 1e3, line.input_length, tuple(line.hash_ids))


def _check_chain(block_ids: tuple[int, ...], parents: dict[int, int | None]) -> None:
    parent = None
    for block in block_ids:
        if parents.setdefault(block, parent) != parent:
            raise ValueError(f"hash id {block} follows {parent}, and elsewhere {parents[block]}: ids name no prefixes")
        parent = block
