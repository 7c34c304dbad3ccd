"""One tiny random model: drawn, computed with, and written as a Hugging Face directory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_moe_16b import DeepseekConfig, DeepseekForCausalLM
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DeepseekV32Config,
    DeepseekV32ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 64
NUM_TOKENS = 48  # three times the length that the scaled models say they were trained with
TRAINED_TOKENS = 16
NUM_GREEDY_TOKENS = 64  # written behind the first TRAINED_TOKENS

CLASSES: Mapping[str, tuple[type[PretrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "deepseek": (DeepseekConfig, DeepseekForCausalLM),
    "deepseek_v2": (DeepseekV2Config, DeepseekV2ForCausalLM),
    "deepseek_v3": (DeepseekV3Config, DeepseekV3ForCausalLM),
    "deepseek_v32": (DeepseekV32Config, DeepseekV32ForCausalLM),
}

SIZES: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": NUM_TOKENS,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Tiny:
    """A model class and what differs from SIZES; what the file holds is of `dtype`.

    `is_old` writes config.json as transformers 4 did: rope_theta, rope_scaling with `type`, torch_dtype. `released` are
    settings that releases come with and transformers does not know, `absent` those that it adds; `is_greedy` asks for
    text.
    """

    architecture: str
    dtype: torch.dtype = torch.float32
    rope: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_old: bool = False
    released: Mapping[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    is_greedy: bool = False


def scaled(rope_type: str, **numbers: float) -> dict[str, Any]:
    return {"rope_type": rope_type, **numbers}


def write(tiny: Tiny, directory: Path) -> None:
    """Draw the model and write it; read it back, and write some tokens and what it makes of them."""
    directory.mkdir(parents=True)
    save(randomised(tiny), tiny, directory)
    ids = torch.randint(VOCAB, (NUM_TOKENS,))
    with torch.random.fork_rng():
        model = opened(tiny, directory)
    expected = {"token_ids": ids.numpy().astype(np.int32), "logits": model(ids[None]).logits[0].numpy()}
    if tiny.is_greedy:
        expected["greedy_ids"] = greedy(model, ids[:TRAINED_TOKENS]).numpy().astype(np.int32)
    np.savez_compressed(directory / "expected.npz", **expected)


def randomised(tiny: Tiny) -> PreTrainedModel:
    """Every parameter drawn, norms and biases too, and rounded to what the file will hold; float32 in memory."""
    config_class, model_class = CLASSES[tiny.architecture]
    rope = {"rope_type": "default", "rope_theta": 1e4, **tiny.rope}
    config = config_class(**{**SIZES, **tiny.settings}, rope_parameters=rope)
    model = model_class(config).eval().float()
    for name, values in kept(model).items():
        values.copy_(drawn(name, values.shape).to(stored_dtype(name, tiny)))
    return model


def opened(tiny: Tiny, directory: Path) -> PreTrainedModel:
    """The model as its files describe it, computed the plain way: what they do not say is not in it."""
    _, model_class = CLASSES[tiny.architecture]
    plain = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}
    return model_class.from_pretrained(directory, **plain).eval()


def kept(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Parameters, a tied head once, and the buffers that belong to a checkpoint."""
    names = model.state_dict().keys()
    return dict(model.named_parameters()) | {name: each for name, each in model.named_buffers() if name in names}


def drawn(name: str, shape: torch.Size) -> torch.Tensor:
    values = torch.randn(shape)
    if "norm" in name:
        return 1 + 0.3 * values
    if name.endswith("correction_bias"):
        return 0.5 * values  # more than scores between 0 and 1 differ, and so that some ranks are negative
    if name.endswith("bias") or "embed" in name:
        return values
    return values * 1.5 / shape[-1] ** 0.5


def stored_dtype(name: str, tiny: Tiny) -> torch.dtype:
    """Correction biases are float32 in every release."""
    return torch.float32 if name.endswith("correction_bias") else tiny.dtype


def greedy(model: PreTrainedModel, prompt: torch.Tensor) -> torch.Tensor:
    """The best token again and again, each time from the whole text: no cache can be wrong."""
    ids = prompt
    for _ in range(NUM_GREEDY_TOKENS):
        ids = torch.cat([ids, model(ids[None], use_cache=False).logits[0, -1:].argmax(-1)])
    return ids[len(prompt) :]


def save(model: PreTrainedModel, tiny: Tiny, directory: Path) -> None:
    """Save under the names that transformers gives to files: experts one by one."""
    stored = {name: values.to(stored_dtype(name, tiny)) for name, values in kept(model).items()}
    model.save_pretrained(directory, state_dict=stored)
    (directory / "generation_config.json").unlink()
    (directory / "config.json").write_text(json.dumps(config_json(model, tiny), indent=2) + "\n")
    tokenizer().save(str(directory / "tokenizer.json"), pretty=False)


def tokenizer() -> Tokenizer:
    """One word a token: a directory without a tokenizer is no model."""
    names = {0: "<unk>", 1: "<s>", 2: "</s>"}
    return Tokenizer(WordLevel({names.get(token, f"w{token}"): token for token in range(VOCAB)}, unk_token="<unk>"))


def config_json(model: PreTrainedModel, tiny: Tiny) -> dict[str, Any]:
    config: dict[str, Any] = model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    config["dtype"] = str(tiny.dtype).removeprefix("torch.")
    written = as_transformers_4(config) if tiny.is_old else config
    return {name: value for name, value in written.items() if name not in tiny.absent} | tiny.released


def as_transformers_4(config: dict[str, Any]) -> dict[str, Any]:
    """The same settings as checkpoints of the years before wrote them."""
    old = dict(config)
    rope = old.pop("rope_parameters")
    scaling = {key: value for key, value in rope.items() if key not in ("rope_theta", "rope_type")}
    old["torch_dtype"] = old.pop("dtype")
    old["rope_theta"] = rope["rope_theta"]
    old["rope_scaling"] = {"type": rope["rope_type"], **scaling} if rope["rope_type"] != "default" else None
    return old
