"""The heads of a model's attention as either format describes them."""

from dataclasses import dataclass

from tailrace.models.config import LatentConfig

__all__ = ["Heads"]


@dataclass(frozen=True, slots=True)
class Heads:
    """How many heads attention has, how wide they are, and what of them turns how."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int | None  # None: the whole head
    are_interleaved: bool

    @classmethod
    def of_latents(cls, num_heads: int, latent: LatentConfig, *, are_interleaved: bool) -> "Heads":
        """With latent attention there is one key for all heads, whatever a file says of KV heads."""
        return cls(num_heads, 1, latent.plain_dim + latent.rope_dim, latent.rope_dim, are_interleaved)
