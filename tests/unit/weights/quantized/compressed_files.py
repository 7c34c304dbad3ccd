"""Models in the layouts of compressed-tensors: codes and scales drawn at random, and what they stand for by formula."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import HUGGING_FACE_NAMES, file_names
from tests.support.e4m3 import decode
from tests.unit.weights.deepseek_files import deepseek_settings, hugging_face_tensors
from tests.unit.weights.model_files import hugging_face_settings, write_stored
from tests.unit.weights.quantized.raw_files import Raw, bf16, e4m3, raw, write_raw_directory

__all__ = ["LAYOUTS", "Compressed", "Layout", "compressed", "words"]

Array = NDArray[np.float32]
Numbers = NDArray[np.int64]
Parts = tuple[dict[str, Raw], Array]

_KEPT = ("norm.weight", "lm_head.weight", "mlp.gate.weight", "eh_proj.weight")
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
_MEAN_E2M1 = 2.7  # of magnitudes, squared and averaged: what makes weights of the size that is wanted


@dataclass(frozen=True, slots=True)
class Layout:
    """How the weights of a group are quantised, and a module of them: drawn, and of about the magnitude asked for."""

    format: str
    weights: Mapping[str, Any]
    draw: Callable[[np.random.Generator, tuple[int, int], float], Parts]
    is_exact: bool  # in one of our packed formats


def words(numbers: Numbers, bits: int) -> NDArray[np.int32]:
    """One large number a row, with number i at bit i * bits, cut into words."""
    count = -(-numbers.shape[1] * bits // 32)
    rows = [
        sum(number << (place * bits) for place, number in enumerate(row)).to_bytes(4 * count, "little")
        for row in numbers.tolist()
    ]
    return np.frombuffer(b"".join(rows), "<i4").reshape(len(rows), count)


def rounded(scales: NDArray[np.floating[Any]]) -> Array:
    """To what bfloat16 holds."""
    return (scales.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def integers(bits: int, group: int | None, is_symmetric: bool) -> Callable[..., Parts]:
    def draw(generator: np.random.Generator, shape: tuple[int, int], size: float) -> Parts:
        half, width = 1 << (bits - 1), group or shape[1]
        codes = generator.integers(-half, half, shape)
        scales = rounded(generator.uniform(0.5, 1.5, (shape[0], shape[1] // width)) * size / half * 1.7)
        parts = {
            "weight_packed": raw(words(codes + half, bits)),
            "weight_scale": bf16(scales),
            "weight_shape": raw(np.array(shape)),
        }
        zeros = np.zeros(scales.shape, np.int64)
        if not is_symmetric:
            zeros = generator.integers(-2, 2, scales.shape)
            parts["weight_zero_point"] = raw(words(zeros.T + half, bits).T.copy())
        values = (codes - np.repeat(zeros, width, axis=1)) * np.repeat(scales, width, axis=1).astype(np.float64)
        return parts, values.astype(np.float32)

    return draw


def int8_channels(generator: np.random.Generator, shape: tuple[int, int], size: float) -> Parts:
    codes = generator.integers(-128, 128, shape).astype(np.int8)
    scales = (generator.uniform(0.5, 1.5, (shape[0], 1)) * size / 74).astype(np.float32)
    values = (codes * scales.astype(np.float64)).astype(np.float32)
    return {"weight": raw(codes), "weight_scale": raw(scales)}, values


def fp8_blocks(generator: np.random.Generator, shape: tuple[int, int], size: float) -> Parts:
    codes = (generator.integers(0, 0x78, shape) | generator.integers(0, 2, shape) << 7).astype(np.uint8)
    scales = (generator.uniform(0.5, 1.5, [-(-side // 128) for side in shape]) * size / 40).astype(np.float32)
    spread = np.kron(scales, np.ones((128, 128)))[: shape[0], : shape[1]].astype(np.float64)
    return {"weight": e4m3(codes), "weight_scale": raw(scales)}, (decode(codes) * spread).astype(np.float32)


def fours(generator: np.random.Generator, shape: tuple[int, int]) -> tuple[Raw, NDArray[np.float64]]:
    codes = generator.integers(0, 16, shape)
    return raw((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)), _E2M1[codes]


def mxfp4(generator: np.random.Generator, shape: tuple[int, int], size: float) -> Parts:
    packed, numbers = fours(generator, shape)
    exponents = generator.integers(-1, 2, (shape[0], shape[1] // 32)) + int(np.floor(np.log2(size / _MEAN_E2M1)))
    parts = {"weight_packed": packed, "weight_scale": raw((exponents + 127).astype(np.uint8))}
    return parts, (numbers * np.repeat(2.0**exponents, 32, axis=1)).astype(np.float32)


def nvfp4(generator: np.random.Generator, shape: tuple[int, int], size: float) -> Parts:
    packed, numbers = fours(generator, shape)
    scales = generator.integers(0x60, 0x78, (shape[0], shape[1] // 16)).astype(np.uint8)
    divisor = np.float32(130 * _MEAN_E2M1 / size)
    parts = {"weight_packed": packed, "weight_scale": e4m3(scales), "weight_global_scale": raw(np.array([divisor]))}
    multipliers = decode(scales).astype(np.float32) / divisor
    return parts, (numbers * np.repeat(multipliers, 16, axis=1).astype(np.float64)).astype(np.float32)


_INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False}
_FLOAT4 = {"num_bits": 4, "type": "float", "symmetric": True}
LAYOUTS = {
    "int4": Layout("pack-quantized", _INT4, integers(4, 32, is_symmetric=True), is_exact=True),
    "int4, asymmetric": Layout(
        "pack-quantized", _INT4 | {"symmetric": False}, integers(4, 32, is_symmetric=False), is_exact=True
    ),
    "int3": Layout("pack-quantized", _INT4 | {"num_bits": 3}, integers(3, 32, is_symmetric=True), is_exact=True),
    "int8 packed by channels": Layout(
        "pack-quantized",
        {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"},
        integers(8, None, is_symmetric=True),
        is_exact=True,
    ),
    "int8": Layout(
        "int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, int8_channels, is_exact=True
    ),
    "fp8": Layout(
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
        fp8_blocks,
        is_exact=False,
    ),
    "mxfp4": Layout("mxfp4-pack-quantized", _FLOAT4 | {"strategy": "group", "group_size": 32}, mxfp4, is_exact=True),
    "nvfp4": Layout(
        "nvfp4-pack-quantized", _FLOAT4 | {"strategy": "tensor_group", "group_size": 16}, nvfp4, is_exact=False
    ),
}


@dataclass(frozen=True, slots=True)
class Compressed:
    """A model's tensors as a file holds them, what they stand for, and its settings."""

    stored: dict[str, Raw]
    truth: dict[str, Array]
    settings: dict[str, Any]
    quantization: dict[str, Any]

    def write(self, directory: Path, *, changed: Mapping[str, Raw] | None = None) -> None:
        settings = self.settings | {"quantization_config": self.quantization}
        write_raw_directory(directory, settings, self.stored | dict(changed or {}))

    def write_floats(self, directory: Path) -> None:
        write_stored(directory, self.settings, self.truth)


