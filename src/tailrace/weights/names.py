"""Our tensor names beside those of GGUF and Hugging Face files, and the shapes a config asks for."""

from collections.abc import Iterable, Iterator, Mapping

from tailrace.models.config import ModelConfig

__all__ = ["GGUF_NAMES", "HUGGING_FACE_NAMES", "expected_shapes", "file_names", "tensor_class"]

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
}


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor a model of this config reads, by our name."""
    table = (config.vocab_size, config.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {"embed": table, "norm": (config.hidden_size,)}
    if not config.tie_word_embeddings:
        shapes["head"] = table
    block = dict(_block_shapes(config))
    for layer in range(config.num_layers):
        shapes |= {f"layers.{layer}.{part}": shape for part, shape in block.items()}
    return shapes


def _block_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    yield from {"attention_norm": (hidden,), "mlp_norm": (hidden,)}.items()
    yield from {"q": (q, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, q)}.items()
    yield from {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}.items()
    if config.qkv_bias:
        yield from {"q.bias": (q,), "k.bias": (kv,), "v.bias": (kv,)}.items()
    if config.output_bias:
        yield "o.bias", (hidden,)
    if config.qk_norm:
        yield from {"q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}.items()


def tensor_class(name: str) -> str:
    """`layers.7.q` -> `q`: what a tensor is, wherever it stands."""
    return name.split(".", 2)[2] if name.startswith("layers.") else name


def file_names(names: Mapping[str, str], ours: Iterable[str]) -> dict[str, str]:
    """Our names -> the names in a file whose naming is `names`."""
    return {name: names[tensor_class(name)].format(layer=_layer(name)) for name in ours}


def _layer(name: str) -> str:
    return name.split(".", 2)[1] if name.startswith("layers.") else ""
