"""What the controller controls, pretended: streams that decode, prompts that fill their steps, memory that they hold.

There are no classes and no cache here; all that a scheduler does with a controller's word is to admit in order of
arrival and to fill steps up to a share of the target.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tailrace.measure.simulation.cost import recorded_s
from tailrace.scheduler.budget import LEAST_TOKENS, StepBudget
from tailrace.scheduler.controller import Control, Controller
from tailrace.scheduler.gaps import upper_quantile
from tailrace.scheduler.plan import StepSize, positions_met
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["NUM_KNOWN", "Conditions", "Device", "Plant", "Sample", "Workload"]

NUM_KNOWN = 32  # tokens of a step: more were rare when the model learned
_GOLDEN = 0.6180339887  # multiples of it spread evenly over 1, so that streams do not end together
_IDLE_S = 0.01
_MAX_PROMPT_TOKENS = 512  # in a step
_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """`target_s` is for the gaps between tokens, on a machine that takes 1 / `speed` of the recorded time for a step.

    Answers have from half to one and a half times `output_tokens`.
    """

    target_s: float = 0.05
    speed: float = 1.0
    prompt_tokens: int = 12
    output_tokens: int = 128
    kv_tokens: int = 12_288


@dataclass(frozen=True, slots=True)
class Conditions:
    """What may change while it runs: each client has one request at a time, and asks again at once."""

    num_clients: int
    slowdown: float = 1.0  # of steps, against what they took before
    taken_share: float = 0.0  # of KV memory, held by others


class Device:
    """Where each token beyond `num_known` of a step takes `bend` times what the model makes of it; and some noise."""

    def __init__(self, model: StepTimeModel, bend: float, noise: float, seed: int) -> None:
        self._model = model
        self._bend = bend
        self._noise = noise
        self._random = Random(f"noise {seed}")

    def seconds(self, size: StepSize) -> float:
        """Of the next step."""
        known_s = recorded_s(self._model, size._replace(num_tokens=min(size.num_tokens, NUM_KNOWN)))
        beyond_s = recorded_s(self._model, size) - known_s
        return (known_s + self._bend * beyond_s) * self._random.lognormvariate(0.0, self._noise)


class Sample(NamedTuple):
    at_s: float
    p99_ratio: float  # of the gaps of the last second to their target, but for one slow step; 0: there were none
    num_running: int
    max_running: int
    pace: float
    free_share: float


@dataclass(slots=True)
class _Stream:
    prompt_left: int
    output_left: int
    num_computed: int = 0

    @property
    def room(self) -> int:
        """Tokens of KV memory that are kept for it, from its start to its end."""
        return self.num_computed + self.prompt_left + self.output_left


class Plant:
    """A step loop in simulated time; steps are planned by the model and take what the device takes."""

    def __init__(self, workload: Workload, model: StepTimeModel, device: Device, controller: Controller) -> None:
        self._workload = workload
        self._model = model
        self._budget = StepBudget(model)
        self._device = device
        self._controller = controller
        self._conditions = Conditions(num_clients=0)
        self._control = Control(0, 0.0)
        self._running: list[_Stream] = []
        self._waiting: deque[_Stream] = deque()
        self._gaps: deque[tuple[float, float, int]] = deque()  # when, its ratio to the target, of how many streams
        self._num_streams = 0
        self.now_s = 0.0

    def meet(self, conditions: Conditions) -> None:
        """Clients that are too many leave at once, those who wait first; the others are unmoved."""
        self._conditions = conditions
        while self._waiting and self._num_clients > conditions.num_clients:
            self._waiting.pop()
        del self._running[conditions.num_clients :]

    def run_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            self._step()

    def sample(self) -> Sample:
        while self._gaps and self._gaps[0][0] < self.now_s - _WINDOW_S:
            self._gaps.popleft()
        p99 = upper_quantile([(ratio, count) for _, ratio, count in self._gaps], 0.99) or 0.0
        max_running, pace = self._control
        return Sample(self.now_s, p99, len(self._running), max_running, pace, self._free_share)

    @property
    def _num_clients(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def _free_share(self) -> float:
        used = sum(stream.room for stream in self._running) / self._workload.kv_tokens
        return 1.0 - self._conditions.taken_share - used

    def _step(self) -> None:
        while self._num_clients < self._conditions.num_clients:
            self._waiting.append(self._next_stream())
        self._control = self._controller.control(self.now_s, len(self._running), self._free_share)
        self._admit()
        decoding = [stream for stream in self._running if not stream.prompt_left]
        alone = _size(decoding)
        size = self._fill(alone)
        if not size.num_tokens:
            self.now_s += _IDLE_S
            return
        took_s = self._conditions.slowdown * self._device.seconds(size) / self._workload.speed
        self.now_s += took_s
        self._take_tokens(decoding)
        if decoding:
            self._note(took_s, len(decoding), self._fixed_share(alone, size))

    def _next_stream(self) -> _Stream:
        self._num_streams += 1
        spread = 0.5 + self._num_streams * _GOLDEN % 1.0
        return _Stream(self._workload.prompt_tokens, max(round(self._workload.output_tokens * spread), 1))

    def _admit(self) -> None:
        free = self._free_share * self._workload.kv_tokens
        while self._waiting and len(self._running) < self._control.max_running and free >= self._waiting[0].room:
            stream = self._waiting.popleft()
            free -= stream.room
            self._running.append(stream)

    def _fill(self, alone: StepSize) -> StepSize:
        """Compute as many tokens of prompts as the model allows within the pace; a whole step where nobody decodes."""
        left, size = self._room_for_prompts(alone), alone
        for stream in self._running:
            part = min(stream.prompt_left, left)
            if part:
                read = positions_met(stream.num_computed, part)
                size = size._replace(num_tokens=size.num_tokens + part, num_read_tokens=size.num_read_tokens + read)
                stream.prompt_left -= part
                stream.num_computed += part
                left -= part
        return size

    def _room_for_prompts(self, alone: StepSize) -> int:
        if not alone.num_tokens:
            return _MAX_PROMPT_TOKENS
        recorded_s = self._workload.target_s * self._workload.speed
        ceiling_s = self._budget.marks(alone, recorded_s, self._control.pace).ceiling_s
        return self._budget.prefill_tokens(alone, target_s=ceiling_s, read_per_token=0, most=_MAX_PROMPT_TOKENS)

    def _take_tokens(self, decoding: Iterable[_Stream]) -> None:
        for stream in decoding:
            stream.num_computed += 1
            stream.output_left -= 1
        self._running = [stream for stream in self._running if stream.output_left]

    def _fixed_share(self, alone: StepSize, size: StepSize) -> float:
        least = min(size.num_tokens, alone.num_tokens + LEAST_TOKENS)
        return min(recorded_s(self._model, alone._replace(num_tokens=least)) / recorded_s(self._model, size), 1.0)

    def _note(self, took_s: float, num_streams: int, fixed_share: float) -> None:
        ratio = took_s / self._workload.target_s
        self._controller.observe(ratio, num_streams, fixed_share)
        self._gaps.append((self.now_s, ratio, num_streams))


def _size(decoding: Iterable[_Stream]) -> StepSize:
    contexts = [stream.num_computed + 1 for stream in decoding]
    return StepSize(len(contexts), len(contexts), sum(contexts), sum(contexts))
