"""How latent attention is lowered: in its absorbed form, for every row (csrc/program/latent.h says why)."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tailrace.ops.cpu.stages import Buffer, Form, HeadGemmStage, LatentAttentionStage, LatentStoreStage, Stage
from tailrace.ops.program import KvCacheSpec, LatentAttention, Program, Rows, Tensor

__all__ = ["lower_latent_attention", "padded_caches"]

_VECTOR = 16


def padded_caches(program: Program) -> tuple[KvCacheSpec, ...]:
    """The program's caches as the kernels keep them: latents are padded to whole vectors."""
    caches = list(program.caches)
    for op in program.ops:
        if isinstance(op, LatentAttention):
            caches[op.cache] = replace(caches[op.cache], head_dim=_padded(op.latent_dim) + op.rope_dim)
    return tuple(caches)


def lower_latent_attention(
    op: LatentAttention, angles: Buffer, forms: tuple[Form, Form], new_tensor: Callable[[Rows, int], Tensor]
) -> Iterator[Stage]:
    """Queries go to latents, attend there, and what they gather goes to values. `forms`: what k_b and v_b read."""
    heads, padded = op.num_heads, _padded(op.latent_dim)
    q = Buffer(op.q, "float")
    queries = Buffer(new_tensor("tokens", heads * (padded + op.rope_dim)), "float")
    plain = Buffer(new_tensor("tokens", heads * op.plain_dim), "int8") if forms[0] == "int8" else None
    yield LatentStoreStage(q, Buffer(op.latent, "float"), angles, op, queries, plain)
    yield HeadGemmStage(plain or q, op.k_b, heads, padded + op.rope_dim, queries)
    latents = new_tensor("tokens", heads * padded)
    floats = Buffer(latents, "float")
    codes = Buffer(latents, "int8") if forms[1] == "int8" else None
    selection = None if op.selection is None else Buffer(op.selection, "float")
    yield LatentAttentionStage(queries, op, selection, floats, codes)
    yield HeadGemmStage(codes or floats, op.v_b, heads, op.value_dim, Buffer(op.out, "float"))


def _padded(dim: int) -> int:
    return -(-dim // _VECTOR) * _VECTOR
