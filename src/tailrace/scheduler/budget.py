"""How many tokens of prompts may join the decodes of a step, so that streams keep their targets. Pure counting."""

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.scheduler.plan import StepSize, positions_met
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["LEAST_TOKENS", "Marks", "PendingPrompt", "StepBudget", "scale_of_targets"]

LEAST_TOKENS = 4  # of prompts, in each step: so nobody waits for ever, though decodes alone take too long
STEADY_RATIO, BRISK_RATIO = 1.4, 2.0  # of the time that the decodes take alone
STEADY_S, BRISK_S = 0.02, 0.04  # nobody reads as fast as that
BRISK_SHARE = 0.7  # of the ceiling, at most: one gap in twenty is half as long again as it should be
HEADROOM = 0.7  # of an ITL target: what the model misses, and what is done between two steps, must not make all late
MARGIN = 2.0  # a prompt is computed so many times as fast as its deadline demands
_UNKNOWN_TOKENS = 32  # beside streams, while the model predicts nothing
_ROUNDS = 3  # of false position: time is almost linear in tokens

_REFERENCE_ROWS = 32
_REFERENCE_CONTEXT = 256  # positions that each of them meets


class PendingPrompt(NamedTuple):
    """What is left to compute of a prompt, and when its first token is due.

    One that `is_short` is done in a moment, so that it is better brought in fast than for long.
    """

    num_tokens: int
    deadline_s: float
    is_short: bool = False


class Marks(NamedTuple):
    """Times of a step, rising: up to which prompts join at ease, and what the tightest of the streams can bear."""

    steady_s: float
    ceiling_s: float


class StepBudget:
    """Answers from the predictions of a step-time model; remembers nothing itself.

    While somebody streams, a step takes at most the ceiling, HEADROOM times the tightest ITL target among those who
    do, and no longer than the steady mark unless a prompt needs it for its deadline. The mark is higher while a short
    prompt is computed, which soon is done. What a stream sees beyond that, at worst: the error of the model, the time
    of LEAST_TOKENS more, and steps whose decodes alone take longer.
    """

    def __init__(self, model: StepTimeModel) -> None:
        self._model = model

    def marks(self, decode: StepSize, tightest_itl_s: float, factor: float = 1.0, *, is_brisk: bool = False) -> Marks:
        """For a step with these decodes, brisk if a short prompt is to join them.

        `factor`: of the ceiling, from a controller that has seen what came of it.
        """
        ceiling_s = tightest_itl_s * HEADROOM * factor
        decode_s = self._model.predict(decode) or 0.0
        at_ease_s = max(decode_s * STEADY_RATIO, STEADY_S)
        if is_brisk:
            at_ease_s = max(at_ease_s, min(max(decode_s * BRISK_RATIO, BRISK_S), ceiling_s * BRISK_SHARE))
        return Marks(min(at_ease_s, ceiling_s), ceiling_s)

    def prefill_tokens(
        self, decode: StepSize, *, target_s: float, read_per_token: int, most: int, least: int = LEAST_TOKENS
    ) -> int:
        """How many tokens of a prompt may join the rest of a step so that it ends by `target_s`; at most `most`.

        Each of them meets `read_per_token` positions and those of the same prompt before it in the step. At least
        `least` (of `most`) may, whatever the time.
        """
        least = min(least, most)
        low, high = least, most
        low_s, high_s = self._predict(decode, low, read_per_token), self._predict(decode, high, read_per_token)
        if low_s is None or high_s is None:
            return most if decode.num_tokens == 0 else min(max(_UNKNOWN_TOKENS, least), most)
        if high_s <= target_s:
            return high
        for _ in range(_ROUNDS):  # with `high` it takes too long; with `low` it does not, or `low` is `least`
            if low_s >= target_s:
                break
            middle = low + int((high - low) * (target_s - low_s) / (high_s - low_s))
            middle_s = self._predict(decode, middle, read_per_token)
            if middle == low or middle_s is None:
                break
            if middle_s <= target_s:
                low, low_s = middle, middle_s
            else:
                high, high_s = middle, middle_s
        return low

    def target_s(
        self,
        decode: StepSize,
        marks: Marks,
        pending: Iterable[PendingPrompt],
        now_s: float,
        *,
        read_per_token: int,
        most: int,
    ) -> float:
        """When the step should end: at the steady mark, or as much later as the deadlines of prompts demand.

        `pending` are prompts in the order in which they are computed, as many as matter. A prompt and all before it
        are due at a rate: their tokens by the time that is left. MARGIN times the highest such rate is aimed at,
        between the rates of prompts at the two marks. One that would be late at the ceiling too is no reason to
        disturb anybody: it is computed at the pace that the others leave.
        """
        steady_s, ceiling_s = marks
        count = self.prefill_tokens(decode, target_s=steady_s, read_per_token=read_per_token, most=most)
        steady_rate = count / steady_s
        rates = [rate for rate in _due_rates(pending, now_s) if rate * MARGIN > steady_rate]
        if not rates:
            return steady_s
        count = self.prefill_tokens(decode, target_s=ceiling_s, read_per_token=read_per_token, most=most)
        ceiling_rate = count / ceiling_s
        due_rate = max((rate for rate in rates if rate <= ceiling_rate), default=0.0) * MARGIN
        if due_rate <= steady_rate or ceiling_rate <= steady_rate:
            return steady_s
        return steady_s + (ceiling_s - steady_s) * min((due_rate - steady_rate) / (ceiling_rate - steady_rate), 1.0)

    def _predict(self, decode: StepSize, count: int, read_per_token: int) -> float | None:
        num_tokens, num_sampled, num_read, num_alone = decode
        num_read += positions_met(read_per_token, count)
        return self._model.predict(StepSize(num_tokens + count, num_sampled, num_read, num_alone))


def scale_of_targets(model: StepTimeModel, itl_s: float, most_rows: int = _REFERENCE_ROWS) -> float:
    """How many times as long targets are on this machine, if the tightest is `itl_s` on one that they are made for.

    That one decodes 32 streams in half of it, or `most_rows` if no more are computed at a time: what is never measured
    is not asked for. At least 1; 1 too while the model knows nothing.
    """
    num_rows = min(_REFERENCE_ROWS, most_rows)
    num_read = num_rows * _REFERENCE_CONTEXT
    took_s = model.predict(StepSize(num_rows, num_rows, num_read, num_read))
    return 1.0 if took_s is None else max(2.0 * took_s / itl_s, 1.0)


def _due_rates(pending: Iterable[PendingPrompt], now_s: float) -> Iterable[float]:
    """Of each prompt that can still be in time, tokens a second by which it and all before it would just be so."""
    num_ahead = 0
    for num_tokens, deadline_s, _ in pending:
        num_ahead += num_tokens
        if deadline_s > now_s:
            yield num_ahead / (deadline_s - now_s)
