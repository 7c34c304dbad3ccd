"""A GGUF file as a checkpoint."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from tailrace.models.config import ModelConfig
from tailrace.weights import gguf_text
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.fields import Fields
from tailrace.weights.fingerprint import fingerprint
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.gguf_config import read_config
from tailrace.weights.gguf_parts import model_name, read_parts
from tailrace.weights.gguf_rope import ROPE_FACTORS
from tailrace.weights.gguf_tensors import find_tensor
from tailrace.weights.layer_settings import LayerSettings
from tailrace.weights.lazy import lazy_tensors
from tailrace.weights.mapped import by_file
from tailrace.weights.mtp import is_mtp_tensor, num_mtp_layers
from tailrace.weights.names import GGUF_NAMES
from tailrace.weights.precision import Precision, Quantize
from tailrace.weights.stored import FileTensors

__all__ = ["open_gguf"]

_LAYERS = LayerSettings(GGUF_NAMES, "block_count", "leading_dense_block_count")


def open_gguf(path: Path, quantize: Quantize = None, *, mtp: bool = False) -> Checkpoint:
    """Open a GGUF file, or one that was split, by any of its parts.

    Raises CheckpointError or UnsupportedModel naming file, tensor or key.
    """
    precision = Precision.of(quantize)
    gguf = read_parts(path)
    metadata = Fields(str(path), gguf.metadata)
    found = FileTensors(str(path), {name: GgufTensor(info) for name, info in gguf.tensors.items()})
    config = read_config(gguf)
    config = replace(config, num_mtp_layers=num_mtp_layers(found, GGUF_NAMES, config.num_layers))
    is_unused = partial(_is_unused, config=config)
    tensors = lazy_tensors(found, config, find_tensor, _LAYERS, is_unused=is_unused, precision=precision, mtp=mtp)
    vocabulary = gguf_text.read_vocabulary(metadata, config.vocab_size)
    files = by_file((info.file, info.span) for info in gguf.tensors.values())
    return Checkpoint(
        name=model_name(path),
        source=path,
        config=config,
        tensors=tensors,
        fingerprint=fingerprint(files, [repr(config).encode(), tensors.precision_words.encode()]),
        tokenizer=vocabulary,
        chat_template=metadata.text("tokenizer.chat_template", "") or None,
        bos_id=gguf_text.token_id(metadata, "bos", vocabulary),
        eos_ids=gguf_text.end_ids(metadata, vocabulary),
        add_bos=gguf_text.add_bos(metadata, vocabulary),
        special_tokens=gguf_text.special_tokens(metadata, vocabulary),
        requantize_errors=tensors.errors,
        stored_formats={name: stored.stored_format for name, stored in tensors.stored.items()},
        float_matrices=tensors.float_matrices,
        stored_bytes=sum(file.size for file, _ in files),
        files=[file for file, _ in files],
    )


def _is_unused(name: str, config: ModelConfig) -> bool:
    """Frequencies, which the config holds, and what of multi-token prediction nobody asked for."""
    return name == ROPE_FACTORS or is_mtp_tensor(name, GGUF_NAMES, config)
