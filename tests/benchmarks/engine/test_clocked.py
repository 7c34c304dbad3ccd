import numpy as np
import pytest

from benchmarks.engine.clocked import ClockedExecutable
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable
from tests.support.steps import Part, sampling, step
from tests.support.steps import limits as make_limits
from tests.support.tiny import CONFIGS, random_ids, random_weights

LIMITS = make_limits(block_tokens=16)
CONFIG = CONFIGS["plain"]


def load() -> CpuExecutable:
    return CpuBackend().load(build_program(CONFIG), random_weights(CONFIG), LIMITS)


@pytest.fixture
def clocked() -> ClockedExecutable:
    return ClockedExecutable(load())


def test_native_time_lies_within_the_call(clocked: ClockedExecutable) -> None:
    clocked.run(step(LIMITS, Part(0, 0, random_ids(CONFIG, 8))), sampling(8))

    assert 0 < clocked.last.native_s < clocked.last.left_s - clocked.last.entered_s


def test_clocks_change_no_answer(clocked: ClockedExecutable) -> None:
    inputs, draw = step(LIMITS, Part(0, 0, random_ids(CONFIG, 8))), sampling(8)

    assert clocked.run(inputs, draw).token_ids.tolist() == load().run(inputs, draw).token_ids.tolist()
    assert np.array_equal(clocked.logits(inputs), load().logits(inputs))
