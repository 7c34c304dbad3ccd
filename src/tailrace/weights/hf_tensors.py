"""Where our tensors lie in a Hugging Face directory: most under another name, some put together from others."""

from tailrace.models.config import LatentConfig, ModelConfig
from tailrace.weights.composed import Bands, Stacked
from tailrace.weights.latent import key_half, kv_b_shape, value_half
from tailrace.weights.names import HUGGING_FACE_NAMES, file_name, tensor_class
from tailrace.weights.stored import FileTensors, Shape, StoredTensor

__all__ = ["find_tensor"]

# One tensor for all experts, as transformers holds them in memory: of each expert the rows of gate, then those of up.
_FUSED = {
    "experts.gate_up": "model.layers.{layer}.mlp.experts.gate_up_proj",
    "experts.fused_down": "model.layers.{layer}.mlp.experts.down_proj",
}
_NAMES = {**HUGGING_FACE_NAMES, **_FUSED}


def find_tensor(files: FileTensors, config: ModelConfig, name: str, shape: Shape) -> StoredTensor:
    """Our tensor `name` of `shape`. Raises CheckpointError when it is not there, or not so."""
    part = tensor_class(name)
    if config.latent is not None and part in ("k_b", "v_b"):
        return _kv_b_half(files, config, config.latent, name)
    if part.startswith("experts."):
        return _experts(files, config, name, shape)
    return files.take(file_name(_NAMES, name, config.num_layers), shape)


def _kv_b_half(files: FileTensors, config: ModelConfig, sizes: LatentConfig, name: str) -> StoredTensor:
    kv_b = files.take(file_name(_NAMES, name, config.num_layers, part="kv_b"), kv_b_shape(sizes, config.num_heads))
    return key_half(kv_b, sizes) if tensor_class(name) == "k_b" else value_half(kv_b, sizes)


def _experts(files: FileTensors, config: ModelConfig, name: str, shape: Shape) -> StoredTensor:
    if file_name(_NAMES, name, config.num_layers, part="experts.gate_up") in files:
        return _fused_experts(files, config, name, shape)
    count, pattern = _num_experts(config), file_name(_NAMES, name, config.num_layers)
    of_one = (shape[0] // count, shape[1])
    return Stacked([files.take(pattern.replace("{expert}", str(expert)), of_one) for expert in range(count)])


def _fused_experts(files: FileTensors, config: ModelConfig, name: str, shape: Shape) -> StoredTensor:
    count, part = _num_experts(config), tensor_class(name)
    height, cols = shape[0] // count, shape[1]
    if part == "experts.down":
        fused = file_name(_NAMES, name, config.num_layers, part="experts.fused_down")
        return files.take(fused, (count, height, cols)).as_matrix()
    fused = file_name(_NAMES, name, config.num_layers, part="experts.gate_up")
    both = files.take(fused, (count, 2 * height, cols)).as_matrix()
    return Bands(both, 2 * height, 0 if part == "experts.gate" else height, height)


def _num_experts(config: ModelConfig) -> int:
    assert config.mixture is not None
    return config.mixture.routing.num_experts
