"""Random models of some ten thousand parameters, one for each thing a config can say, with their logits."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import tiny_model
import torch
from tiny_deepseek import DEEPSEEK_MODELS
from tiny_model import TRAINED_TOKENS, Tiny, scaled

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
    "mistral-window": Tiny("mistral", torch.bfloat16, settings={"sliding_window": 7, "head_dim": 16}),
}


def write(target: Path) -> None:
    """Write each model as a Hugging Face directory, with expected.npz beside it.

    They draw from one stream of numbers: a model in front of others would change them all, so new ones go last.
    """
    shutil.rmtree(target, ignore_errors=True)
    for name, tiny in (MODELS | DEEPSEEK_MODELS).items():
        tiny_model.write(tiny, target / name)
