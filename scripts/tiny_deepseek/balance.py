"""Balances experts without a loss: a bias that selection alone sees rises while its expert gets too little."""

import torch
from model import TinyDeepseek
from torch import Tensor


class Balance:
    """Counts what routers choose and moves their biases (DeepSeek-V3, arXiv 2412.19437, 2.1.2)."""

    def __init__(self, model: TinyDeepseek) -> None:
        self._routers = [mixture.gate for mixture in model.mixtures()]
        self._loads = [torch.zeros_like(router.e_score_correction_bias) for router in self._routers]
        for router, load in zip(self._routers, self._loads, strict=True):
            router.register_forward_hook(lambda _, __, routed, load=load: _count(routed[2], load))

    @torch.no_grad()
    def move(self, by: float) -> list[Tensor]:
        """Move each bias; each expert's load since the last move, as a multiple of an even share."""
        shares = [load / load.mean() for load in self._loads]
        for router, load in zip(self._routers, self._loads, strict=True):
            router.e_score_correction_bias += by * torch.sign(load.mean() - load)
            load.zero_()
        return shares


def _count(chosen: Tensor, load: Tensor) -> None:
    load += torch.bincount(chosen.flatten(), minlength=len(load))
