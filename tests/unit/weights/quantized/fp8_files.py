"""Models in 8-bit floats as DeepSeek publishes them: most matrices in blocks of 128 x 128 with a scale each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, SparseConfig
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tests.support.e4m3 import VALUES, decode
from tests.unit.weights.deepseek_files import DEEPSEEK, deepseek_settings, hugging_face_tensors
from tests.unit.weights.model_files import write_stored
from tests.unit.weights.quantized.raw_files import Raw, bf16, e4m3, raw, write_raw_directory

__all__ = ["AS_PUBLISHED", "RAGGED", "Blocks", "Fp8Model", "fp8_model", "in_blocks"]

Array = NDArray[np.float32]

BLOCK = 128
AS_PUBLISHED = {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "quant_method": "fp8",
    "weight_block_size": [BLOCK, BLOCK],
}
_KEPT = (
    "norm.weight",
    "embed_tokens.weight",
    "lm_head.weight",
    "mlp.gate.weight",
    "eh_proj.weight",
    "weights_proj.weight",
)

# Shapes beyond a block that no number of blocks fills; kv_b's heads of 76 rows lie across them.
_V3 = replace(
    DEEPSEEK["V3"],
    hidden_size=160,
    intermediate_size=288,
    latent=LatentConfig(latent_dim=160, plain_dim=40, rope_dim=8, value_dim=40, query_latent_dim=192),
    head_dim=48,
)
assert _V3.mixture is not None
_MIXTURE: MixtureConfig = replace(_V3.mixture, expert_size=160)
RAGGED: dict[str, ModelConfig] = {
    "V3": replace(_V3, mixture=_MIXTURE),
    "V3 with MTP": replace(_V3, mixture=_MIXTURE, num_mtp_layers=1),
    "V3.2": replace(
        _V3,
        mixture=_MIXTURE,
        architecture="deepseek_v32",
        sparse=SparseConfig(num_heads=32, head_dim=40, top_k=20),
    ),
}


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix of codes, and the multiplier of each of its blocks."""

    codes: NDArray[np.uint8]
    scales: Array

    @property
    def values(self) -> Array:
        """By the formula, a value at a time as it were: each of its block's scale, which is not one of another's."""
        rows, columns = self.codes.shape
        spread = np.kron(self.scales, np.ones((BLOCK, BLOCK), np.float32))[:rows, :columns]
        values: Array = (decode(self.codes) * spread.astype(np.float64)).astype(np.float32)
        return values


def in_blocks(values: Array) -> Blocks:
    """The largest of a block becomes the largest code or so, others the nearest code beneath them."""
    rows, columns = (-(-size // BLOCK) for size in values.shape)
    scales = np.empty((rows, columns), np.float32)
    codes = np.empty(values.shape, np.uint8)
    for row in range(rows):
        for column in range(columns):
            place = np.s_[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
            scales[row, column] = np.abs(values[place]).max() / VALUES[-1]
            magnitudes = np.abs(values[place]) / scales[row, column]
            nearest = np.clip(np.searchsorted(VALUES, magnitudes, "right") - 1, 0, 0x7E)
            codes[place] = nearest | np.where(values[place] < 0, 0x80, 0)
    return Blocks(codes, scales)


@dataclass(frozen=True, slots=True)
class Fp8Model:
    """A model's tensors as a file holds them, and what they stand for, under the same names."""

    config: ModelConfig
    stored: dict[str, Raw]
    truth: dict[str, Array]

    def write(
        self,
        directory: Path,
        *,
        changed: Mapping[str, Raw] | None = None,
        left_out: tuple[str, ...] = (),
        quantization: Mapping[str, Any] | None = None,
    ) -> None:
        tensors = {name: tensor for name, tensor in (self.stored | dict(changed or {})).items() if name not in left_out}
        settings = deepseek_settings(self.config) | {"quantization_config": AS_PUBLISHED | dict(quantization or {})}
        write_raw_directory(directory, settings, tensors)

    def write_floats(self, directory: Path) -> None:
        """The model that it stands for, in float32."""
        write_stored(directory, deepseek_settings(self.config), self.truth)


def fp8_model(config: ModelConfig) -> Fp8Model:
    """Random weights that keep activations near one."""
    generator = np.random.default_rng(0)
    drawn = {
        name: (generator.normal(size=shape) * shape[-1] ** -0.5 + (len(shape) == 1)).astype(np.float32)
        for name, shape in (expected_shapes(config) | mtp_shapes(config)).items()
    }
    model = Fp8Model(config, {}, {})
    for name, array in hugging_face_tensors(config, drawn).items():
        if array.ndim != 2 or name.endswith(_KEPT):
            model.stored[name] = bf16(array)
            model.truth[name] = (array.view(np.uint32) & 0xFFFF0000).view(np.float32)
        else:
            blocks = in_blocks(array)
            model.stored[name], model.truth[name] = e4m3(blocks.codes), blocks.values
            model.stored[f"{name}_scale_inv"] = raw(blocks.scales)
    return model
