"""Tiny random models with mixtures of experts behind grouped-query attention: each way to route, awkward shapes."""

from dataclasses import replace

from tailrace.models.config import MixtureConfig, ModelConfig
from tailrace.ops.program import Routing
from tests.support.tiny import CONFIGS

__all__ = ["MIXTURES"]

_PLAIN = CONFIGS["plain"]


def _with(
    routing: Routing, *, of: ModelConfig = _PLAIN, size: int = 64, shared: int = 0, bias: bool = False
) -> ModelConfig:
    return replace(of, mixture=MixtureConfig(routing, size, shared, has_bias=bias))


MIXTURES = {
    "softmax, shared, behind a dense layer": replace(
        _PLAIN, num_layers=3, mixture=MixtureConfig(Routing(8, 2, "softmax"), 64, num_shared=2, first_layer=1)
    ),
    "softmax, best groups, scaled": _with(Routing(20, 3, "softmax", num_groups=5, top_groups=2, scale=16.0)),
    "sigmoid, biased, two best of a group": _with(
        Routing(24, 4, "sigmoid", 6, 3, "top two", normalize=True, scale=2.5), shared=1, bias=True
    ),
    "every second layer": replace(
        _PLAIN, num_layers=4, mixture=MixtureConfig(Routing(6, 2, "sigmoid", normalize=True), 32, every=2)
    ),
    "all experts chosen": _with(Routing(5, 5, "softmax", normalize=True), size=160),
    "one of many": _with(Routing(70, 1, "softmax")),
    "wide experts": _with(Routing(3, 2, "softmax", normalize=True), size=288),
    "odd sizes": _with(Routing(7, 3, "softmax", normalize=True), of=CONFIGS["biased, odd sizes"], size=45, shared=1),
}
"""Of every second one the last layer is a mixture, whose rows are those that are sampled."""