def compressed(config: ModelConfig, layout: Layout, *, embed: Layout | None = None) -> Compressed:
    """Of matrices whose inputs do not fill groups none is quantised: those are ignored by name."""
    generator = np.random.default_rng(0)
    stored: dict[str, Raw] = {}
    truth: dict[str, Array] = {}
    ignored = ["lm_head"]
    for name, shape in _shapes(config).items():
        module, size = name.removesuffix(".weight"), shape[-1] ** -0.5
        of_module = embed if name.endswith("embed_tokens.weight") else layout
        if len(shape) == 2 and not name.endswith(_KEPT) and of_module and shape[1] % 32 == 0:
            parts, truth[name] = of_module.draw(generator, (shape[0], shape[1]), size)
            stored |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
            continue
        truth[name] = rounded(generator.normal(size=shape) * size + (len(shape) == 1))
        stored[name] = bf16(truth[name])
        ignored.append(module)
    groups = {"group_0": {"targets": ["Linear"], "weights": layout.weights, "format": layout.format}}
    if embed is not None:
        groups["group_1"] = {"targets": ["Embedding"], "weights": embed.weights, "format": embed.format}
    quantization = {
        "quant_method": "compressed-tensors",
        "format": layout.format,
        "config_groups": groups,
        "ignore": [*ignored, "re:.*mlp.gate$"],
    }
    return Compressed(stored, truth, _settings(config), quantization)


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """By the names of files."""
    shapes = expected_shapes(config) | mtp_shapes(config)
    if config.mixture is None and config.latent is None:
        return {theirs: shapes[ours] for ours, theirs in file_names(HUGGING_FACE_NAMES, shapes).items()}
    empty = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return {name: array.shape for name, array in hugging_face_tensors(config, empty).items()}


def _settings(config: ModelConfig) -> dict[str, Any]:
    return hugging_face_settings(config) if config.mixture is None else deepseek_settings(config)
