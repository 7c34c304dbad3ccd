"""DeepSeek-V3's shape at 5 million parameters: transformers' own model, and the head that predicts a token further."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3DecoderLayer,
    DeepseekV3MoE,
    DeepseekV3RMSNorm,
    DeepseekV3RotaryEmbedding,
    yarn_apply_mscale,
)

SHORT_TOKENS = 128  # of the context before YaRN
YARN_FACTOR = 16.0
CONTEXT_TOKENS = int(SHORT_TOKENS * YARN_FACTOR)

# What stretches the context from SHORT_TOKENS to CONTEXT_TOKENS, with both magnitudes as V3 has them.
YARN: Mapping[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": YARN_FACTOR,
    "original_max_position_embeddings": SHORT_TOKENS,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}


def config(vocab_size: int) -> DeepseekV3Config:
    """Every matrix is a multiple of 32 wide, the block of 8-bit formats."""
    return DeepseekV3Config(
        vocab_size=vocab_size,
        hidden_size=256,
        intermediate_size=512,
        moe_intermediate_size=64,
        num_hidden_layers=3,
        first_k_dense_replace=1,
        num_attention_heads=8,
        num_key_value_heads=8,
        q_lora_rank=128,
        kv_lora_rank=96,
        qk_nope_head_dim=64,
        qk_rope_head_dim=32,
        v_head_dim=32,
        n_routed_experts=16,
        n_shared_experts=1,
        num_experts_per_tok=4,
        n_group=4,
        topk_group=2,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        num_nextn_predict_layers=1,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        max_position_embeddings=CONTEXT_TOKENS,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        attn_implementation="sdpa",
    )


@dataclass(frozen=True)
class Predictions:
    """Logits [batch, tokens, vocab] of the next token; [batch, tokens - 1, vocab] of the one after it."""

    following: Tensor
    further: Tensor


class FurtherToken(nn.Module):
    """Multi-token prediction of depth 1 (DeepSeek-V3, arXiv 2412.19437, 2.2); embedding and head are the model's."""

    def __init__(self, config: DeepseekV3Config) -> None:
        super().__init__()
        self.enorm, self.hnorm, self.norm = (DeepseekV3RMSNorm(config.hidden_size) for _ in range(3))
        self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layer = DeepseekV3DecoderLayer(config, config.num_hidden_layers)

    def forward(self, embedded: Tensor, hidden: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        joined = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], -1))
        return self.norm(self.layer(joined, position_embeddings=rope))


class TinyDeepseek(nn.Module):
    """The model as it is trained; `main` alone is what transformers knows."""

    def __init__(self, config: DeepseekV3Config) -> None:
        super().__init__()
        self.main = DeepseekV3ForCausalLM(config)
        self.mtp = FurtherToken(config)
        self.mtp.apply(self.main._init_weights)

    def forward(self, ids: Tensor) -> Predictions:
        """ids [batch, tokens]."""
        hidden = self.main.model(ids, use_cache=False).last_hidden_state
        embedded = self.main.model.embed_tokens(ids[:, 1:])
        rope = self.main.model.rotary_emb(embedded, torch.arange(embedded.shape[1])[None])
        further = self.mtp(embedded, hidden[:, :-1], rope)
        return Predictions(self.main.lm_head(hidden), self.main.lm_head(further))

    def stretch(self) -> None:
        """From SHORT_TOKENS to CONTEXT_TOKENS: other frequencies, and YaRN's magnitude in every softmax."""
        self.main.config.rope_parameters = dict(YARN)
        self.main.model.rotary_emb = DeepseekV3RotaryEmbedding(self.main.config)
        for attention in (module for module in self.modules() if isinstance(module, DeepseekV3Attention)):
            attention.scaling = yarn_apply_mscale(YARN, attention.qk_head_dim**-0.5)

    def mixtures(self) -> Iterator[DeepseekV3MoE]:
        """The layers that have experts, that of the further token last."""
        return (module for module in self.modules() if isinstance(module, DeepseekV3MoE))
