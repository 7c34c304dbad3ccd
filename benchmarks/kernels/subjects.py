"""The models that are measured: the default one as it is, others by their shapes with random weights."""

from collections.abc import Callable, Iterator

from benchmarks.kernels.mixtures import mixture_subject
from benchmarks.kernels.projections import projections_subject
from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.shapes import R1_DISTILL_QWEN_1_5B, V2_LITE, V2_LITE_EXPERTS, V2_LITE_HIDDEN
from benchmarks.kernels.subject import Subject
from tailrace.models.registry import build_program
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose

__all__ = ["SUBJECTS", "SUBJECT_NOTES"]

COLD_BYTES = 96 * 2**20  # of weights: beyond any cache


def _default_model() -> Iterator[Subject]:
    checkpoint = open_checkpoint("default")
    yield Subject(build_program(checkpoint.config), checkpoint.tensors, Prose.read().token_ids)


def _random_model() -> Iterator[Subject]:
    program = build_program(R1_DISTILL_QWEN_1_5B)
    yield Subject(program, random_weights(program), range(R1_DISTILL_QWEN_1_5B.vocab_size))


def _v2_lite() -> Iterator[Subject]:
    for projections in V2_LITE:
        yield projections_subject(projections, num_bytes=COLD_BYTES)
    yield mixture_subject(V2_LITE_HIDDEN, V2_LITE_EXPERTS)


SUBJECTS: dict[str, Callable[[], Iterator[Subject]]] = {
    "SmolLM2-135M": _default_model,
    "R1-Distill-Qwen-1.5B": _random_model,
    "DeepSeek-V2-Lite": _v2_lite,
}
SUBJECT_NOTES = {
    "SmolLM2-135M": "the default model with its own weights, on prose",
    "R1-Distill-Qwen-1.5B": "random int4, int8 embedding and head; activations with loud channels as real ones have",
    "DeepSeek-V2-Lite": "its linears and experts one by one, random int4; `tailrace bench synth` has the whole",
}
