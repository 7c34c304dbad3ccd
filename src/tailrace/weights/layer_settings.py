"""The settings that say which layers a model has: named where a file's tensors say otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.models.config import ModelConfig
from tailrace.weights.names import file_name, layer_of
from tailrace.weights.stored import FileTensors

__all__ = ["LayerSettings"]


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """How a format names its tensors, and the settings for the number of layers and for which are mixtures."""

    names: Mapping[str, str]
    num_layers: str
    mixtures: str

    def contradiction(self, tensor: str, files: FileTensors, config: ModelConfig) -> str:
        """What makes `tensor` of a file missing or one too many: a clause for a complaint, or nothing."""
        layer = layer_of(self.names, tensor)
        if layer is None:
            return ""
        if layer >= config.num_layers + config.num_mtp_layers:
            return f": the model ends with layer {config.num_layers - 1}, says {self.num_layers}"
        if config.mixture is None:
            return ""
        is_mixture = config.mixture.is_mixture(layer)
        if file_name(self.names, f"layers.{layer}.{'gate' if is_mixture else 'router'}") not in files:
            return ""
        wanted, stored = ("a mixture of experts", "dense") if is_mixture else ("dense", "a mixture of experts")
        return f": by {self.mixtures} layer {layer} is {wanted}, and in the file {stored}"
