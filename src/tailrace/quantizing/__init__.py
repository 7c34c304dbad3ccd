"""Writes a model with narrower weights: what `tailrace quantize` does. Knows weights and arithmetic, no terminal."""
