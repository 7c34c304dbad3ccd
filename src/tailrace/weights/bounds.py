"""Sizes that no model reaches: what a file claims beyond them is refused before anything is made of that size."""

__all__ = ["MAX_DIM", "MAX_EXPERTS", "MAX_HEADS", "MAX_LAYERS"]

MAX_LAYERS = 1024
MAX_HEADS = 4096
MAX_DIM = 1 << 16  # of a head or a latent
MAX_EXPERTS = 1 << 14
