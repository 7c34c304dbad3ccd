"""The combinations of widths that the README's table has, and the texts that they are measured on."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.quality.variants import AS_SHIPPED, ConvertedTensors, read_variant
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, KvFormat
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.precision import AS_STORED, Precision
from tests.support.oracle import DATA, Prose
from tests.support.predictions import PROSE_LIMITS, predict

__all__ = ["COMBINATIONS", "kv_of", "prose_of", "weights_of"]

_SERVED_KV: KvFormat = "bf16"

# Weights first, with the KV that is usual, then KV with weights that lose little. A head that is the embedding is that.
COMBINATIONS: Mapping[str, Sequence[str]] = {
    "default": (
        AS_SHIPPED,
        "float",
        "int8",
        "int4",
        "int4,embed=float",
        "int4,embed=int4",
        "int4,attention=int8",
        "int4,dense=int8",
        "int8,kv=int8",
        "int8,kv=fp8_e4m3",
    ),
    "tiny-deepseek": (
        AS_SHIPPED,
        "float",
        "int8",
        "int4",
        "int4,head=float,embed=float",
        "int4,head=int4,embed=int4",
        "int4,attention=int8",
        "int4,attention=float",
        "int8,experts=int4",
        "int4,experts=int8",
        "int8,kv=int8",
        "int8,kv=fp8_e4m3",
    ),
}


def weights_of(words: str) -> str:
    """The words without what they say of keys and values."""
    return words if words == AS_SHIPPED else Precision.parse(words).weight_words() or AS_SHIPPED


def kv_of(words: str) -> KvFormat:
    """How keys and values are kept."""
    precision = AS_STORED if words == AS_SHIPPED else Precision.parse(words)
    return precision.kv or _SERVED_KV


def prose_of(model: str, checkpoint: Checkpoint) -> Prose:
    """The same novel as the model's tokens, and what float32 arithmetic makes of it: of the default model, known."""
    if model == "default":
        return Prose.read()
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
    text = (DATA / "prose.txt").read_text(encoding="utf-8")
    token_ids = tokenizer.encode(text, allow_control=False)[: PROSE_LIMITS.max_model_tokens + 1]
    unknown = np.zeros((len(token_ids) - 1, 1), np.int32)
    asked = Prose(token_ids, unknown[:, 0].astype(np.float32), unknown, unknown.astype(np.float32))
    tensors = ConvertedTensors(checkpoint.tensors, read_variant("float"))
    executable = CpuBackend(kv_format="f32").load(build_program(checkpoint.config), tensors, PROSE_LIMITS)
    found = predict(executable, asked)
    executable.close()
    best_ids = found.best_ids[:, None].astype(np.int32)
    return Prose(token_ids, found.logprobs.astype(np.float32), best_ids, asked.best_logits)
