"""Starts the processes of a server and starts again those that die, until it is told to stop.

It has one thread, sleeps until something happens, and touches nothing that could take it down with its children.
"""

import logging
import math
import os
import signal
import time
from collections.abc import Callable, Sequence

from tailrace.engine.board import Board
from tailrace.engine.channel import Channel, wake_all
from tailrace.errors import EngineError, ModelError
from tailrace.serving.children import Child
from tailrace.serving.restarts import Restarts
from tailrace.serving.signals import SignalQueue

__all__ = ["WAKE_SIGNAL", "Supervisor"]

logger = logging.getLogger(__name__)

WAKE_SIGNAL = signal.SIGUSR1  # a child has something for us on the board
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_NEWS = (signal.SIGCHLD, signal.SIGHUP, WAKE_SIGNAL)
_LOOK_S, _SHORT_LOOK_S = 0.25, 0.05
_START_S = 120.0  # so long an engine may take to begin its first step
_DUMP_S = 1.0  # for a hanging engine to write down where it is
_CLOSE_S = 10.0  # for one that was told to stop, beyond what it needs to end what is under way
_SLEPT_S = 2.0  # looks so far apart: none of us was running
_FORK_RETRY_S = 1.0
# Ends that no request has caused: it was told to, or killed from outside.
_FOREIGN = (0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


class Supervisor:
    """`start_engine` and `start_worker` fork a process, given its generation, and for a worker its index.

    A worker whose event loop has not come round for `patience_s` hangs.
    """

    def __init__(
        self,
        board: Board,
        channels: Sequence[Channel],
        *,
        start_engine: Callable[[int], Child],
        start_worker: Callable[[int, int], Child],
        on_ready: Callable[[], None],
        max_restarts: int,
        patience_s: float,
        drain_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board = board
        self._channels = channels
        self._start_engine = start_engine
        self._start_worker = start_worker
        self._on_ready = on_ready
        self._restarts = Restarts(max_restarts)
        self._worker_restarts = [Restarts(max_restarts) for _ in channels]
        self._worker_due_s: dict[int, float] = {}  # of workers that wait to be started again
        self._clock = clock
        self._signals = SignalQueue()
        self._engine: Child | None = None
        self._loader: Child | None = None  # while there are weights to be read, or kept
        self._is_whole: Callable[[], bool] = lambda: True  # whether all weights are there
        self._engine_due_s = 0.0  # when it is started again, while there is none
        self._drain_s = drain_s
        self._patience_s = patience_s
        self._looked_s = self._awake_s = clock()  # last; since when without a break
        self._workers: dict[int, Child] = {}
        self._hanging: set[int] = set()  # pids of those that were told to write down where they are
        self._ends_s: float | None = None  # by when all workers have to be gone; None: nobody has told us to stop
        self._failure: Exception | None = None

    def start_workers(self) -> None:
        """From here on somebody answers. Until `run`, a signal to stop does so at once."""
        self._signals.take(_NEWS)
        for index in range(len(self._channels)):
            self._begin_worker(index)

    def start_loader(self, start: Callable[[], Child], is_whole: Callable[[], bool]) -> None:
        """Fork a process that reads the weights, which the engine waits for until they are all there."""
        self._is_whole = is_whole
        self._loader = start()

    def run(self) -> None:
        """Start the engine, and supervise until all is over. Raises what kept the server from starting."""
        self._signals.take(_STOPPING)
        self._begin_engine()
        while self._workers or self._worker_due_s:
            self._look()
        self._end_engine()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End all that is left, at once."""
        for child in (*self._workers.values(), self._engine, self._loader):
            if child is not None:
                child.send(signal.SIGKILL)
                os.waitpid(child.pid, 0)

    @property
    def _is_stopping(self) -> bool:
        return self._ends_s is not None

    def _look(self) -> None:
        """Sleep until something happens, and act upon it."""
        for number in self._signals.wait(_LOOK_S):
            self._act_on(number)
        self._reap()
        now_s = self._clock()
        if now_s - self._looked_s > _SLEPT_S or not self._is_whole():
            self._awake_s = now_s  # until now an engine that does nothing is none that hangs
        self._looked_s = now_s
        self._check_engine(now_s)
        self._check_workers(now_s)
        if self._ends_s is not None and now_s >= self._ends_s:
            self._tell_workers(signal.SIGKILL)
        for index in [index for index, due_s in self._worker_due_s.items() if due_s <= now_s]:
            del self._worker_due_s[index]
            self._begin_worker(index)
        board = self._board
        if not board.was_ready and board.is_ready and board.are_workers_ready(len(self._channels)):
            board.was_ready = True
            self._on_ready()

    def _act_on(self, number: signal.Signals) -> None:
        if number in _STOPPING:
            self._stop(number)
        elif number is signal.SIGHUP:
            self._tell_workers(number)

    def _stop(self, number: signal.Signals) -> None:
        """Let the workers end, which each finish what they are doing; the engine goes on for as long as they do."""
        if self._ends_s is None:
            self._ends_s = self._clock() + self._drain_s + _CLOSE_S
        self._worker_due_s.clear()
        self._tell_workers(number)

    def _tell_workers(self, number: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.send(number)

    def _reap(self) -> None:
        for index, worker in list(self._workers.items()):
            if (status := _ended(worker)) is not None:
                del self._workers[index]
                self._worker_ended(index, worker, status)
        if self._loader is not None and (status := _ended(self._loader)) is not None:
            loader, self._loader = self._loader, None
            self._loader_ended(loader, status)
        if self._engine is not None and (status := _ended(self._engine)) is not None:
            engine, self._engine = self._engine, None
            self._engine_ended(engine, status)

    def _worker_ended(self, index: int, worker: Child, status: int) -> None:
        words = worker.last_words()
        self._hanging.discard(worker.pid)
        if self._is_stopping:
            return
        if not self._board.was_ready:
            self._fail(words or EngineError(f"{worker.title} ended while it started ({_how(status)})"))
            return
        logger.error("%s ended (%s): it is started again", worker.title, _how(status))
        self._worker_due_s[index] = self._worker_restarts[index].died(self._clock())
        self._board.replace_worker(index)  # the engine aborts what the dead one has asked for
        wake_all(self._channels)

    def _loader_ended(self, loader: Child, status: int) -> None:
        words = loader.last_words()
        if self._is_whole() and not isinstance(words, ModelError):  # which may show when all has been read
            if status != 0:
                logger.warning("packed weights were not kept: the loader ended (%s)", _how(status))
            return
        self._fail(words or EngineError(f"the model could not be loaded ({_how(status)})"))
        if self._engine is not None:  # it waits for what never comes
            self._engine.send(signal.SIGKILL)
        self._board.fail(math.inf)
        wake_all(self._channels)

    def _engine_ended(self, engine: Child, status: int) -> None:
        words = engine.last_words()
        if not self._board.was_ready:
            self._engine_due_s = math.inf
            if not self._is_stopping:
                self._fail(words or EngineError(f"the engine ended while it started ({_how(status)})"))
            return
        if self._failure is not None:
            self._engine_due_s = math.inf
            return
        how = _how(status) if words is None else f"{_how(status)}: {words}"
        is_ours = engine.pid in self._hanging or os.waitstatus_to_exitcode(status) not in _FOREIGN
        self._hanging.discard(engine.pid)
        now_s = self._clock()
        due_s = self._engine_due_s = self._restarts.died(now_s)
        self._board.lose(self._board.running if is_ours else ())
        if due_s <= now_s:
            logger.error("the engine died (%s): it is started again, and requests go on", how)
            self._begin_engine()
            return
        logger.error("the engine died (%s), too often: it is started again in %.0f s", how, due_s - now_s)
        self._board.fail(due_s)
        wake_all(self._channels)

    def _check_engine(self, now_s: float) -> None:
        if self._engine is None:
            if now_s >= self._engine_due_s:
                self._begin_engine()
        elif (overdue_s := self._board.overdue_s(now_s, self._awake_s)) > 0.0:
            self._end_hanging(self._engine, "the engine", overdue_s)

    def _check_workers(self, now_s: float) -> None:
        for index, worker in () if self._is_stopping else self._workers.items():
            overdue_s = self._board.worker_silent_s(index, now_s, self._awake_s) - self._patience_s
            if overdue_s > 0.0:
                self._end_hanging(worker, worker.title, overdue_s)

    def _end_hanging(self, child: Child, name: str, overdue_s: float) -> None:
        """Let it write down where it is; then it is killed. That it was stopped from outside, no request has caused."""
        if child.pid not in self._hanging and child.is_stopped:
            logger.error("%s hangs, since it was stopped: it is ended", name)
            child.send(signal.SIGKILL)
        elif child.pid not in self._hanging:
            self._hanging.add(child.pid)
            logger.error("%s hangs: it is ended", name)
            child.send(signal.SIGABRT)
        elif overdue_s > _DUMP_S:
            child.send(signal.SIGKILL)

    def _begin_engine(self) -> None:
        generation = self._board.generation + 1
        self._board.begin(generation, self._clock(), _START_S)
        try:
            self._engine = self._start_engine(generation)
        except OSError as error:
            self._engine_due_s = self._retry_fork(error)
            self._board.lose(self._board.suspects)
        wake_all(self._channels)

    def _begin_worker(self, index: int) -> None:
        try:
            self._workers[index] = self._start_worker(index, self._board.begin_worker(index))
        except OSError as error:
            self._worker_due_s[index] = self._retry_fork(error)

    def _retry_fork(self, error: OSError) -> float:
        """The system lacks memory or processes; when to try again."""
        if not self._board.was_ready:
            raise error
        logger.error("a process cannot be started now: %s", error)
        return self._clock() + _FORK_RETRY_S

    def _end_engine(self) -> None:
        """Nobody is left who wants anything of it."""
        engine = self._engine
        if engine is None:
            return
        engine.send(signal.SIGTERM)
        ends_s = self._clock() + _CLOSE_S
        while _ended(engine) is None:
            if self._clock() >= ends_s:
                engine.send(signal.SIGKILL)
            self._signals.wait(_SHORT_LOOK_S)
        self._engine = None

    def _fail(self, failure: Exception) -> None:
        """It cannot be started: end what is there and say why."""
        self._failure = self._failure or failure
        self._stop(signal.SIGTERM)


def _ended(child: Child) -> int | None:
    """The status of a process that is over; None while it runs."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    return status if pid else None


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
