"""From a model argument to a checkpoint: the default model, a GGUF file, a Hugging Face directory or a hub id."""

import dataclasses
from pathlib import Path

from tailrace.errors import CheckpointError
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.default_model import DEFAULT_MODEL_NAME, Progress, default_model_path
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.lazy import Quantize

__all__ = ["open_checkpoint"]


def open_checkpoint(
    model: str | None, *, quantize: Quantize | None = None, progress: Progress | None = None
) -> Checkpoint:
    """Open what `model` names; None or "default" is the embedded model.

    `quantize` converts matrices wider than it on the way in; embedding and head stay at 8 bit. `progress` follows a
    download. Raises CheckpointError, UnsupportedModel or SetupError, in one line.
    """
    if model is None or model == "default":
        return dataclasses.replace(open_gguf(default_model_path(progress), quantize), name=DEFAULT_MODEL_NAME)
    path = Path(model).expanduser()
    if path.is_file():
        return open_gguf(path, quantize)
    raise CheckpointError(f"{model}: no such model file")
