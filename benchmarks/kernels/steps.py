"""The steps that are measured: some sequences decoding behind a context, or one prompt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import Executable, Limits, StepInputs

__all__ = ["CONTEXT_TOKENS", "Case", "cases", "fill_context", "limits", "step"]

BLOCK_TOKENS = 16  # the server's default
CONTEXT_TOKENS = 256  # that each decoding sequence sees
MAX_DECODING = 64


@dataclass(frozen=True, slots=True)
class Case:
    """`num_sequences` sequences compute `num_tokens` tokens each, behind `start` tokens in their cache."""

    name: str
    num_sequences: int
    num_tokens: int
    start: int

    @property
    def num_rows(self) -> int:
        return self.num_sequences * self.num_tokens


def cases(rows: Sequence[int]) -> Iterator[Case]:
    """So many sequences decoding; above 64 rows it is one prompt."""
    for count in rows:
        if count <= MAX_DECODING:
            yield Case(f"decode {count}", count, 1, CONTEXT_TOKENS)
        else:
            yield Case(f"prefill {count}", 1, count, 0)


def limits(of: Sequence[Case], num_threads: int) -> Limits:
    """Room for the largest case, and for a context to be computed in one step."""
    sequences = max(case.num_sequences for case in of)
    longest = max(case.start + case.num_tokens for case in of)
    per_sequence = -(-longest // BLOCK_TOKENS)
    return Limits(
        max_tokens=max(CONTEXT_TOKENS, *(case.num_rows for case in of)),
        max_samples=sequences,
        max_sequences=sequences,
        max_model_tokens=per_sequence * BLOCK_TOKENS,
        num_blocks=per_sequence * sequences,
        block_tokens=BLOCK_TOKENS,
        num_threads=num_threads,
    )


def step(case: Case, of: Limits, token_ids: Sequence[int]) -> StepInputs:
    """Sequence n goes on with the tokens that follow the context n tokens later: no two rows are alike."""
    ids = [
        token_ids[(case.start + n + t) % len(token_ids)]
        for n in range(case.num_sequences)
        for t in range(case.num_tokens)
    ]
    starts = np.arange(case.num_sequences + 1, dtype=np.int32) * np.int32(case.num_tokens)
    return StepInputs(
        token_ids=np.array(ids, np.int32),
        row_starts=starts,
        starts=np.full(case.num_sequences, case.start, np.int32),
        slots=np.arange(case.num_sequences, dtype=np.int32),
        block_tables=_block_tables(of),
        sample_rows=starts[1:] - np.int32(1),
    )


def fill_context(executable: Executable, of: Limits, token_ids: Sequence[int]) -> None:
    """Compute one context and give each sequence a copy of its own, repeated as far as its blocks go."""
    num_tokens = min(CONTEXT_TOKENS, of.max_model_tokens)
    executable.logits(step(Case("context", 1, num_tokens, 0), of, token_ids))
    for table in _block_tables(of).tolist():
        for index, block in enumerate(table):
            executable.copy_block(index % (num_tokens // BLOCK_TOKENS), block, BLOCK_TOKENS)


def _block_tables(of: Limits) -> NDArray[np.int32]:
    return np.arange(of.num_blocks, dtype=np.int32).reshape(of.max_sequences, -1)
