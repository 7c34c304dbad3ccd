"""The default model, from its GGUF file to its logits, against transformers on the dequantised weights."""

import pytest

from tailrace.models.registry import build_program
from tailrace.ops.reference import ReferenceBackend, ReferenceExecutable
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import TOLERANCE, Text, texts
from tests.support.steps import limits, teacher_forced

LIMITS = limits(max_model_tokens=64, block_tokens=16)


@pytest.fixture(scope="module")
def executable() -> ReferenceExecutable:
    checkpoint = open_checkpoint("default")
    return ReferenceBackend().load(build_program(checkpoint.config), checkpoint.tensors, LIMITS)


@pytest.mark.parametrize("text", texts(), ids=["prose", "code", "chat", "scripts"])
def test_logits_are_those_of_transformers(executable: ReferenceExecutable, text: Text) -> None:
    logits = teacher_forced(executable, LIMITS, text.token_ids, chunk_tokens=64)

    assert text.largest_error(logits) < TOLERANCE


def test_logits_in_chunks_are_those_of_transformers(executable: ReferenceExecutable) -> None:
    text = texts()[0]
    logits = teacher_forced(executable, LIMITS, text.token_ids, chunk_tokens=5, slot=2)

    assert text.largest_error(logits) < TOLERANCE
