"""An executable that notes when it is called, when native code runs, and when it returns."""

import time
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import ResidentExperts, SampleOutputs, SamplingInputs, StepInputs, TokenMasks
from tailrace.ops.cpu.backend import CpuExecutable
from tailrace.types import OpTime

__all__ = ["CallTimes", "ClockedExecutable"]


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Monotonic seconds, but `native_s`, which is how long."""

    entered_s: float
    native_s: float
    left_s: float


class ClockedExecutable:
    """Wraps an executable of the CPU back end; `last` is of its latest run."""

    def __init__(self, executable: CpuExecutable) -> None:
        self._executable = executable
        self._native = _ClockedProgram(executable._program)
        # The one place in which the interpreter ends and native code begins; the back end has no need of a seam there.
        executable._native = cast("Any", self._native)
        self.last = CallTimes(0.0, 0.0, 0.0)

    @property
    def kv_bytes_per_block(self) -> int:
        return self._executable.kv_bytes_per_block

    @property
    def kv_pool(self) -> NDArray[np.uint8]:
        return self._executable.kv_pool

    @property
    def is_whole(self) -> bool:
        return self._executable.is_whole

    @property
    def weight_bytes(self) -> int:
        return self._executable.weight_bytes

    @property
    def expert_loads(self) -> tuple[NDArray[np.uint64], ...]:
        return self._executable.expert_loads

    @property
    def resident_experts(self) -> ResidentExperts | None:
        return self._executable.resident_experts

    @property
    def masks(self) -> TokenMasks:
        return self._executable.masks

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        entered_s = time.monotonic()
        outputs = self._executable.run(step, sampling)
        self.last = CallTimes(entered_s, self._native.draw_s, time.monotonic())
        return outputs

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        entered_s = time.monotonic()
        outputs = self._executable.run_timed(step, sampling)
        self.last = CallTimes(entered_s, self._native.draw_s, time.monotonic())
        return outputs

    def logits(self, step: StepInputs) -> Any:
        return self._executable.logits(step)

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        self._executable.copy_block(source, target, num_tokens)

    @property
    def kv_resident_bytes(self) -> int:
        return self._executable.kv_resident_bytes

    def commit(self, blocks: range) -> None:
        self._executable.commit(blocks)

    def populate(self, blocks: range) -> None:
        self._executable.populate(blocks)

    def release(self, blocks: range) -> None:
        self._executable.release(blocks)

    def close(self) -> None:
        self._executable.close()


class _ClockedProgram:
    """The native program, with its one call for a step timed."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self.draw_s = 0.0

    def draw(self, *arguments: Any) -> None:
        started_s = time.monotonic()
        self._program.draw(*arguments)
        self.draw_s = time.monotonic() - started_s

    def draw_timed(self, *arguments: Any) -> Any:
        started_s = time.monotonic()
        times = self._program.draw_timed(*arguments)
        self.draw_s = time.monotonic() - started_s
        return times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)
