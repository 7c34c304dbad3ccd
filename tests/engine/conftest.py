"""The default model, opened once for all tests of the engine."""

from functools import partial

import pytest

from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.engine import harness


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    return open_checkpoint(None)


@pytest.fixture(scope="session")
def make_harness(checkpoint: Checkpoint) -> harness.MakeHarness:
    """`make_harness(budget_tokens=64)`: the default model behind an engine; settings as in EngineConfig."""
    return partial(harness.make_harness, checkpoint)
