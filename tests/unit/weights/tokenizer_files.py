"""Vocabularies that the tokenizers library takes: a tokenizer.json, and what GGUF metadata says."""

import json
from pathlib import Path

from tests.unit.weights.model_files import TOKENS

__all__ = ["GGUF_VOCABULARY", "write_tokenizer"]

# With what the merges of other files make.
GGUF_VOCABULARY = {"tokenizer.ggml.tokens": [*TOKENS, "ab", "cd"], "tokenizer.ggml.token_type": [3] * 5 + [1] * 28}


def write_tokenizer(path: Path, first_id: int = 0) -> None:
    marks = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": i, "content": text, "special": True, **marks} for i, text in enumerate(TOKENS[:5], first_id)]
    model = {"type": "BPE", "vocab": {text: i for i, text in enumerate(TOKENS, first_id)}, "merges": []}
    decoder = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    written = {"version": "1.0", "added_tokens": added, "model": model, "decoder": decoder}
    path.write_text(json.dumps(written), encoding="utf-8")
