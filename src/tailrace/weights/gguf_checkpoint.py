"""A GGUF file as a checkpoint."""

from pathlib import Path

from tailrace.weights import gguf_text
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.fields import Fields
from tailrace.weights.fingerprint import fingerprint
from tailrace.weights.gguf import read_gguf
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.gguf_config import ROPE_FACTORS, read_config
from tailrace.weights.lazy import Quantize, lazy_tensors
from tailrace.weights.names import GGUF_NAMES

__all__ = ["open_gguf"]


def open_gguf(path: Path, quantize: Quantize | None = None) -> Checkpoint:
    """Open a GGUF file. Raises CheckpointError or UnsupportedModel naming file, tensor or key."""
    gguf = read_gguf(path)
    metadata = Fields(str(path), gguf.metadata)
    config = read_config(gguf)
    in_file = {name: GgufTensor(info) for name, info in gguf.tensors.items()}
    tensors = lazy_tensors(str(path), config, GGUF_NAMES, in_file, ignored=(ROPE_FACTORS,), quantize=quantize)
    vocabulary = gguf_text.read_vocabulary(metadata, config.vocab_size)
    spans = [info.span for info in gguf.tensors.values()]
    return Checkpoint(
        name=path.stem,
        source=path,
        config=config,
        tensors=tensors,
        fingerprint=fingerprint([(gguf.file, spans)], [(quantize or "").encode()]),
        tokenizer=vocabulary,
        chat_template=metadata.text("tokenizer.chat_template", "") or None,
        bos_id=gguf_text.token_id(metadata, "bos", vocabulary),
        eos_ids=gguf_text.end_ids(metadata, vocabulary),
        add_bos=gguf_text.add_bos(metadata, vocabulary),
        special_tokens=gguf_text.special_tokens(metadata, vocabulary),
        requantize_errors=tensors.errors,
        stored_formats={name: stored.stored_format for name, stored in tensors.stored.items()},
    )
