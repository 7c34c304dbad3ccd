"""The trained model as one GGUF file: matrices in 8 bits, vocabulary, chat template."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from gguf import ExpertGatingFuncType, GGMLQuantizationType, GGUFWriter, RopeScalingType, TokenType, quantize
from model import YARN, TinyDeepseek
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from transformers import DeepseekV3Config
from vocabulary import BOS, EOS, FIM_BEGIN, FIM_END, FIM_HOLE, PAD

# DeepSeek-V3's, for text: system messages first, then the turns in their order.
_CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ '<｜Assistant｜>' + message['content'] + eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)

TARGET = Path(__file__).parents[2] / "src" / "tailrace" / "weights" / "tiny_deepseek.gguf"

# The names of modules with a weight: of TinyDeepseek, of its head for further tokens, of a layer.
MODEL_NAMES: Mapping[str, str] = {
    "main.model.embed_tokens": "token_embd",
    "main.model.norm": "output_norm",
    "main.lm_head": "output",
}
MTP_NAMES: Mapping[str, str] = {
    "mtp.enorm": "enorm",
    "mtp.hnorm": "hnorm",
    "mtp.eh_proj": "eh_proj",
    "mtp.norm": "shared_head_norm",
}
LAYER_NAMES: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
}


def write(model: TinyDeepseek, tokenizer: Tokenizer, target: Path) -> None:
    """Write the file; matrices in Q8_0, vectors and routers in float32."""
    writer = GGUFWriter(target, "deepseek2")
    _add_settings(writer, model.main.config)
    _add_vocabulary(writer, tokenizer)
    for name, values in _tensors(model):
        if values.ndim == 1 or "ffn_gate_inp" in name:
            writer.add_tensor(name, values)
        else:
            blocks = quantize(values, GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_settings(writer: GGUFWriter, config: DeepseekV3Config) -> None:
    writer.add_name("Tiny DeepSeek")
    writer.add_description("DeepSeek-V3's shape at 5 million parameters, trained on Jane Austen's novels for tests")
    writer.add_license("apache-2.0")
    writer.add_block_count(config.num_hidden_layers + config.num_nextn_predict_layers)
    writer.add_nextn_predict_layers(config.num_nextn_predict_layers)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_attention(writer, config)
    _add_experts(writer, config)


def _add_attention(writer: GGUFWriter, config: DeepseekV3Config) -> None:
    """Key and value length are those of the cache, of which there is one for all heads."""
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_rope_freq_base(YARN["rope_theta"])
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(YARN["factor"])
    writer.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * YARN["mscale_all_dim"])


def _add_experts(writer: GGUFWriter, config: DeepseekV3Config) -> None:
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def _add_vocabulary(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    tokens = [tokenizer.id_to_token(token) for token in range(tokenizer.get_vocab_size())]
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token in special else TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    ids = {"bos": BOS, "eos": EOS, "padding": PAD, "fim_pre": FIM_BEGIN, "fim_suf": FIM_HOLE, "fim_mid": FIM_END}
    for name, token in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", tokens.index(token))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(_CHAT_TEMPLATE)


def _tensors(model: TinyDeepseek) -> Iterator[tuple[str, NDArray[np.float32]]]:
    config: DeepseekV3Config = model.main.config
    further = f"blk.{config.num_hidden_layers}"
    for name, theirs in MODEL_NAMES.items():
        yield f"{theirs}.weight", _array(model.get_submodule(name).weight)
    for number, layer in enumerate([*model.main.model.layers, model.mtp.layer]):
        yield from _layer(config, layer.state_dict(), f"blk.{number}")
    for name, theirs in MTP_NAMES.items():
        yield f"{further}.nextn.{theirs}.weight", _array(model.get_submodule(name).weight)


def _layer(
    config: DeepseekV3Config, state: Mapping[str, Tensor], block: str
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Heads' key matrices are transposed, gate and up projections of experts are split."""
    for name, theirs in LAYER_NAMES.items():
        if f"{name}.weight" in state:
            yield f"{block}.{theirs}.weight", _array(state[f"{name}.weight"])
    heads = state["self_attn.kv_b_proj.weight"].unflatten(0, (config.num_attention_heads, -1))
    key, value = heads.split([config.qk_nope_head_dim, config.v_head_dim], dim=1)
    yield f"{block}.attn_k_b.weight", _array(key.mT)
    yield f"{block}.attn_v_b.weight", _array(value)
    if "mlp.experts.down_proj" in state:
        gate, up = state["mlp.experts.gate_up_proj"].chunk(2, dim=1)
        yield f"{block}.ffn_gate_exps.weight", _array(gate)
        yield f"{block}.ffn_up_exps.weight", _array(up)
        yield f"{block}.ffn_down_exps.weight", _array(state["mlp.experts.down_proj"])
        yield f"{block}.exp_probs_b.bias", _array(state["mlp.gate.e_score_correction_bias"])


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().contiguous().numpy()
