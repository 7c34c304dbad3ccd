"""Steps by hand: what the runtime would hand to a back end, written down directly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import Executable, Limits, SamplingInputs, StepInputs

__all__ = ["Part", "block_tables", "limits", "sampling", "step", "teacher_forced"]


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive tokens of one sequence: `ids` stand at positions start, start + 1, ... of block table row `slot`."""

    slot: int
    start: int
    ids: Sequence[int]


def limits(
    *, max_tokens: int = 64, max_sequences: int = 4, max_model_tokens: int = 64, block_tokens: int = 4
) -> Limits:
    """Room for `max_sequences` full sequences, and every row may be sampled."""
    return Limits(
        max_tokens=max_tokens,
        max_samples=max_tokens,
        max_sequences=max_sequences,
        max_model_tokens=max_model_tokens,
        num_blocks=max_sequences * -(-max_model_tokens // block_tokens),
        block_tokens=block_tokens,
        num_threads=1,
    )


def block_tables(of: Limits) -> NDArray[np.int32]:
    """Every sequence's blocks, none shared, none in order: the same shuffle each time."""
    shuffled = np.random.default_rng(7).permutation(of.num_blocks).astype(np.int32)
    return shuffled.reshape(of.max_sequences, of.max_blocks_per_sequence)


def step(of: Limits, *parts: Part, sample_rows: Sequence[int] | None = None) -> StepInputs:
    """One step of some parts; every row is sampled unless `sample_rows` says otherwise."""
    ids = [token for part in parts for token in part.ids]
    return StepInputs(
        token_ids=np.array(ids, np.int32),
        row_starts=np.cumsum([0, *(len(part.ids) for part in parts)]).astype(np.int32),
        starts=np.array([part.start for part in parts], np.int32),
        slots=np.array([part.slot for part in parts], np.int32),
        block_tables=block_tables(of),
        sample_rows=np.array(range(len(ids)) if sample_rows is None else sample_rows, np.int32),
    )


def teacher_forced(
    executable: Executable, of: Limits, ids: Sequence[int], *, chunk_tokens: int, slot: int = 0
) -> NDArray[np.float32]:
    """Logits [len(ids), vocab] behind every token of one sequence, computed `chunk_tokens` at a time."""
    chunks = (range(start, min(start + chunk_tokens, len(ids))) for start in range(0, len(ids), chunk_tokens))
    return np.concatenate(
        [executable.logits(step(of, Part(slot, chunk.start, ids[chunk.start : chunk.stop]))).copy() for chunk in chunks]
    )


def sampling(
    num_samples: int,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    seed: int = 0,
    first_position: int = 0,
    num_logprobs: int = -1,
    repetition_penalty: float = 1.0,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    prompt_ids: Sequence[int] = (),
    output_ids: Sequence[int] = (),
    bias: Sequence[tuple[int, float]] = (),
) -> SamplingInputs:
    """The same sampling for every row; the rows draw for consecutive positions."""
    history = [*prompt_ids, *output_ids]
    return SamplingInputs(
        temperature=np.full(num_samples, temperature, np.float32),
        top_p=np.full(num_samples, top_p, np.float32),
        top_k=np.full(num_samples, top_k, np.int32),
        min_p=np.full(num_samples, min_p, np.float32),
        seed=np.full(num_samples, seed, np.uint64),
        position=np.arange(first_position, first_position + num_samples, dtype=np.int64),
        num_logprobs=np.full(num_samples, num_logprobs, np.int32),
        repetition_penalty=np.full(num_samples, repetition_penalty, np.float32),
        frequency_penalty=np.full(num_samples, frequency_penalty, np.float32),
        presence_penalty=np.full(num_samples, presence_penalty, np.float32),
        history_starts=_ragged(num_samples, len(history)),
        history_ids=np.array(history * num_samples, np.int32),
        history_prompt_tokens=np.full(num_samples, len(prompt_ids), np.int32),
        bias_starts=_ragged(num_samples, len(bias)),
        bias_ids=np.array([token for token, _ in bias] * num_samples, np.int32),
        bias_values=np.array([value for _, value in bias] * num_samples, np.float32),
    )


def _ragged(num_rows: int, row_length: int) -> NDArray[np.int32]:
    return np.arange(num_rows + 1, dtype=np.int32) * np.int32(row_length)
