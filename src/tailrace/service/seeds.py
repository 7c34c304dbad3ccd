"""Seeds of sampling: one for each choice of a request, reproducible from the seed that the client gave."""

import secrets

__all__ = ["choice_seed", "draw_seed"]

_MASK = (1 << 64) - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def draw_seed() -> int:
    """64 random bits, for a request that names no seed."""
    return secrets.randbits(64)


def choice_seed(seed: int, index: int) -> int:
    """Number `index` of the splitmix64 sequence that starts from `seed`, of which the low 64 bits count."""
    mixed = (seed + (index + 1) * _GOLDEN_GAMMA) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
