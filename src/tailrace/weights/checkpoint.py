"""What every checkpoint format is turned into: our config, our tensor names, and what the text side needs.

Tensor names are those of `models`: `embed`, `layers.L.q` for layer L, `norm`, `head` (absent when tied to `embed`);
`expected.py` lists them for a config. Modules for multi-token prediction are `mtp.K.*`, where they are asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.models.config import ModelConfig
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.weights.mapped import MappedFile

__all__ = ["Checkpoint", "GgufVocabulary", "TokenizerSource"]


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """The tokenizer as GGUF metadata holds it."""

    model: str  # tokenizer.ggml.model: gpt2, llama, ...
    pre: str  # tokenizer.ggml.pre: which pre-tokenizer regex
    tokens: Sequence[str]
    token_types: Sequence[int]  # 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
    merges: Sequence[str] = ()
    scores: Sequence[float] = ()
    add_space_prefix: bool = False
    file: str = "the model"  # for complaints


TokenizerSource = Path | GgufVocabulary  # a tokenizer.json, or the vocabulary inside a GGUF file


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model ready to be loaded. `tensors` is lazy: a lookup maps or converts one tensor, nothing is kept."""

    name: str  # what `/v1/models` shows unless told otherwise
    source: Path
    config: ModelConfig
    tensors: Mapping[str, PackedTensor]
    fingerprint: str  # of the weights: goes into the name of every KV block
    tokenizer: TokenizerSource
    chat_template: str | None
    bos_id: int | None
    eos_ids: tuple[int, ...]
    add_bos: bool = False
    special_tokens: Mapping[str, str] = field(default_factory=dict)  # bos_token, eos_token, ...: for chat templates
    requantize_errors: Mapping[str, float] = field(default_factory=dict)  # tensor -> relative RMS error, filled as read
    stored_formats: Mapping[str, str] = field(default_factory=dict)  # tensor -> its type in the file: Q4_1, BF16
    float_matrices: Mapping[str, WeightFormat] = field(default_factory=dict)  # loaded as stored: how wide
    stored_bytes: int = 0  # of all its weight files
    files: Sequence[MappedFile] = ()  # what `tensors` views

    def check_unchanged(self) -> None:
        """Raises CheckpointError when a file was written to since it was opened: parts of two models may be loaded."""
        for file in self.files:
            file.check_unchanged()

    def release_pages(self) -> None:
        """Give the memory of the files back once a back end has its own form of them; a later look reads anew."""
        for file in self.files:
            file.release()
