"""What all processes of a server know of each other: one page of words, shared from before they were forked.

Words of 8 bytes in the order of the machine; who writes:

    0  generation          supervisor   of the engine that runs, or ran last; 0: there was none yet
    1  state               supervisor
    2  retry_at_s          supervisor   monotonic; when a failed engine will be started again
    3  num_suspects        supervisor   of the request numbers at `suspects`
    4  ready_generation    engine       takes requests
    5  beat_s              engine       monotonic; when the step loop came round last
    6  allowed_s           engine       how long it may take to come round again
    7  num_requests        engine       submitted and not ended, of all API processes
    8  target_scale        engine       a float
    9  num_running         engine       of the request numbers at `running`
   10  was_ready           supervisor   1 once the engine and all API processes have been there
   11  is_warming          API process  the first one's: 1 while what is expected is computed ahead
   12  published_s         engine       monotonic; when it last published tokens
   13  num_replaced        supervisor   API processes that died and have been started again
   16  worker generations  supervisor   one for each API process
       ready workers       API process  the generation of each that answers
       worker beats        API process  monotonic; when the event loop of each came round last
       running             engine       request numbers
       suspects            supervisor   request numbers

A word is written whole; what belongs together is written before the word that tells of it.
"""

import mmap
from collections.abc import Sequence
from enum import IntEnum

__all__ = ["MAX_WORKERS", "Board", "EngineState"]

MAX_WORKERS = 64

_GENERATION, _STATE, _RETRY_AT, _NUM_SUSPECTS = range(4)
_READY, _BEAT, _ALLOWED, _NUM_REQUESTS, _SCALE, _NUM_RUNNING = range(4, 10)
_WAS_READY, _IS_WARMING, _PUBLISHED, _NUM_REPLACED = range(10, 14)
_WORKERS = 16
_READY_WORKERS = _WORKERS + MAX_WORKERS
_WORKER_BEATS = _READY_WORKERS + MAX_WORKERS
_RUNNING = _WORKER_BEATS + MAX_WORKERS


class EngineState(IntEnum):
    STARTING = 0  # the first one has not been there yet
    RUNNING = 1
    RECOVERING = 2  # it died, and the next one is being started
    FAILED = 3  # it died too often; the next one is started at `retry_at_s`


