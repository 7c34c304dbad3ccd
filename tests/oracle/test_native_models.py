"""Native code against transformers, on the tiny random models of every kind; in float32, for every instruction set."""

import numpy as np
import pytest

from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.weights.load import open_checkpoint
from tests.oracle.test_tiny_models import LIMITS, config_of
from tests.support.oracle import TOLERANCE, TinyModel, tiny_models
from tests.support.steps import teacher_forced


@pytest.mark.parametrize("name", tiny_models())
@pytest.mark.parametrize("isa", supported_isas())
def test_logits_are_those_of_transformers(isa: str, name: str) -> None:
    """Whole, in chunks and token by token."""
    tiny = TinyModel.read(name)
    checkpoint = open_checkpoint(str(tiny.directory))
    executable = CpuBackend(isa, "f32").load(build_program(config_of(checkpoint, tiny)), checkpoint.tensors, LIMITS)

    for chunk_tokens in (48, 7, 1):
        logits = teacher_forced(executable, LIMITS, tiny.token_ids, chunk_tokens=chunk_tokens)
        np.testing.assert_allclose(logits, tiny.logits, rtol=0, atol=TOLERANCE)
