"""How prompts that are being computed share what a step takes in of them."""

from collections.abc import Callable, Sequence

from tailrace.scheduler.budget import PendingPrompt
from tailrace.scheduler.live import LiveRequest

__all__ = ["Prompts", "even_share"]

_PART = 4  # the oldest gets one part in so many, and so does who comes new
_MOMENT_S = 3.0  # alone
_PATIENCE = 7.0  # times what a prompt takes alone, for which a long one has time
_MAX_UNFINISHED = 4  # of a class and better ones: more would hold blocks for longer, and none would be done sooner


def even_share(gap: int, most: int) -> int:
    """How much of a gap to close in this step, `most` at most.

    A gap that takes several steps is cut evenly: no more steps, and a lower peak for the streams beside it.
    """
    num_steps = -(-gap // most)
    return -(-gap // num_steps)


class Prompts:
    """Those of running requests, and the first that waits, if it may start.

    Of better classes first, and then those with the least to do, since who came with little does not wait for those
    with much; but the oldest gets a quarter in each step, whatever comes, and a newcomer that should go first another.
    """

    def __init__(self, behind: Sequence[LiveRequest], newcomer: LiveRequest | None) -> None:
        self._behind = behind
        self._newcomer = newcomer
        self._unfinished = list(behind)  # by the step

    def has_room_for(self, newcomer: LiveRequest, budget_tokens: int) -> bool:
        """Whether one more may begin: it is done with so many tokens, or few are left unfinished."""
        rank = newcomer.service_class.priority
        num_ahead = sum(live.service_class.priority >= rank for live in self._unfinished)
        return num_ahead < _MAX_UNFINISHED or newcomer.work_tokens <= budget_tokens

    def leave_unfinished(self, newcomer: LiveRequest) -> None:
        """It has begun, and will go on in the next step."""
        self._unfinished.append(newcomer)

    def pending(self, alone_s: Callable[[LiveRequest], float]) -> list[PendingPrompt]:
        """All of them by when they are due: at their deadline, or later if they are long for it.

        That is seven times what they take alone, in seconds by `alone_s`. As twice the rate that is due is aimed at,
        a long prompt gets two sevenths of the machine, and the gaps of streams beside it grow by two fifths, which is
        the steady mark of a step, and not up to their targets.
        """
        pending = [_pending(live, live.gap, alone_s(live)) for live in self._behind]
        if (newcomer := self._newcomer) is not None:
            pending.append(_pending(newcomer, newcomer.work_tokens, alone_s(newcomer)))
        return sorted(pending, key=_deadline)

    @property
    def read_per_token(self) -> int:
        """Positions that a token meets of the prompt before it, at the most."""
        return max((live.num_computed for live in self._behind), default=0)

    def shares(self, budget_tokens: int) -> list[tuple[LiveRequest, int]]:
        """Of those that run, who gets how many tokens."""
        if not self._behind or not budget_tokens:
            return []
        ordered, oldest = sorted(self._behind, key=_turn), min(self._behind, key=_arrival)
        left = budget_tokens - self._part_of_newcomer(ordered[0], budget_tokens)
        kept = min(-(-left // _PART), oldest.gap)  # for the oldest, until its turn
        shares = []
        for live in ordered:
            kept = 0 if live is oldest else kept
            if left > kept:
                shares.append((live, even_share(live.gap, left - kept)))
                left -= shares[-1][1]
        done = {live.request_id for live, count in shares if count == live.gap}
        self._unfinished = [live for live in self._behind if live.request_id not in done]
        return shares

    def _part_of_newcomer(self, first: LiveRequest, budget_tokens: int) -> int:
        """What is kept for one that should go before all that are being computed."""
        part, newcomer = budget_tokens // _PART, self._newcomer
        if newcomer is None or not self.has_room_for(newcomer, part):
            return 0
        is_first = (-newcomer.service_class.priority, newcomer.work_tokens) < _turn(first)[:2]
        return part if is_first else 0


def _pending(live: LiveRequest, num_tokens: int, alone_s: float) -> PendingPrompt:
    due_s = max(live.deadline_s, live.request.arrival_s + _PATIENCE * alone_s)
    return PendingPrompt(num_tokens, due_s, is_short=alone_s <= _MOMENT_S)


def _deadline(prompt: PendingPrompt) -> float:
    return prompt.deadline_s


def _arrival(live: LiveRequest) -> int:
    return live.arrival_rank


def _turn(live: LiveRequest) -> tuple[float, int, int]:
    return -live.service_class.priority, live.gap, live.arrival_rank
