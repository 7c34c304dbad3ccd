"""Two models with trained weights, opened once for all tests of the engine: grouped-query and latent attention."""

from functools import partial

import pytest

from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.engine import harness


@pytest.fixture(scope="session", params=["default", "tiny-deepseek"])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return open_checkpoint(request.param)


@pytest.fixture(scope="session")
def make_harness(checkpoint: Checkpoint) -> harness.MakeHarness:
    """`make_harness(budget_tokens=64)`: a model behind an engine; settings as in EngineConfig."""
    return partial(harness.make_harness, checkpoint)
