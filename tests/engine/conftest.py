"""Models with trained weights, opened once for all tests of the engine: grouped-query, latent and sparse attention."""

from collections.abc import Callable
from functools import partial

import pytest

from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.engine import harness
from tests.support.sparse import with_random_index

MODELS: dict[str, Callable[[], Checkpoint]] = {
    "default": lambda: open_checkpoint("default"),
    "tiny-deepseek": lambda: open_checkpoint("tiny-deepseek"),
    "tiny-deepseek, sparse": lambda: with_random_index(open_checkpoint("tiny-deepseek")),
}


@pytest.fixture(scope="session", params=MODELS)
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return MODELS[request.param]()


@pytest.fixture(scope="session")
def make_harness(checkpoint: Checkpoint) -> harness.MakeHarness:
    """`make_harness(budget_tokens=64)`: a model behind an engine; settings as in EngineConfig."""
    return partial(harness.make_harness, checkpoint)
