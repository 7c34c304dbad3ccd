"""kv_b_proj, which files hold as one matrix and we as two: what absorbs queries, and what expands attended latents."""

from tailrace.models.config import LatentConfig
from tailrace.weights.composed import Bands, Turned
from tailrace.weights.stored import Shape, StoredTensor

__all__ = ["key_half", "kv_b_shape", "value_half"]


def kv_b_shape(sizes: LatentConfig, num_heads: int) -> Shape:
    """Of each head the rows for plain key values, then those for values: [H * (dn + dv), r]."""
    return num_heads * (sizes.plain_dim + sizes.value_dim), sizes.latent_dim


def key_half(kv_b: StoredTensor, sizes: LatentConfig) -> StoredTensor:
    """k_b [H * r, dn]: the key rows of each head, transposed."""
    return Turned(Bands(kv_b, sizes.plain_dim + sizes.value_dim, 0, sizes.plain_dim), sizes.plain_dim)


def value_half(kv_b: StoredTensor, sizes: LatentConfig) -> StoredTensor:
    """v_b [H * dv, r]."""
    return Bands(kv_b, sizes.plain_dim + sizes.value_dim, sizes.plain_dim, sizes.value_dim)
