"""Where our tensors lie in a GGUF file: under another name, experts and heads as matrices one behind the other."""

from tailrace.models.config import ModelConfig
from tailrace.weights.names import GGUF_NAMES, file_name
from tailrace.weights.stored import FileTensors, Shape, StoredTensor

__all__ = ["find_tensor"]


def find_tensor(files: FileTensors, config: ModelConfig, name: str, shape: Shape) -> StoredTensor:
    """Our tensor `name` of `shape`. Raises CheckpointError when it is not there, or not so."""
    return files.take(file_name(GGUF_NAMES, name, config.num_layers), shape)
