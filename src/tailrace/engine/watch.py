"""What a step loop lets others know while it runs, so that they notice when it hangs, and what it was doing."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tailrace.engine.board import Board
from tailrace.scheduler.plan import StepPlan
from tailrace.types import Request

__all__ = ["BoardWatch", "StepWatch", "Unwatched"]

_REST_S = 1.0
_ALLOWED_PREDICTIONS = 10.0  # a step may take so many times what was predicted


class StepWatch(Protocol):
    """Called by the step loop, in its thread."""

    @property
    def rest_s(self) -> float | None:
        """For how long the loop may sleep at most; None: as long as it likes."""
        ...

    def came_round(self, now_s: float) -> None:
        """The loop is about to plan a step."""
        ...

    def taking_in(self, requests: Sequence[Request]) -> None:
        """These are about to be handed to the scheduler, and will be there when the next step is planned."""
        ...

    def step_began(self, plan: StepPlan, now_s: float, predicted_s: float | None) -> None:
        """The device is about to carry out this plan."""
        ...


class Unwatched:
    """Nobody wants to know."""

    rest_s: float | None = None

    def came_round(self, now_s: float) -> None:
        pass

    def taking_in(self, requests: Sequence[Request]) -> None:
        pass

    def step_began(self, plan: StepPlan, now_s: float, predicted_s: float | None) -> None:
        pass


class BoardWatch:
    """Tells it by the board. A step may take `patience_s`, or much longer than predicted; then the loop hangs.

    `numbers` gives the numbers of requests by their ids, without those it does not know.
    """

    rest_s: float | None = _REST_S

    def __init__(self, board: Board, numbers: Callable[[Iterable[str]], Sequence[int]], patience_s: float) -> None:
        self._board = board
        self._numbers = numbers
        self._patience_s = self._allowed_s = patience_s
        self._running: dict[str, None] = {}
        self._new: list[str] = []  # no step was planned with them yet
        self._num_tried = 0  # of these, with how many one is being planned

    def came_round(self, now_s: float) -> None:
        del self._new[: self._num_tried]
        self._num_tried = len(self._new)
        self._board.beat(now_s, self._patience_s)

    def taking_in(self, requests: Sequence[Request]) -> None:
        if requests:
            self._new += (request.request_id for request in requests)
            self._show()

    def goes_on(self, now_s: float) -> None:
        """A step waits for what is being loaded, and some of it has come. May be called from any thread."""
        self._board.beat(now_s, self._allowed_s)

    def step_began(self, plan: StepPlan, now_s: float, predicted_s: float | None) -> None:
        if plan.entered or plan.left or self._new:
            self._new.clear()
            self._num_tried = 0
            for request_id in plan.left:
                self._running.pop(request_id, None)
            self._running.update((entry.request_id, None) for entry in plan.entered)
            self._show()
        self._allowed_s = max(self._patience_s, _ALLOWED_PREDICTIONS * (predicted_s or 0.0))
        self._board.beat(now_s, self._allowed_s)

    def _show(self) -> None:
        """Who it was, should it die now: the newest first, since there may be more than the board holds."""
        self._board.running = self._numbers([*reversed(self._new), *self._running])
