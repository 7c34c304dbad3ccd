from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.long_prompt import Scene, engine_config
from tailrace.loading import load_model
from tailrace.weights.load import open_checkpoint

SCENE = Scene(num_streams=2, prompt_tokens=200, stream_prompt_tokens=8, quiet_steps=5)


@pytest.fixture(scope="session")
def tiny() -> Iterator[Settled]:
    """Loaded for the largest steps that the benchmarks ask for, and their longest requests."""
    checkpoint = open_checkpoint("tiny-deepseek")
    config = replace(engine_config(checkpoint, SCENE), max_model_tokens=1024, kv_memory_bytes=32 << 20)
    model = load_model(checkpoint, config)
    yield Settled.on(model, config)
    model.executable.close()
