"""config.json of DeepSeek's published models, as far as it decides anything."""

from typing import Any

__all__ = ["LLAMA_CLASS", "OWN_CLASS"]

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_LINEAR = {"type": "linear", "factor": 4.0}
_QWEN3_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
    "attn_factor": 0.8782488562869419,
}


def _llama_class(
    class_name: str, sizes: tuple[int, int, int, int, int, int], tokens: int, ids: tuple[int, int], **more: Any
) -> dict[str, Any]:
    hidden, inner, layers, heads, kv_heads, vocabulary = sizes
    return {
        "architectures": [class_name],
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": tokens,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "bos_token_id": ids[0],
        "eos_token_id": ids[1],
    } | more


_LLM, _CODER, _CODER_INSTRUCT = (100000, 100001), (32013, 32014), (32013, 32021)
_QWEN, _LLAMA_IDS = (151646, 151643), (128000, 128001)
_SLIDING = {"sliding_window": 4096, "max_window_layers": 21, "use_sliding_window": False}
_CODER_ROPE = {"rope_theta": 100000, "rope_scaling": _LINEAR}
_LLAMA3_ROPE = {"rope_theta": 500000.0, "rope_scaling": _LLAMA3, "rms_norm_eps": 1e-5}
_WIDE_QWEN = {"rope_theta": 1000000.0, "rms_norm_eps": 1e-5}
_L, _Q = "LlamaForCausalLM", "Qwen2ForCausalLM"

LLAMA_CLASS: dict[str, dict[str, Any]] = {
    "LLM-7B": _llama_class(_L, (4096, 11008, 30, 32, 32, 102400), 4096, _LLM),
    "LLM-67B": _llama_class(_L, (8192, 22016, 95, 64, 8, 102400), 4096, _LLM),
    "Coder-1.3B": _llama_class(_L, (2048, 5504, 24, 16, 16, 32256), 16384, _CODER, **_CODER_ROPE),
    "Coder-6.7B-instruct": _llama_class(_L, (4096, 11008, 32, 32, 32, 32256), 16384, _CODER_INSTRUCT, **_CODER_ROPE),
    "Coder-33B": _llama_class(_L, (7168, 19200, 62, 56, 8, 32256), 16384, _CODER, **_CODER_ROPE),
    "Distill-Qwen-1.5B": _llama_class(_Q, (1536, 8960, 28, 12, 2, 151936), 131072, _QWEN, **_SLIDING),
    "Distill-Qwen-7B": _llama_class(_Q, (3584, 18944, 28, 28, 4, 152064), 131072, _QWEN, **_SLIDING),
    "Distill-Qwen-14B": _llama_class(_Q, (5120, 13824, 48, 40, 8, 152064), 131072, _QWEN, **_SLIDING, **_WIDE_QWEN),
    "Distill-Qwen-32B": _llama_class(_Q, (5120, 27648, 64, 40, 8, 152064), 131072, _QWEN, **_SLIDING, **_WIDE_QWEN),
    "Distill-Llama-8B": _llama_class(_L, (4096, 14336, 32, 32, 8, 128256), 131072, _LLAMA_IDS, **_LLAMA3_ROPE),
    "Distill-Llama-70B": _llama_class(_L, (8192, 28672, 80, 64, 8, 128256), 131072, _LLAMA_IDS, **_LLAMA3_ROPE),
    "R1-0528-Qwen3-8B": _llama_class(
        "Qwen3ForCausalLM",
        (4096, 12288, 36, 32, 8, 151936),
        131072,
        (151643, 151645),
        head_dim=128,
        attention_bias=False,
        rope_theta=1000000,
        rope_scaling=_QWEN3_YARN,
        **_SLIDING,
    ),
}

_V2_YARN = {
    "type": "yarn",
    "factor": 40,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096,
}
_V3_YARN = _V2_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
_COMMON: dict[str, Any] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "tie_word_embeddings": False,
    "moe_layer_freq": 1,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
}
_MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_V2_LITE = (
    _COMMON
    | _MLA
    | {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "vocab_size": 102400,
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "q_lora_rank": None,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "routed_scaling_factor": 1.0,
        "first_k_dense_replace": 1,
        "max_position_embeddings": 163840,
        "rope_scaling": _V2_YARN,
        "bos_token_id": 100000,
        "eos_token_id": 100001,
    }
)
_V2 = _V2_LITE | {
    "hidden_size": 5120,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 60,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "n_routed_experts": 160,
    "n_group": 8,
    "topk_group": 3,
    "topk_method": "group_limited_greedy",
    "routed_scaling_factor": 16.0,
}
_V3 = _V2 | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "topk_group": 4,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
    "rope_scaling": _V3_YARN,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_MOE_16B = _COMMON | {
    "architectures": ["DeepseekForCausalLM"],
    "model_type": "deepseek",
    "vocab_size": 102400,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 4096,
    "rope_scaling": None,
    "bos_token_id": 100000,
    "eos_token_id": 100001,
}

OWN_CLASS: dict[str, dict[str, Any]] = {
    "MoE-16B": _MOE_16B,
    "V2-Lite": _V2_LITE,
    "V2": _V2,
    "V2.5": _V2 | {"rope_scaling": _V3_YARN},
    "V3": _V3,
    "V3.2": _V3
    | {
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 2048,
    },
}
