"""Our tensor names beside those of GGUF and Hugging Face files.

A name in braces is filled in: {layer}, and {expert} where each expert is a tensor of its own.
"""

from collections.abc import Iterable, Mapping

__all__ = ["GGUF_NAMES", "HUGGING_FACE_NAMES", "file_name", "file_names", "layer_of", "tensor_class"]

_NUMBERED = ("layers.", "mtp.")

GGUF_NAMES: Mapping[str, str] = {
    "embed": "token_embd.weight",
    "norm": "output_norm.weight",
    "head": "output.weight",
    "attention_norm": "blk.{layer}.attn_norm.weight",
    "q": "blk.{layer}.attn_q.weight",
    "k": "blk.{layer}.attn_k.weight",
    "v": "blk.{layer}.attn_v.weight",
    "o": "blk.{layer}.attn_output.weight",
    "q.bias": "blk.{layer}.attn_q.bias",
    "k.bias": "blk.{layer}.attn_k.bias",
    "v.bias": "blk.{layer}.attn_v.bias",
    "o.bias": "blk.{layer}.attn_output.bias",
    "q_norm": "blk.{layer}.attn_q_norm.weight",
    "k_norm": "blk.{layer}.attn_k_norm.weight",
    "mlp_norm": "blk.{layer}.ffn_norm.weight",
    "gate": "blk.{layer}.ffn_gate.weight",
    "up": "blk.{layer}.ffn_up.weight",
    "down": "blk.{layer}.ffn_down.weight",
    "q_a": "blk.{layer}.attn_q_a.weight",
    "q_a_norm": "blk.{layer}.attn_q_a_norm.weight",
    "q_b": "blk.{layer}.attn_q_b.weight",
    "kv_a": "blk.{layer}.attn_kv_a_mqa.weight",
    "kv_a_norm": "blk.{layer}.attn_kv_a_norm.weight",
    "kv_b": "blk.{layer}.attn_kv_b.weight",  # older files: k_b and v_b, head by head
    "k_b": "blk.{layer}.attn_k_b.weight",
    "v_b": "blk.{layer}.attn_v_b.weight",
    "router": "blk.{layer}.ffn_gate_inp.weight",
    "router.bias": "blk.{layer}.exp_probs_b.bias",
    "experts.gate": "blk.{layer}.ffn_gate_exps.weight",
    "experts.up": "blk.{layer}.ffn_up_exps.weight",
    "experts.down": "blk.{layer}.ffn_down_exps.weight",
    "shared.gate": "blk.{layer}.ffn_gate_shexp.weight",
    "shared.up": "blk.{layer}.ffn_up_shexp.weight",
    "shared.down": "blk.{layer}.ffn_down_shexp.weight",
    "enorm": "blk.{layer}.nextn.enorm.weight",
    "hnorm": "blk.{layer}.nextn.hnorm.weight",
    "eh_proj": "blk.{layer}.nextn.eh_proj.weight",
    "shared_head_norm": "blk.{layer}.nextn.shared_head_norm.weight",
}

HUGGING_FACE_NAMES: Mapping[str, str] = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "head": "lm_head.weight",
    "attention_norm": "model.layers.{layer}.input_layernorm.weight",
    "q": "model.layers.{layer}.self_attn.q_proj.weight",
    "k": "model.layers.{layer}.self_attn.k_proj.weight",
    "v": "model.layers.{layer}.self_attn.v_proj.weight",
    "o": "model.layers.{layer}.self_attn.o_proj.weight",
    "q.bias": "model.layers.{layer}.self_attn.q_proj.bias",
    "k.bias": "model.layers.{layer}.self_attn.k_proj.bias",
    "v.bias": "model.layers.{layer}.self_attn.v_proj.bias",
    "o.bias": "model.layers.{layer}.self_attn.o_proj.bias",
    "q_norm": "model.layers.{layer}.self_attn.q_norm.weight",
    "k_norm": "model.layers.{layer}.self_attn.k_norm.weight",
    "mlp_norm": "model.layers.{layer}.post_attention_layernorm.weight",
    "gate": "model.layers.{layer}.mlp.gate_proj.weight",
    "up": "model.layers.{layer}.mlp.up_proj.weight",
    "down": "model.layers.{layer}.mlp.down_proj.weight",
    "q_a": "model.layers.{layer}.self_attn.q_a_proj.weight",
    "q_a_norm": "model.layers.{layer}.self_attn.q_a_layernorm.weight",
    "q_b": "model.layers.{layer}.self_attn.q_b_proj.weight",
    "kv_a": "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight",
    "kv_a_norm": "model.layers.{layer}.self_attn.kv_a_layernorm.weight",
    "kv_b": "model.layers.{layer}.self_attn.kv_b_proj.weight",  # k_b and v_b, head by head
    "index.q": "model.layers.{layer}.self_attn.indexer.wq_b.weight",
    "index.k": "model.layers.{layer}.self_attn.indexer.wk.weight",
    "index.k_norm": "model.layers.{layer}.self_attn.indexer.k_norm.weight",
    "index.k_norm.bias": "model.layers.{layer}.self_attn.indexer.k_norm.bias",
    "index.weights": "model.layers.{layer}.self_attn.indexer.weights_proj.weight",
    "router": "model.layers.{layer}.mlp.gate.weight",
    "router.bias": "model.layers.{layer}.mlp.gate.e_score_correction_bias",
    "experts.gate": "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
    "experts.up": "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight",
    "experts.down": "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
    "shared.gate": "model.layers.{layer}.mlp.shared_experts.gate_proj.weight",
    "shared.up": "model.layers.{layer}.mlp.shared_experts.up_proj.weight",
    "shared.down": "model.layers.{layer}.mlp.shared_experts.down_proj.weight",
    "enorm": "model.layers.{layer}.enorm.weight",
    "hnorm": "model.layers.{layer}.hnorm.weight",
    "eh_proj": "model.layers.{layer}.eh_proj.weight",
    "shared_head_norm": "model.layers.{layer}.shared_head.norm.weight",
}


def tensor_class(name: str) -> str:
    """`layers.7.q` -> `q`: what a tensor is, wherever it stands."""
    return name.split(".", 2)[2] if name.startswith(_NUMBERED) else name


def layer_of(names: Mapping[str, str], tensor: str) -> int | None:
    """The layer that a file's tensor belongs to, by its name."""
    before = names["attention_norm"].partition("{layer}")[0]
    layer = tensor.removeprefix(before).partition(".")[0] if tensor.startswith(before) else ""
    return int(layer) if layer.isdecimal() and len(layer) < 10 else None


def file_names(names: Mapping[str, str], ours: Iterable[str]) -> dict[str, str]:
    """Our names -> the names in a file whose naming is `names`, for tensors that files hold as we do."""
    return {name: file_name(names, name) for name in ours}


def file_name(names: Mapping[str, str], ours: str, num_layers: int = 0, *, part: str | None = None) -> str:
    """The name of our tensor `ours` in a file, or of its neighbour `part`; {expert} is left to be filled in.

    Modules for multi-token prediction are numbered on from the `num_layers` layers.
    """
    before = num_layers if ours.startswith("mtp.") else 0
    layer = before + int(ours.split(".", 2)[1]) if ours.startswith(_NUMBERED) else ""
    return names[part or tensor_class(ours)].replace("{layer}", str(layer))
