"""Our checkpoint as a Hugging Face directory in bfloat16: the same weights, for engines that read nothing else."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.service.gguf_tokenizer import read_gguf_vocabulary
from tailrace.weights.checkpoint import Checkpoint, GgufVocabulary
from tailrace.weights.names import HUGGING_FACE_NAMES, file_names, tensor_class

__all__ = ["write_hf_directory"]


def write_hf_directory(checkpoint: Checkpoint, directory: Path) -> None:
    """Write config, weights and tokenizer of a Llama that was read from a GGUF file.

    It ends at a token that no text holds: not every server knows `ignore_eos`. Raises ValueError for other models.
    """
    config, vocabulary = checkpoint.config, checkpoint.tokenizer
    if config.architecture != "llama" or config.rope_scaling is not None or not isinstance(vocabulary, GgufVocabulary):
        raise ValueError(f"{checkpoint.source}: only a plain Llama from a GGUF file can be written")
    directory.mkdir(parents=True, exist_ok=True)
    end_id = max(index for index, kind in enumerate(vocabulary.token_types) if kind != 1)
    _write_json(directory / "config.json", _config(config, end_id))
    _write_json(directory / "generation_config.json", {"eos_token_id": end_id, "pad_token_id": end_id})
    _write_json(directory / "tokenizer.json", _tokenizer(vocabulary))
    _write_json(directory / "tokenizer_config.json", _tokenizer_config(checkpoint, vocabulary.tokens[end_id]))
    _write_safetensors(directory / "model.safetensors", dict(_tensors(checkpoint)))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1))


def _config(config: ModelConfig, end_id: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_model_tokens,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "tie_word_embeddings": config.tie_word_embeddings,
        "attention_bias": config.output_bias,
        "bos_token_id": end_id,
        "eos_token_id": end_id,
    }


def _tokenizer(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """The encoder that we use ourselves, with its control tokens put where the vocabulary has them."""
    _, encoders = read_gguf_vocabulary(vocabulary)
    content: dict[str, Any] = json.loads(encoders.opening.to_str())
    control = {piece: index for index, piece in enumerate(vocabulary.tokens) if vocabulary.token_types[index] != 1}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = [{"id": index, "content": piece, **flags} for piece, index in control.items()]
    content["model"]["vocab"] |= control
    content["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return content


def _tokenizer_config(checkpoint: Checkpoint, end: str) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": checkpoint.chat_template,
        "model_max_length": checkpoint.config.max_model_tokens,
        "clean_up_tokenization_spaces": False,
        "eos_token": end,
        "pad_token": end,
    }


def _tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, NDArray[np.uint16]]]:
    for ours, theirs in file_names(HUGGING_FACE_NAMES, checkpoint.tensors).items():
        values = checkpoint.tensors[ours].dequantize()
        yield theirs, _bfloat16(_in_halves(tensor_class(ours), values, checkpoint.config))


def _write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.uint16]]) -> None:
    """The length of a JSON header in 8 bytes, the header, and the values it points into."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, values in tensors.items():
        begin, end = end, end + values.nbytes
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": (begin, end)}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def _in_halves(which: str, values: NDArray[np.float32], config: ModelConfig) -> NDArray[np.float32]:
    """Rotary pairs as Hugging Face has them: the halves of a head, not neighbours."""
    if which not in {"q", "k"} or not config.rope_interleaved:
        return values
    pairs = values.reshape(-1, config.head_dim // 2, 2, values.shape[-1])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
