"""Makes the guides of requests that come in, on a thread of its own: a grammar may take a tenth of a second."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from tailrace.engine.guided import TokenGuide
from tailrace.errors import EngineError, TailraceError
from tailrace.types import Request

__all__ = ["GuideMaking", "Made"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """A request that goes on to the scheduler, or cannot."""

    request: Request
    guide: TokenGuide | TailraceError
    is_paused: bool  # its reader lags already


class GuideMaking:
    """Called by the step loop. `wake` is called on the thread when there is something to `drain`."""

    def __init__(self, make: Callable[[Request], TokenGuide], wake: Callable[[], None]) -> None:
        self._make = make
        self._wake = wake
        self._waiting: dict[str, Request] = {}
        self._paused: set[str] = set()
        self._work: SimpleQueue[Request | None] = SimpleQueue()
        self._made: deque[tuple[Request, TokenGuide | TailraceError]] = deque()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, request: Request) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tailrace-guides", daemon=True)
            self._thread.start()
        self._waiting[request.request_id] = request
        self._work.put(request)

    def withdraw(self, request_id: str) -> Request | None:
        """Nobody waits for this one any more; None when it is not here."""
        self._paused.discard(request_id)
        return self._waiting.pop(request_id, None)

    def set_paused(self, request_id: str, *, is_paused: bool) -> None:
        """Keep in mind that the reader of a request lags, or does not; of one that is not here, somebody else does."""
        if request_id in self._waiting and is_paused:
            self._paused.add(request_id)
        else:
            self._paused.discard(request_id)

    def drain(self) -> list[Made]:
        """Those whose guides are made, or cannot be, since the last call."""
        drained = []
        while self._made:
            request, guide = self._made.popleft()
            if self._waiting.get(request.request_id) is request:
                is_paused = request.request_id in self._paused
                self.withdraw(request.request_id)
                drained.append(Made(request, guide, is_paused))
        return drained

    def close(self) -> None:
        """Make no more. What is being made is not waited for."""
        self._waiting.clear()
        if self._thread is not None:
            self._work.put(None)
            self._thread = None

    def _run(self) -> None:
        while (request := self._work.get()) is not None:
            if self._waiting.get(request.request_id) is request:
                self._made.append((request, self._guide_of(request)))
                self._wake()

    def _guide_of(self, request: Request) -> TokenGuide | TailraceError:
        try:
            return self._make(request)
        except TailraceError as error:
            return error
        except BaseException:  # a library's panic is no Exception
            about = {"request_id": request.request_id, "trace": request.trace}
            logger.exception("the guide of request %s could not be made", request.request_id, extra=about)
            return EngineError("the guide of this request could not be made; see the server's log")
