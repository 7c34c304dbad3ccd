"""Where our tensors lie in a GGUF file: under another name; experts, and heads of latent attention, side by side."""

from tailrace.models.config import LatentConfig, ModelConfig
from tailrace.weights.latent import key_half, kv_b_shape, value_half
from tailrace.weights.names import GGUF_NAMES, file_name, tensor_class
from tailrace.weights.stored import FileTensors, Shape, StoredTensor

__all__ = ["find_tensor"]


def find_tensor(files: FileTensors, config: ModelConfig, name: str, shape: Shape) -> StoredTensor:
    """Our tensor `name` of `shape`. Raises CheckpointError when it is not there, or not so."""
    part = tensor_class(name)
    if config.latent is not None and part in ("k_b", "v_b"):
        return _latent_half(files, config, config.latent, name, shape)
    if config.mixture is not None and part.startswith("experts."):
        return _side_by_side(files, config, name, shape, config.mixture.routing.num_experts)
    return files.take(file_name(GGUF_NAMES, name, config.num_layers), shape)


def _latent_half(files: FileTensors, config: ModelConfig, sizes: LatentConfig, name: str, shape: Shape) -> StoredTensor:
    joined = file_name(GGUF_NAMES, name, config.num_layers, part="kv_b")
    if joined not in files:
        return _side_by_side(files, config, name, shape, config.num_heads)
    kv_b = files.take(joined, kv_b_shape(sizes, config.num_heads))
    return key_half(kv_b, sizes) if tensor_class(name) == "k_b" else value_half(kv_b, sizes)


def _side_by_side(files: FileTensors, config: ModelConfig, name: str, shape: Shape, count: int) -> StoredTensor:
    """A tensor [count, rows, columns] as our matrix."""
    rows, cols = shape
    return files.take(file_name(GGUF_NAMES, name, config.num_layers), (count, rows // count, cols)).as_matrix()
