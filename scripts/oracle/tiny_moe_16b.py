"""DeepSeek-MoE 16B, for which transformers has no class: Llama whose later MLPs are the mixtures of DeepSeek V2.

Router, scaling and shared experts are V2's own module, told to choose greedily; the experts are V2's MLPs in a list, so
that their names are those of the released files.
"""

from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2MLP, DeepseekV2Moe


class DeepseekConfig(LlamaConfig):
    """Llama's settings and those of V2's mixtures."""

    model_type = "deepseek"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.num_experts = self.n_routed_experts
        self.topk_method = "greedy"
        self.routed_scaling_factor = 1.0
        self.n_group = self.topk_group = None


class DeepseekForCausalLM(LlamaForCausalLM):
    config_class = DeepseekConfig

    def __init__(self, config: DeepseekConfig) -> None:
        super().__init__(config)
        for layer in self.model.layers[config.first_k_dense_replace :]:
            layer.mlp = DeepseekV2Moe(config)
            layer.mlp.experts = Experts(
                DeepseekV2MLP(config, intermediate_size=config.moe_intermediate_size) for _ in range(config.num_experts)
            )


class Experts(nn.ModuleList):
    def forward(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """What the chosen experts make of each row of x, added by weight; ids and weights are [rows, chosen]."""
        return torch.stack([self.mixed(*row) for row in zip(x, ids.tolist(), weights, strict=True)])

    def mixed(self, x: torch.Tensor, ids: list[int], weights: torch.Tensor) -> torch.Tensor:
        return sum(weight * self[expert](x) for expert, weight in zip(ids, weights, strict=True))
