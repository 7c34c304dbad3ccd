"""A model with latent attention that attends sparsely: a lightning indexer of random weights chooses what it sees."""

from dataclasses import replace

import numpy as np

from tailrace.models.config import SparseConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import from_float32
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["with_random_index"]

_INDEX = SparseConfig(num_heads=32, head_dim=64, top_k=24)  # so many heads that no two positions score alike


def with_random_index(checkpoint: Checkpoint) -> Checkpoint:
    """The same weights, of which each token meets those of `top_k` positions alone, as in DeepSeek-V3.2."""
    rng = np.random.default_rng(0)
    config = replace(checkpoint.config, architecture="deepseek_v32", sparse=_INDEX)
    index = {
        name: from_float32(rng.normal(scale=weight.shape[-1] ** -0.5, size=weight.shape).astype(np.float32))
        for name, weight in build_program(config).weights.items()
        if ".index." in name
    }
    return replace(
        checkpoint, config=config, tensors={**checkpoint.tensors, **index}, fingerprint="with a random index"
    )
