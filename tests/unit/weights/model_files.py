"""Tiny model files of every kind, written with the formats' own libraries."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tailrace.models.config import ModelConfig
from tailrace.weights.expected import expected_shapes
from tailrace.weights.names import GGUF_NAMES, HUGGING_FACE_NAMES, file_names

__all__ = [
    "TINY",
    "GgmlType",
    "add_entry",
    "gguf_metadata",
    "gguf_string",
    "gguf_tensors",
    "random_blocks",
    "random_weights",
    "to_bf16",
    "write_directory",
    "write_gguf",
    "write_gguf_part",
    "write_stored",
]

Array = NDArray[Any]

TINY = ModelConfig(
    architecture="llama",
    vocab_size=48,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    max_model_tokens=128,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)

TOKENS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", *(chr(97 + index) for index in range(26))]
MERGES = ["a b", "c d"]


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Our names -> float32 values."""
    generator = np.random.default_rng(seed)
    shapes = expected_shapes(config)
    return {name: generator.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def random_blocks(kind: GgmlType, num_rows: int, num_cols: int, seed: int = 0) -> NDArray[np.uint8]:
    """Bytes of blocks that decode to finite values of moderate size: [rows, bytes of a row]."""
    num_values, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    blocks = np.zeros((num_rows * num_cols // num_values, num_bytes), np.uint8)
    wrong = np.ones(len(blocks), bool)
    while wrong.any():
        blocks[wrong] = generator.integers(0, 256, (int(wrong.sum()), num_bytes), np.uint8)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, kind)
            wrong = ~(np.isfinite(values) & (np.abs(values) < 1e5)).all(axis=1)
    return blocks.reshape(num_rows, -1)


def write_gguf(
    path: Path,
    config: ModelConfig = TINY,
    *,
    kinds: Mapping[str, GgmlType] | None = None,
    metadata: Mapping[str, Any] | None = None,
    extra: Mapping[str, Array] | None = None,
    raw: Mapping[str, Array] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Write a GGUF file and return the values that the gguf package reads back, by our names.

    `kinds` gives the type of tensors by our name (others are F32), `raw` the bytes of blocks where the package cannot
    quantise; `metadata` overrides entries, None leaves one out; `extra` are further float32 tensors.
    """
    values, stored = gguf_tensors(config, kinds or {}, raw or {})
    stored |= {name: (array, GgmlType.F32) for name, array in (extra or {}).items()}
    write_gguf_part(path, gguf_metadata(config) | dict(metadata or {}), stored)
    return values


def gguf_tensors(
    config: ModelConfig, kinds: Mapping[str, GgmlType], raw: Mapping[str, Array]
) -> tuple[dict[str, NDArray[np.float32]], dict[str, tuple[Array, GgmlType]]]:
    """True values by our names, and stored arrays by GGUF's."""
    values, stored = random_weights(config), {}
    for ours, theirs in file_names(GGUF_NAMES, values).items():
        kind = kinds.get(ours, GgmlType.F32)
        data = raw[ours] if ours in raw else quantize(values[ours], kind)
        with np.errstate(all="ignore"):
            values[ours] = np.asarray(dequantize(data, kind), np.float32).reshape(values[ours].shape)
        stored[theirs] = data, kind
    return values, stored


def write_gguf_part(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[Array, GgmlType]]) -> None:
    """Write a GGUF file of these entries and tensors, and nothing else but an architecture."""
    entries = dict(metadata)
    writer = gguf.GGUFWriter(path, entries.pop("general.architecture", "llama"))
    for key, value in entries.items():
        add_entry(writer, key, value)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_metadata(config: ModelConfig) -> dict[str, Any]:
    prefix = config.architecture
    return {
        "general.architecture": config.architecture,
        f"{prefix}.block_count": config.num_layers,
        f"{prefix}.context_length": config.max_model_tokens,
        f"{prefix}.embedding_length": config.hidden_size,
        f"{prefix}.feed_forward_length": config.intermediate_size,
        f"{prefix}.attention.head_count": config.num_heads,
        f"{prefix}.attention.head_count_kv": config.num_kv_heads,
        f"{prefix}.attention.key_length": config.head_dim,
        f"{prefix}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{prefix}.rope.freq_base": config.rope_theta,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [2, 3, 3, 3, 3] + [1] * 26,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ messages }}",
    }


def add_entry(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


_CLASS_NAMES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def write_directory(
    directory: Path,
    config: ModelConfig = TINY,
    *,
    settings: Mapping[str, Any] | None = None,
    num_files: int = 1,
    dtype: str = "float32",
    extra: Mapping[str, Array] | None = None,
    files: Mapping[str, Any] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Write a Hugging Face directory and return the values in it, by our names.

    `settings` overrides config.json, None leaves a key out; `files` are further JSON files (or text), None leaves out.
    """
    values = random_weights(config)
    names = file_names(HUGGING_FACE_NAMES, values)
    stored = {names[name]: array.astype(dtype) for name, array in values.items()} | dict(extra or {})
    write_stored(directory, hugging_face_settings(config) | dict(settings or {}), stored, num_files, files)
    return {name: stored[names[name]].astype(np.float32) for name in values}


def write_stored(
    directory: Path,
    settings: Mapping[str, Any],
    stored: Mapping[str, Array],
    num_files: int = 1,
    files: Mapping[str, Any] | None = None,
) -> None:
    """Write these tensors and settings; of the settings, those that are None are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_shards(directory, stored, num_files)
    written: dict[str, Any] = {"config.json": _without_none(settings)}
    written |= {"tokenizer.json": tokenizer_json(), **(files or {})}
    for name, content in written.items():
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (directory / name).write_text(text, encoding="utf-8")


def hugging_face_settings(config: ModelConfig = TINY) -> dict[str, Any]:
    return {
        "architectures": [_CLASS_NAMES[config.architecture]],
        "model_type": config.architecture,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_model_tokens,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def tokenizer_json() -> dict[str, Any]:
    added = [{"id": index, "content": text, "special": True} for index, text in enumerate(TOKENS[:5])]
    return {"version": "1.0", "added_tokens": added, "model": {"type": "BPE", "vocab": {}, "merges": []}}


def _without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _write_shards(directory: Path, stored: Mapping[str, Array], num_files: int) -> None:
    if num_files == 1:
        save_file(dict(stored), directory / "model.safetensors")
        return
    placed = {
        name: f"model-{index % num_files + 1:05}-of-{num_files:05}.safetensors" for index, name in enumerate(stored)
    }
    for file in sorted(set(placed.values())):
        save_file({name: array for name, array in stored.items() if placed[name] == file}, directory / file)
    index = {"metadata": {}, "weight_map": placed}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32 values."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)
