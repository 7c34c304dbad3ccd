"""Random models of some ten thousand parameters, one for each thing a config can say, with their logits."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
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

CLASSES: Mapping[str, tuple[type[PretrainedConfig], type[PreTrainedModel]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
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
    """`is_old` writes config.json as transformers 4 did: rope_theta, rope_scaling with `type`, torch_dtype."""

    architecture: str
    dtype: torch.dtype = torch.float32
    rope: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_old: bool = False


def scaled(rope_type: str, **numbers: float) -> dict[str, Any]:
    return {"rope_type": rope_type, **numbers}


MODELS: Mapping[str, Tiny] = {
    "llama": Tiny("llama"),
    "llama-tied-biased": Tiny(
        "llama",
        torch.bfloat16,
        settings={"tie_word_embeddings": True, "attention_bias": True, "head_dim": 16, "rms_norm_eps": 1e-3},
    ),
    "qwen2": Tiny("qwen2", torch.float16, is_old=True),
    "qwen2-window": Tiny(
        "qwen2",
        torch.bfloat16,
        settings={
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": Tiny("qwen3", torch.bfloat16, settings={"head_dim": 16, "num_key_value_heads": 1}),
    "llama-linear": Tiny("llama", torch.bfloat16, rope=scaled("linear", factor=4.0, rope_theta=1e5), is_old=True),
    "llama-dynamic": Tiny(
        "llama",
        torch.bfloat16,
        rope=scaled("dynamic", factor=2.0),
        settings={"max_position_embeddings": TRAINED_TOKENS},
        is_old=True,
    ),
    "llama-llama3": Tiny(
        "llama",
        torch.bfloat16,
        rope=scaled(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=TRAINED_TOKENS,
            rope_theta=100.0,
        ),
    ),
    "qwen3-yarn": Tiny(
        "qwen3",
        torch.bfloat16,
        rope=scaled("yarn", factor=3.0, original_max_position_embeddings=TRAINED_TOKENS, rope_theta=100.0),
        settings={"head_dim": 16},
        is_old=True,
    ),
    "llama-yarn-mscale": Tiny(
        "llama",
        torch.bfloat16,
        rope=scaled(
            "yarn",
            factor=40.0,
            original_max_position_embeddings=TRAINED_TOKENS,
            mscale=0.707,
            mscale_all_dim=1.0,
            beta_fast=4.0,
            beta_slow=0.5,
        ),
        settings={"max_position_embeddings": 40 * TRAINED_TOKENS},
    ),
}


def write(target: Path) -> None:
    """Write each model as a Hugging Face directory, with expected.npz beside it."""
    shutil.rmtree(target, ignore_errors=True)
    for name, tiny in MODELS.items():
        directory = target / name
        directory.mkdir(parents=True)
        model = randomised(tiny)
        save_file(stored(model, tiny.dtype), directory / "model.safetensors", {"format": "pt"})
        (directory / "config.json").write_text(json.dumps(config_json(model, tiny), indent=2) + "\n")
        tokenizer().save(str(directory / "tokenizer.json"), pretty=False)
        ids = torch.randint(VOCAB, (NUM_TOKENS,))
        np.savez_compressed(
            directory / "expected.npz",
            token_ids=ids.numpy().astype(np.int32),
            logits=model(ids[None]).logits[0].numpy(),
        )


def tokenizer() -> Tokenizer:
    """One word a token: a directory without a tokenizer is no model."""
    names = {0: "<unk>", 1: "<s>", 2: "</s>"}
    return Tokenizer(WordLevel({names.get(token, f"w{token}"): token for token in range(VOCAB)}, unk_token="<unk>"))


def randomised(tiny: Tiny) -> PreTrainedModel:
    """Every parameter drawn, norms and biases too, and rounded to what the file will hold; float32 in memory."""
    config_class, model_class = CLASSES[tiny.architecture]
    config = config_class(
        **{**SIZES, **tiny.settings}, rope_parameters={"rope_type": "default", "rope_theta": 1e4, **tiny.rope}
    )
    config._attn_implementation = "eager"
    model = model_class(config).eval().float()
    for name, parameter in model.named_parameters():
        parameter.copy_(drawn(name, parameter.shape).to(tiny.dtype))
    return model


def drawn(name: str, shape: torch.Size) -> torch.Tensor:
    values = torch.randn(shape)
    if "norm" in name:
        return 1 + 0.3 * values
    if name.endswith("bias") or "embed" in name:
        return values
    return values * 1.5 / shape[1] ** 0.5


def stored(model: PreTrainedModel, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What the file holds: a tied head is not stored twice."""
    return {name: parameter.to(dtype).contiguous() for name, parameter in model.named_parameters()}


def config_json(model: PreTrainedModel, tiny: Tiny) -> dict[str, Any]:
    config: dict[str, Any] = model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    config["dtype"] = str(tiny.dtype).removeprefix("torch.")
    return as_transformers_4(config) if tiny.is_old else config


def as_transformers_4(config: dict[str, Any]) -> dict[str, Any]:
    """The same settings as checkpoints of the years before wrote them."""
    old = dict(config)
    rope = old.pop("rope_parameters")
    scaling = {key: value for key, value in rope.items() if key not in ("rope_theta", "rope_type")}
    old["torch_dtype"] = old.pop("dtype")
    old["rope_theta"] = rope["rope_theta"]
    old["rope_scaling"] = {"type": rope["rope_type"], **scaling} if rope["rope_type"] != "default" else None
    return old
