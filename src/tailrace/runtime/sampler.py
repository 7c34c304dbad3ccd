"""Sampling settings of the running sequences as arrays, and drawn samples as plan results."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import SampleOutputs, SamplingInputs
from tailrace.scheduler.plan import SampledToken, SequenceEntry
from tailrace.types import TokenLogprob

__all__ = ["SamplingTable", "to_tokens"]


@dataclass(slots=True)
class _Extras:
    """What only some sequences ask for; the common row has none of it."""

    bias_ids: list[int]
    bias_values: list[float]
    banned_ids: tuple[int, ...]  # forbidden until `banned_until`
    banned_until: int  # position of the first token that may be one of them
    num_prompt_tokens: int
    needs_history: bool


@dataclass(slots=True)
class _Ragged:
    """Rows of different lengths, laid end to end."""

    starts: list[int] = field(default_factory=lambda: [0])
    parts: list[NDArray[np.int32]] = field(default_factory=list)

    def append(self, part: NDArray[np.int32]) -> None:
        self.starts.append(self.starts[-1] + len(part))
        self.parts.append(part)

    def joined(self) -> NDArray[np.int32]:
        return np.concatenate(self.parts) if self.parts else np.empty(0, np.int32)


class SamplingTable:
    """One row for each slot of the sequence table."""

    def __init__(self, max_sequences: int, eos_ids: tuple[int, ...]) -> None:
        self._eos_ids = eos_ids
        self._extras: dict[int, _Extras] = {}
        self._temperature = np.zeros(max_sequences, np.float32)
        self._top_p = np.ones(max_sequences, np.float32)
        self._top_k = np.zeros(max_sequences, np.int32)
        self._min_p = np.zeros(max_sequences, np.float32)
        self._seed = np.zeros(max_sequences, np.uint64)
        self._num_logprobs = np.full(max_sequences, -1, np.int32)
        self._repetition = np.ones(max_sequences, np.float32)
        self._frequency = np.zeros(max_sequences, np.float32)
        self._presence = np.zeros(max_sequences, np.float32)

    def enter(self, slot: int, entry: SequenceEntry) -> None:
        sampling = entry.sampling
        self._temperature[slot] = sampling.temperature
        self._top_p[slot] = sampling.top_p
        self._top_k[slot] = sampling.top_k
        self._min_p[slot] = sampling.min_p
        self._seed[slot] = sampling.seed & 0xFFFF_FFFF_FFFF_FFFF
        self._num_logprobs[slot] = -1 if sampling.num_logprobs is None else sampling.num_logprobs
        self._repetition[slot] = sampling.repetition_penalty
        self._frequency[slot] = sampling.frequency_penalty
        self._presence[slot] = sampling.presence_penalty
        if sampling.logit_bias or sampling.min_tokens or sampling.needs_history:
            self._extras[slot] = _Extras(
                bias_ids=[token_id for token_id, _ in sampling.logit_bias],
                bias_values=[value for _, value in sampling.logit_bias],
                banned_ids=(*self._eos_ids, *sampling.stop_token_ids),
                banned_until=entry.num_prompt_tokens + sampling.min_tokens,
                num_prompt_tokens=entry.num_prompt_tokens,
                needs_history=sampling.needs_history,
            )

    def leave(self, slot: int) -> None:
        self._extras.pop(slot, None)

    def has_extras(self, slots: NDArray[np.int32]) -> bool:
        """Whether any of them has settings that depend on what was generated so far."""
        return bool(self._extras) and not self._extras.keys().isdisjoint(slots.tolist())

    def inputs(
        self, slots: NDArray[np.int32], positions: NDArray[np.int32], tokens: NDArray[np.int32]
    ) -> SamplingInputs:
        """Settings for rows that draw the token at `positions` of `slots`; `tokens` is the sequence table's."""
        history, bias_ids, bias_values, prompt_tokens = self._ragged(slots, positions, tokens)
        return SamplingInputs(
            temperature=self._temperature[slots],
            top_p=self._top_p[slots],
            top_k=self._top_k[slots],
            min_p=self._min_p[slots],
            seed=self._seed[slots],
            position=positions.astype(np.int64),
            num_logprobs=self._num_logprobs[slots],
            repetition_penalty=self._repetition[slots],
            frequency_penalty=self._frequency[slots],
            presence_penalty=self._presence[slots],
            history_starts=np.array(history.starts, np.int32),
            history_ids=history.joined(),
            history_prompt_tokens=np.array(prompt_tokens, np.int32),
            bias_starts=np.array(bias_ids.starts, np.int32),
            bias_ids=bias_ids.joined(),
            bias_values=np.array(bias_values, np.float32),
        )

    def _ragged(
        self, slots: NDArray[np.int32], positions: NDArray[np.int32], tokens: NDArray[np.int32]
    ) -> tuple[_Ragged, _Ragged, list[float], list[int]]:
        history, bias_ids = _Ragged(), _Ragged()
        bias_values: list[float] = []
        prompt_tokens = [0] * len(slots)
        if not self._extras:
            history.starts = bias_ids.starts = [0] * (len(slots) + 1)
            return history, bias_ids, bias_values, prompt_tokens
        nothing = np.empty(0, np.int32)
        for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            extras = self._extras.get(slot)
            if extras is None:
                history.append(nothing)
                bias_ids.append(nothing)
                continue
            prompt_tokens[row] = extras.num_prompt_tokens
            history.append(tokens[slot, :position] if extras.needs_history else nothing)
            banned = extras.banned_ids if position < extras.banned_until else ()
            bias_ids.append(np.array([*extras.bias_ids, *banned], np.int32))
            bias_values += [*extras.bias_values, *(-np.inf for _ in banned)]
        return history, bias_ids, bias_values, prompt_tokens


def to_tokens(
    request_ids: list[str], num_logprobs: NDArray[np.int32] | None, drawn: SampleOutputs
) -> tuple[SampledToken, ...]:
    """Pair each drawn token with its request; log probabilities where `num_logprobs` asks for them (None: nowhere)."""
    token_ids = drawn.token_ids.tolist()
    if num_logprobs is None:
        return tuple(map(SampledToken, request_ids, token_ids))
    return tuple(
        SampledToken(request_id, token_id, *_logprobs(row, int(num_logprobs[row]), drawn))
        for row, (request_id, token_id) in enumerate(zip(request_ids, token_ids, strict=True))
    )


def _logprobs(row: int, wanted: int, drawn: SampleOutputs) -> tuple[float | None, tuple[TokenLogprob, ...]]:
    if wanted < 0:
        return None, ()
    best = zip(drawn.top_ids[row, :wanted].tolist(), drawn.top_logprobs[row, :wanted].tolist(), strict=True)
    return float(drawn.logprobs[row]), tuple(TokenLogprob(token_id, value) for token_id, value in best)
