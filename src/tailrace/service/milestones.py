"""What a generation passes on its way to its first text, for who wants to know where the time goes."""

from typing import Protocol

from tailrace.types import Beginning

__all__ = ["OBSERVE_ONE_IN", "Milestones"]

OBSERVE_ONE_IN = 16  # pieces behind the first: to look at the clock for each would cost more than it tells


class Milestones(Protocol):
    """Written while it happens, in the machine's monotonic seconds; of several choices it is the first one's way."""

    tokenised_s: float | None  # its prompt is token ids
    submitted_s: float | None  # and on its way to the engine
    beginning: Beginning | None  # what the engine did for its first token
    received_s: float | None  # that token is here
    text_s: float | None  # and text
    finish_reason: str | None
