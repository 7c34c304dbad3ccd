"""Muon (K. Jordan, 2024) for the matrices inside the layers, AdamW for everything else.

Muon needs about half of AdamW's tokens at this size, and tokens are what two cores are short of.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that drives singular values towards 1
_ITERATIONS = 5


class Muon(Optimizer):
    """Momentum whose matrices are made orthogonal; a stack of matrices [experts, out, in] one by one."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 1 - group["momentum"])
                ahead = parameter.grad.lerp(momentum, group["momentum"])
                rows, cols = parameter.shape[-2:]
                parameter.sub_(_orthogonal(ahead), alpha=group["lr"] * max(1, rows / cols) ** 0.5)


def _orthogonal(matrices: Tensor) -> Tensor:
    """The nearest (semi-)orthogonal matrix, roughly: Newton-Schulz iterations in bfloat16."""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = (matrices.mT if is_tall else matrices).bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if is_tall else x).to(matrices.dtype)


def optimizers(model: nn.Module) -> tuple[Optimizer, Optimizer]:
    """What updates the model's parameters, at their highest rates."""
    inner, rest = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim > 1 and not any(part in name for part in ("embed_tokens", "lm_head", "gate.weight"))
        (inner if is_matrix else rest).append(parameter)
    return Muon(inner, lr=0.02), AdamW(rest, lr=0.003, betas=(0.9, 0.95), weight_decay=0.0)
