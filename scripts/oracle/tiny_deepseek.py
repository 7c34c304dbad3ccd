"""DeepSeek's architectures: latent attention with and without its options, every way to route, the index of V3.2."""

from collections.abc import Mapping
from typing import Any

import torch
from tiny_model import NUM_GREEDY_TOKENS, TRAINED_TOKENS, Tiny, scaled

# Epsilons are far from 1e-6: latents are normed with that whatever the config says, and here it shows.
LATENT: Mapping[str, Any] = {
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "max_position_embeddings": TRAINED_TOKENS + NUM_GREEDY_TOKENS,
    "kv_lora_rank": 20,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}
MIXTURE: Mapping[str, Any] = {
    "moe_intermediate_size": 8,
    "n_routed_experts": 12,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
}
IN_GROUPS: Mapping[str, Any] = {"n_group": 3, "topk_group": 2}
OF_V3: Mapping[str, Any] = {
    **LATENT,
    **MIXTURE,
    **IN_GROUPS,
    "n_shared_experts": 1,
    "routed_scaling_factor": 2.5,
    "rms_norm_eps": 1e-2,
}


OWN = frozenset({"head_dim", "qk_head_dim", "rope_interleave"})  # what only transformers writes
YARN_FACTOR = 40
STRETCHED = {"max_position_embeddings": YARN_FACTOR * TRAINED_TOKENS}


def yarn(mscale: float, mscale_all_dim: float) -> dict[str, Any]:
    """Bounds that leave pairs on both sides of the ramp, and between."""
    return scaled(
        "yarn",
        factor=float(YARN_FACTOR),
        original_max_position_embeddings=TRAINED_TOKENS,
        rope_theta=100.0,
        beta_fast=2.0,
        beta_slow=0.1,
        mscale=mscale,
        mscale_all_dim=mscale_all_dim,
    )


DEEPSEEK_MODELS: Mapping[str, Tiny] = {
    "deepseek-moe": Tiny(
        "deepseek",
        torch.bfloat16,
        settings={
            **MIXTURE,
            "n_shared_experts": 2,
            "num_key_value_heads": 4,
            "rms_norm_eps": 1e-3,
            "max_position_embeddings": TRAINED_TOKENS + NUM_GREEDY_TOKENS,
        },
        absent=frozenset({"head_dim", "num_experts", "topk_method", "routed_scaling_factor", "n_group", "topk_group"}),
        released={"norm_topk_prob": False, "scoring_func": "softmax", "moe_layer_freq": 1, "aux_loss_alpha": 0.001},
        is_old=True,
        is_greedy=True,
    ),
    "deepseek-v2-lite": Tiny(
        "deepseek_v2",
        torch.bfloat16,
        yarn(0.707, 0.707),
        settings={**LATENT, **STRETCHED, **MIXTURE, "q_lora_rank": None, "n_shared_experts": 2, "rms_norm_eps": 1e-2},
        absent=OWN,
        released={"scoring_func": "softmax", "moe_layer_freq": 1, "ep_size": 1, "seq_aux": True},
        is_old=True,
        is_greedy=True,
    ),
    "deepseek-v2": Tiny(
        "deepseek_v2",
        torch.bfloat16,
        yarn(1.0, 0.707),
        settings={
            **LATENT,
            **STRETCHED,
            **MIXTURE,
            **IN_GROUPS,
            "topk_method": "group_limited_greedy",
            "n_shared_experts": 2,
            "routed_scaling_factor": 4.0,
            "rms_norm_eps": 1e-2,
        },
        is_greedy=True,
    ),
    "deepseek-v3": Tiny(
        "deepseek_v3",
        torch.bfloat16,
        yarn(1.0, 1.0),
        settings=OF_V3 | STRETCHED,
        absent=OWN,
        released={"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1, "ep_size": 1},
        is_old=True,
        is_greedy=True,
    ),
    "deepseek-v3-halves": Tiny(
        "deepseek_v3",
        torch.float16,
        settings={**OF_V3, "q_lora_rank": None, "rope_interleave": False, "norm_topk_prob": False},
        is_greedy=True,
    ),
    "deepseek-v32": Tiny(
        "deepseek_v32",
        torch.bfloat16,
        yarn(1.0, 0.707),
        # Of two heads' indexes every fourth is exactly zero, of four heads' every twentieth, and which of equals are
        # selected is anybody's choice: 32 leave no ties.
        settings={**OF_V3, **STRETCHED, "index_n_heads": 32, "index_head_dim": 12, "index_topk": 10},
        is_greedy=True,
    ),
}
