"""Whether the engine is there, as an operator sees it: told once when it is lost, and once when there is one again."""

from tailrace.engine.board import Board, EngineState
from tailrace.records import EventKind, Tell

__all__ = ["OutageWatch"]

_GONE = (EngineState.RECOVERING, EngineState.FAILED)


class OutageWatch:
    """Looks at the board whenever it is asked to. What came and went between two looks is told at the second."""

    def __init__(self, board: Board, tell: Tell) -> None:
        self._board = board
        self._tell = tell
        self._generation = board.generation
        self._is_lost = False

    def look(self) -> None:
        """Tell what has changed."""
        if not self._is_lost and self._has_gone:
            self._is_lost = True
            self._tell(EventKind.ENGINE_LOST, self._loss)
        self._generation = self._board.generation
        if self._is_lost and self._board.is_ready:
            self._is_lost = False
            self._tell(EventKind.ENGINE_BACK, f"engine {self._generation} takes requests, and goes on with those there")

    @property
    def _has_gone(self) -> bool:
        """The first engine follows none."""
        is_another = self._board.generation != self._generation and self._generation > 0
        return is_another or self._board.state in _GONE

    @property
    def _loss(self) -> str:
        lost = max(self._generation, 1)
        if self._board.state is EngineState.FAILED:
            return f"engine {lost} died, as those before it did: none is started for a while"
        return f"engine {lost} died: the next one goes on with all requests"
