"""The supervisor with children that do as they are told: real processes, forked from one without threads."""

import errno
import faulthandler
import mmap
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tailrace.engine.board import Board, EngineState
from tailrace.engine.channel import make_channels
from tailrace.errors import EngineError, SetupError
from tailrace.serving.children import Child, fork
from tailrace.serving.supervisor import WAKE_SIGNAL, Supervisor

Run = Callable[[Board, int], None]


class World:
    """What is around a server, as a test would have it. Make it before the fork."""

    def __init__(self) -> None:
        # What was slept through; forks that fail; whether workers but the first are late, and their first ones stuck.
        self._words = memoryview(mmap.mmap(-1, 32)).cast("d")

    def now_s(self) -> float:
        return time.monotonic() + self._words[0]

    def sleep_through(self, time_s: float) -> None:
        """Nobody runs for so long."""
        self._words[0] += time_s

    def fail_next_fork(self) -> None:
        """As if there were no memory for it."""
        self._words[1] += 1

    def keep_others_late(self, late: bool = True) -> None:
        """Workers but the first are there, and do not answer yet."""
        self._words[2] = late

    def wait_while_late(self, index: int) -> None:
        while index and self._words[2]:
            time.sleep(0.01)

    def be_stuck(self) -> None:
        """First workers but that at index 0 do nothing any more, though they live."""
        self._words[3] = 1

    def is_stuck(self, index: int, generation: int) -> bool:
        return bool(index and generation == 1 and self._words[3])

    def use_memory(self) -> None:
        if self._words[1] > 0:
            self._words[1] -= 1
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class Stage:
    """A supervisor in a process of its own, told what its children do. `log` has a line for what happened there."""

    def __init__(
        self,
        path: Path,
        engine: Run,
        *,
        max_restarts: int = 3,
        num_workers: int = 1,
        world: World | None = None,
        patience_s: float = 1e9,
    ) -> None:
        self._world = world or World()
        self._log = path / "log"
        self._log.touch()
        self._engine = engine
        self._max_restarts = max_restarts
        self._num_workers = num_workers
        self._patience_s = patience_s
        self.board = Board(max_running=4)
        self.child = fork("tailrace: test", self._supervise)

    def say(self, line: str) -> None:
        with self._log.open("a") as log:
            log.write(line + "\n")

    @property
    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def wait_for(self, line: str) -> None:
        wait_for(self._log, line)

    def end(self) -> int:
        """Tell it to stop; its exit code."""
        self.child.send(signal.SIGTERM)
        _, status = os.waitpid(self.child.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _supervise(self) -> None:
        supervisor = Supervisor(
            self.board,
            make_channels(self._num_workers, 64),
            start_engine=self._start_engine,
            start_worker=self._start_worker,
            on_ready=lambda: self.say("ready"),
            max_restarts=self._max_restarts,
            patience_s=self._patience_s,
            drain_s=1.0,
            clock=self._world.now_s,
        )
        supervisor.start_workers()
        supervisor.run()

    def _start_engine(self, generation: int) -> Child:
        self._world.use_memory()
        return fork("tailrace: engine", partial(self._run_engine, generation))

    def _run_engine(self, generation: int) -> None:
        self.say(f"engine {generation}")
        self._engine(self.board, generation)

    def _start_worker(self, index: int, generation: int) -> Child:
        self._world.use_memory()
        return fork(f"tailrace: api {index}", partial(self._run_worker, index, generation))

    def _run_worker(self, index: int, generation: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self._world.wait_while_late(index)
        self.board.worker_ready(index, generation)
        self.board.beat_worker(index, time.monotonic())
        self.say(f"worker {index} {generation} {os.getpid()}")
        os.kill(os.getppid(), WAKE_SIGNAL)
        while signal.sigtimedwait([signal.SIGTERM], 0.05) is None:
            if not self._world.is_stuck(index, generation):
                self.board.beat_worker(index, time.monotonic())


def wait_for(log: Path, line: str) -> None:
    ends_s = time.monotonic() + 30
    while line not in (lines := log.read_text().splitlines()):
        assert time.monotonic() < ends_s, f"{line!r} is not among {lines}"
        time.sleep(0.005)


def wait_for_start(stage: Stage, start: str) -> None:
    ends_s = time.monotonic() + 30
    while not any(line.startswith(start) for line in stage.lines):
        assert time.monotonic() < ends_s, f"nothing starts with {start} among {stage.lines}"
        time.sleep(0.005)


def serve(board: Board, generation: int) -> None:
    """An engine that is well until it is told to stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    board.ready(generation)
    while signal.sigtimedwait([signal.SIGTERM], 0.05) is None:
        board.beat(time.monotonic(), 10.0)


def crash_first(number: signal.Signals) -> Run:
    """One whose first generation dies while it runs a request, once it is ready."""

    def run(board: Board, generation: int) -> None:
        if generation == 1:
            board.running = [77]
            board.ready(generation)
            time.sleep(0.5)  # the supervisor has seen that it was ready
            faulthandler.disable()
            os.kill(os.getpid(), number)
        serve(board, generation)

    return run


def test_it_starts_all_says_when_they_are_ready_and_ends_them(tmp_path: Path) -> None:
    stage = Stage(tmp_path, serve, num_workers=2)
    stage.wait_for("ready")
    assert stage.end() == 0
    assert [line.split()[0] for line in stage.lines].count("worker") == 2


def test_nobody_says_that_the_server_is_ready_before_all_are(tmp_path: Path) -> None:
    world = World()
    world.keep_others_late()
    stage = Stage(tmp_path, serve, num_workers=2, world=world)
    wait_for_start(stage, "worker 0")
    stage.wait_for("engine 1")
    time.sleep(0.5)  # the supervisor looks several times
    seen = [stage.board.is_open]
    world.keep_others_late(False)
    stage.wait_for("ready")
    seen.append(stage.board.is_open)
    stage.board.is_warming = True
    seen.append(stage.board.is_open)
    assert seen == [False, True, False]
    assert stage.end() == 0


@pytest.mark.parametrize(
    ("number", "suspects"), [(signal.SIGSEGV, (77,)), (signal.SIGABRT, (77,)), (signal.SIGKILL, ())]
)
def test_who_ran_is_suspected_when_the_engine_died_by_itself(
    tmp_path: Path, number: signal.Signals, suspects: tuple[int, ...]
) -> None:
    stage = Stage(tmp_path, crash_first(number))
    stage.wait_for("engine 2")
    assert stage.board.suspects == suspects
    assert stage.board.generation == 2
    assert stage.end() == 0


def test_an_engine_that_hangs_is_ended(tmp_path: Path) -> None:
    def run(board: Board, generation: int) -> None:
        if generation == 1:
            board.running = [5]
            board.ready(generation)
            board.beat(time.monotonic(), 0.6)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])  # it does not even hear that
            time.sleep(60)
        serve(board, generation)

    stage = Stage(tmp_path, run)
    stage.wait_for("engine 2")
    assert stage.board.suspects == (5,)
    assert stage.end() == 0


def test_an_engine_that_somebody_stopped_is_replaced_and_nobody_is_suspected(tmp_path: Path) -> None:
    def run(board: Board, generation: int) -> None:
        if generation == 1:
            board.running = [5]
            board.ready(generation)
            board.beat(time.monotonic(), 0.6)
            os.kill(os.getpid(), signal.SIGSTOP)
        serve(board, generation)

    stage = Stage(tmp_path, run)
    stage.wait_for("engine 2")
    assert stage.board.suspects == ()
    assert stage.end() == 0


def test_an_engine_does_not_hang_when_nobody_ran_for_a_while(tmp_path: Path) -> None:
    """As after `docker pause`: the supervisor looks before the engine comes round."""
    world = World()

    def run(board: Board, generation: int) -> None:
        board.ready(generation)
        wait_for(tmp_path / "log", "ready")
        board.beat(world.now_s(), 10.0)
        world.sleep_through(100.0)
        time.sleep(1.0)  # the supervisor looks several times
        board.num_requests = 1
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        while signal.sigtimedwait([signal.SIGTERM], 0.05) is None:
            board.beat(world.now_s(), 10.0)

    stage = Stage(tmp_path, run, world=world)
    ends_s = time.monotonic() + 30
    while not stage.board.num_requests:
        assert time.monotonic() < ends_s
        assert stage.board.generation < 2, "it was ended"
        time.sleep(0.01)
    assert stage.end() == 0


def test_what_cannot_be_forked_now_is_forked_later_and_suspects_stay_so(tmp_path: Path) -> None:
    world = World()

    def run(board: Board, generation: int) -> None:
        if generation == 1:
            board.running = [77]
            board.ready(generation)
            wait_for(tmp_path / "log", "ready")
            world.fail_next_fork()
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)
        serve(board, generation)

    stage = Stage(tmp_path, run, world=world)
    stage.wait_for("engine 3")
    assert "engine 2" not in stage.lines
    assert stage.board.suspects == (77,)
    (worker,) = [line for line in stage.lines if line.startswith("worker 0 1 ")]
    world.fail_next_fork()
    os.kill(int(worker.split()[-1]), signal.SIGKILL)
    ends_s = time.monotonic() + 30
    while not stage.board.are_workers_ready(1) or stage.board.worker_generation(0) == 1:
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    assert stage.board.worker_generation(0) == 4
    assert stage.end() == 0


def test_all_may_be_told_to_stop_at_once_while_they_start(tmp_path: Path) -> None:
    """As systemd does: the engine ends before the supervisor has told it to."""

    def run(board: Board, generation: int) -> None:
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    stage = Stage(tmp_path, run)
    _, status = os.waitpid(stage.child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_worker_that_does_not_end_is_ended(tmp_path: Path) -> None:
    world = World()
    stage = Stage(tmp_path, serve, world=world)
    stage.wait_for("ready")
    (worker,) = [line for line in stage.lines if line.startswith("worker 0 1 ")]
    os.kill(int(worker.split()[-1]), signal.SIGSTOP)
    stage.child.send(signal.SIGTERM)
    ends_s = time.monotonic() + 30
    while (ended := os.waitpid(stage.child.pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < ends_s, "the supervisor waits for ever"
        world.sleep_through(1.0)
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 0


def test_one_that_dies_too_often_is_left_alone(tmp_path: Path) -> None:
    def run(board: Board, generation: int) -> None:
        board.ready(generation)
        time.sleep(0.5)

    stage = Stage(tmp_path, run, max_restarts=1)
    stage.wait_for("engine 2")
    ends_s = time.monotonic() + 30
    while stage.board.state is not EngineState.FAILED:
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    assert stage.board.retry_at_s > time.monotonic() + 30
    assert stage.end() == 0
    assert "engine 3" not in stage.lines


def test_what_cannot_start_says_why_and_takes_the_others_with_it(tmp_path: Path) -> None:
    def run(board: Board, generation: int) -> None:
        raise SetupError("there is no memory")

    stage = Stage(tmp_path, run)
    _, status = os.waitpid(stage.child.pid, 0)
    words = stage.child.last_words()
    assert os.waitstatus_to_exitcode(status) == 1
    assert isinstance(words, SetupError)
    assert str(words) == "there is no memory"


def test_an_engine_that_dies_before_it_was_ever_ready_ends_the_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path, lambda board, generation: os.kill(os.getpid(), signal.SIGKILL))
    _, status = os.waitpid(stage.child.pid, 0)
    words = stage.child.last_words()
    assert os.waitstatus_to_exitcode(status) == 1
    assert isinstance(words, EngineError)
    assert "SIGKILL" in str(words)


def test_a_worker_that_dies_is_started_again_in_its_next_generation(tmp_path: Path) -> None:
    stage = Stage(tmp_path, serve)
    stage.wait_for("ready")
    (worker,) = [line for line in stage.lines if line.startswith("worker 0 1 ")]
    os.kill(int(worker.split()[-1]), signal.SIGKILL)
    ends_s = time.monotonic() + 30
    while not stage.board.are_workers_ready(1) or stage.board.worker_generation(0) == 1:
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    assert stage.end() == 0
    assert len([line for line in stage.lines if line.startswith("worker 0 ")]) == 2


def worker_pids(stage: Stage, index: int) -> list[int]:
    """Of all workers that there were at that index."""
    return [int(line.split()[-1]) for line in stage.lines if line.startswith(f"worker {index} ")]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_worker_that_hangs_is_replaced_and_no_other(tmp_path: Path, is_stopped: bool) -> None:
    world = World()
    stage = Stage(tmp_path, serve, num_workers=2, world=world, patience_s=0.6)
    stage.wait_for("ready")
    if is_stopped:
        os.kill(worker_pids(stage, 1)[0], signal.SIGSTOP)
    else:
        world.be_stuck()
    ends_s = time.monotonic() + 30
    while len(worker_pids(stage, 1)) < 2 or not stage.board.are_workers_ready(2):
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    time.sleep(1.0)  # the supervisor looks several times
    assert len(worker_pids(stage, 0)) == 1
    assert len(worker_pids(stage, 1)) == 2
    assert stage.end() == 0


def test_no_worker_hangs_when_nobody_ran_for_a_while(tmp_path: Path) -> None:
    world = World()
    stage = Stage(tmp_path, serve, world=world, patience_s=5.0)
    stage.wait_for("ready")
    world.sleep_through(4.0)
    time.sleep(1.5)  # the supervisor looks several times
    assert len(worker_pids(stage, 0)) == 1
    assert stage.end() == 0