class Board:
    """Make it before the fork."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._suspects_at = _RUNNING + max_running
        memory = mmap.mmap(-1, 8 * (self._suspects_at + max_running))
        self._words = memoryview(memory).cast("Q")
        self._times = memoryview(memory).cast("d")
        self._times[_SCALE] = 1.0

    @property
    def generation(self) -> int:
        """Of the engine that runs, or ran last; they count from 1."""
        return self._words[_GENERATION]

    @property
    def num_engine_restarts(self) -> int:
        """How often an engine has taken the place of another."""
        return max(self.generation - 1, 0)

    @property
    def num_worker_restarts(self) -> int:
        """How often API processes have taken the place of others."""
        return self._words[_NUM_REPLACED]

    def replace_worker(self, index: int) -> int:
        """An API process has died, and another is about to be started in its place; the generation of that."""
        self._words[_NUM_REPLACED] += 1
        return self.begin_worker(index)

    @property
    def state(self) -> EngineState:
        return EngineState(self._words[_STATE])

    @property
    def retry_at_s(self) -> float:
        return self._times[_RETRY_AT]

    @property
    def ready_generation(self) -> int:
        """Of the last engine that took requests."""
        return self._words[_READY]

    @property
    def is_ready(self) -> bool:
        """Whether there is an engine that takes requests."""
        return self.state is EngineState.RUNNING and self.ready_generation == self.generation

    def begin(self, generation: int, now_s: float, allowed_s: float) -> None:
        """An engine is about to be started, whose step loop comes round within `allowed_s`."""
        self.beat(now_s, allowed_s)
        self._words[_NUM_REQUESTS] = self._words[_NUM_RUNNING] = 0
        self._words[_GENERATION] = generation
        self._words[_STATE] = EngineState.RUNNING

    def lose(self, suspects: Sequence[int]) -> None:
        """The engine is dead; the requests of these numbers may have done it."""
        suspects = suspects[: self._max_running]
        for place, number in enumerate(suspects, self._suspects_at):
            self._words[place] = number
        self._words[_NUM_SUSPECTS] = len(suspects)
        self._words[_STATE] = EngineState.RECOVERING

    def fail(self, retry_at_s: float) -> None:
        """It is not started again before that time."""
        self._times[_RETRY_AT] = retry_at_s
        self._words[_STATE] = EngineState.FAILED

    @property
    def suspects(self) -> tuple[int, ...]:
        """Numbers of the requests one of which may have killed the engine before this one."""
        return tuple(self._words[self._suspects_at : self._suspects_at + self._words[_NUM_SUSPECTS]])

    def worker_generation(self, index: int) -> int:
        return self._words[_WORKERS + index]

    def begin_worker(self, index: int) -> int:
        """An API process is about to be started; its generation."""
        self._words[_WORKERS + index] += 1
        return self._words[_WORKERS + index]

    def worker_ready(self, index: int, generation: int) -> None:
        """The API process of this generation answers."""
        self._words[_READY_WORKERS + index] = generation

    def are_workers_ready(self, count: int) -> bool:
        """Whether all of so many API processes answer."""
        return all(map(self._is_worker_ready, range(count)))

    def beat_worker(self, index: int, now_s: float) -> None:
        """The event loop of an API process has come round."""
        self._times[_WORKER_BEATS + index] = now_s

    def worker_silent_s(self, index: int, now_s: float, awake_s: float = 0.0) -> float:
        """For how long an API process that answers has not come round. Nobody ran before `awake_s`."""
        if not self._is_worker_ready(index):
            return 0.0
        return now_s - max(self._times[_WORKER_BEATS + index], awake_s)

    def _is_worker_ready(self, index: int) -> bool:
        return self._words[_READY_WORKERS + index] == self._words[_WORKERS + index]

    @property
    def is_open(self) -> bool:
        """Whether clients may be told that the server is ready: whichever process they reach has been started."""
        return bool(self._words[_WAS_READY]) and not self._words[_IS_WARMING]

    @property
    def was_ready(self) -> bool:
        """Whether the engine and all API processes have been there together."""
        return bool(self._words[_WAS_READY])

    @was_ready.setter
    def was_ready(self, value: bool) -> None:
        self._words[_WAS_READY] = value

    @property
    def is_warming(self) -> bool:
        """Whether what is expected is still being computed ahead."""
        return bool(self._words[_IS_WARMING])

    @is_warming.setter
    def is_warming(self, value: bool) -> None:
        self._words[_IS_WARMING] = value

    def ready(self, generation: int) -> None:
        """The engine of this generation takes requests."""
        self._words[_READY] = generation

    def beat(self, now_s: float, allowed_s: float) -> None:
        """The step loop has come round, and comes round again within `allowed_s`, with or without work."""
        self._times[_ALLOWED] = allowed_s
        self._times[_BEAT] = now_s

    def overdue_s(self, now_s: float, awake_s: float = 0.0) -> float:
        """For how long the step loop should have come round; 0 or less: all is well. Nobody ran before `awake_s`."""
        return now_s - max(self._times[_BEAT], awake_s) - self._times[_ALLOWED]

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the requests that take part in steps, and of those that are about to."""
        return tuple(self._words[_RUNNING : _RUNNING + min(self._words[_NUM_RUNNING], self._max_running)])

    @running.setter
    def running(self, numbers: Sequence[int]) -> None:
        numbers = numbers[: self._max_running]
        for place, number in enumerate(numbers, _RUNNING):
            self._words[place] = number
        self._words[_NUM_RUNNING] = len(numbers)

    @property
    def num_requests(self) -> int:
        """Submitted and not ended, of all API processes."""
        return self._words[_NUM_REQUESTS]

    @num_requests.setter
    def num_requests(self, count: int) -> None:
        self._words[_NUM_REQUESTS] = count

    @property
    def published_s(self) -> float:
        """When tokens were last published."""
        return self._times[_PUBLISHED]

    @published_s.setter
    def published_s(self, now_s: float) -> None:
        self._times[_PUBLISHED] = now_s

    @property
    def target_scale(self) -> float:
        """How many times as long as configured the targets of classes are now."""
        return self._times[_SCALE]

    @target_scale.setter
    def target_scale(self, scale: float) -> None:
        self._times[_SCALE] = scale
