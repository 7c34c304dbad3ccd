"""The life of a request in the scheduler, as a table."""

from enum import StrEnum

from tailrace.errors import EngineError

__all__ = ["RequestState", "moved"]


class RequestState(StrEnum):
    WAITING = "waiting"  # in line for blocks, a place and budget
    DEFERRED = "deferred"  # aside until a running request has sealed, or a level below has answered for, its prefix
    RUNNING = "running"  # holds blocks
    FINISHED = "finished"


_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.WAITING: frozenset({RequestState.DEFERRED, RequestState.RUNNING, RequestState.FINISHED}),
    RequestState.DEFERRED: frozenset({RequestState.WAITING, RequestState.FINISHED}),
    RequestState.RUNNING: frozenset({RequestState.WAITING, RequestState.FINISHED}),  # WAITING: preempted
    RequestState.FINISHED: frozenset(),
}


def moved(state: RequestState, to: RequestState) -> RequestState:
    """The new state. Raises EngineError for a move that the table does not have."""
    if to not in _MOVES[state]:
        raise EngineError(
            f"a request cannot go from {state} to {to}: this is a fault of the scheduler, please report it"
        )
    return to
