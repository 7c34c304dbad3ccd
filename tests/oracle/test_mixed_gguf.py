"""DeepSeek models in GGUF files whose block types llama.cpp's presets mix: logits of what the blocks stand for.

Which type a tensor gets follows llama.cpp's rules for these presets: more bits for the head and for what feeds back
into the stream in some layers, and another type where a row is no multiple of 256.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.program import Routing
from tailrace.ops.reference import ReferenceBackend
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.lazy import LazyTensors
from tailrace.weights.names import tensor_class
from tests.support.steps import limits, teacher_forced
from tests.unit.weights.deepseek_files import DEEPSEEK, deepseek_values, write_deepseek_gguf
from tests.unit.weights.model_files import GgmlType

IDS = [1, 17, 40, 3, 3, 29, 8, 11, 25, 46, 2, 31]
BACKENDS: dict[str, Backend] = {"reference": ReferenceBackend(), "cpu": CpuBackend(kv_format="f32")}
FLOATS = ("norm", "router", "bias")
_MIXTURE = MixtureConfig(
    Routing(4, 2, "sigmoid", 2, 1, "top two", normalize=True, scale=2.5),
    expert_size=256,
    num_shared=1,
    first_layer=1,
    has_bias=True,
)
_LATENT = LatentConfig(latent_dim=256, plain_dim=32, rope_dim=8, value_dim=64, query_latent_dim=256)
_WIDE = replace(
    DEEPSEEK["V3"],
    hidden_size=256,
    intermediate_size=512,
    head_dim=40,
    latent=_LATENT,
    mixture=_MIXTURE,
)
_LITE = replace(
    _WIDE,
    architecture="deepseek_v2",
    latent=replace(_LATENT, query_latent_dim=None),
    mixture=MixtureConfig(Routing(4, 2, "softmax"), expert_size=256, num_shared=2, first_layer=1),
)
_MOE_16B = replace(
    DEEPSEEK["MoE-16B"],
    hidden_size=256,
    intermediate_size=512,
    head_dim=64,
    mixture=MixtureConfig(Routing(4, 2, "softmax"), expert_size=256, num_shared=2, first_layer=1),
)
MODELS = {
    "V3": (_WIDE, False),
    "V3 of old": (_WIDE, True),
    "V2-Lite": (_LITE, False),
    "V2-Lite of old": (_LITE, True),
    "MoE-16B": (_MOE_16B, False),
    "V2-Lite, tied": (replace(_LITE, tie_word_embeddings=True), False),
}


@dataclass(frozen=True)
class Preset:
    """`most` for what has no other, `down` for the way back into the stream in some layers, `narrow` for short rows."""

    most: str
    head: str
    down: str
    narrow: str
    experts: str | None = None

    def kinds(self, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]], *, is_old: bool) -> dict[str, GgmlType]:
        return {name: GgmlType[self._kind(config, name, shape, is_old)] for name, shape in shapes.items()}

    def _kind(self, config: ModelConfig, name: str, shape: tuple[int, ...], is_old: bool) -> str:
        part = tensor_class(name)
        if len(shape) == 1 or part in FLOATS:
            return "F32"
        if part == "head" or (part == "embed" and config.tie_word_embeddings):
            return self.head
        if shape[1] % 256 and not (part == "k_b" and is_old):  # which lies in kv_b, in rows of the latent
            return self.narrow
        if part in ("down", "experts.down", "shared.down", "v") and name.startswith("layers.2."):
            return self.down
        return self.experts or self.most if part.startswith("experts.") else self.most


PRESETS = {
    "Q2_K": Preset("Q2_K", "Q6_K", "Q3_K", "IQ4_NL"),
    "Q3_K_M": Preset("Q3_K", "Q6_K", "Q5_K", "IQ4_NL"),
    "Q4_K_M": Preset("Q4_K", "Q6_K", "Q6_K", "Q5_0"),
    "Q5_K_M": Preset("Q5_K", "Q6_K", "Q6_K", "Q5_1"),
    "Q6_K": Preset("Q6_K", "Q6_K", "Q6_K", "Q8_0"),
    "IQ4_NL": Preset("IQ4_NL", "Q6_K", "Q5_K", "IQ4_NL"),
    "IQ4_XS": Preset("IQ4_XS", "Q6_K", "Q5_K", "IQ4_NL"),
    "MXFP4_MOE": Preset("Q8_0", "Q8_0", "Q8_0", "Q8_0", experts="MXFP4"),
}


def values_of(config: ModelConfig) -> dict[str, NDArray[np.float32]]:
    """Of the size that trained weights have, so that rounding does what it does there."""
    generator = np.random.default_rng(5)
    return {
        name: (
            generator.normal(0, 1 / np.sqrt(array.shape[1]), array.shape) if array.ndim == 2 else 1 + array / 16
        ).astype(np.float32)
        for name, array in deepseek_values(config).items()
    }


@dataclass(frozen=True)
class Written:
    checkpoint: Checkpoint
    values: Mapping[str, NDArray[np.float32]]  # what the gguf package reads

    def logits(self, backend: str, tensors: Mapping[str, PackedTensor]) -> NDArray[np.float32]:
        of = limits(block_tokens=16)
        executable = BACKENDS[backend].load(build_program(self.checkpoint.config), tensors, of)
        return teacher_forced(executable, of, IDS, chunk_tokens=len(IDS)).copy()

    @property
    def true_logits(self) -> NDArray[np.float32]:
        return self.logits("reference", {name: from_float32(array) for name, array in self.values.items()})


def write(path: Path, model: str, preset: str, num_parts: int = 1) -> Written:
    config, is_old = MODELS[model]
    raw = values_of(config)
    kinds = PRESETS[preset].kinds(config, {name: array.shape for name, array in raw.items()}, is_old=is_old)
    values = write_deepseek_gguf(path, config, is_old=is_old, kinds=kinds, raw=raw, num_parts=num_parts)
    return Written(open_gguf(path), values)


def as_stored(checkpoint: Checkpoint) -> dict[str, PackedTensor]:
    """Without loss, whatever that takes."""
    assert isinstance(checkpoint.tensors, LazyTensors)
    return {name: stored.packed() for name, stored in checkpoint.tensors.stored.items()}


USUAL = ("Q4_K_M", "Q5_K_M", "IQ4_NL")
COMBINATIONS = [(model, preset) for model in MODELS for preset in PRESETS if model == "V3 of old" or preset in USUAL]


@pytest.mark.parametrize(("model", "preset"), COMBINATIONS)
def test_exact_values_give_the_logits_of_the_float_model(tmp_path: Path, model: str, preset: str) -> None:
    written = write(tmp_path / "m.gguf", model, preset)
    stored, truth = as_stored(written.checkpoint), written.true_logits
    assert stored.keys() == written.values.keys()
    for name, expected in written.values.items():
        np.testing.assert_array_equal(stored[name].dequantize(), expected)
    np.testing.assert_allclose(written.logits("reference", stored), truth, rtol=0, atol=1e-3)
    as_floats = {name: from_float32(tensor.dequantize()) for name, tensor in stored.items()}
    np.testing.assert_allclose(written.logits("cpu", as_floats), truth, rtol=0, atol=1e-3)


# As loaded, relative to the root mean square of the logits. 0.049 and 0.055 are measured, on Q6_K, all of which is
# rounded again to bytes; 0 on the reference where nothing is. The CPU rounds activations beside the weights.
LOADED_BOUNDS = {"reference": 0.06, "cpu": 0.08}
ROUNDED_AGAIN = {"Q2_K", "Q5_1", "Q5_K", "Q6_K"}


@pytest.mark.parametrize("preset", ["Q2_K", "Q4_K_M", "Q6_K", "IQ4_XS"])
@pytest.mark.parametrize("model", ["V2-Lite of old", "MoE-16B"])
def test_as_loaded_they_are_near(tmp_path: Path, model: str, preset: str) -> None:
    written = write(tmp_path / "m.gguf", model, preset)
    checkpoint, truth = written.checkpoint, written.true_logits
    for backend, bound in LOADED_BOUNDS.items():
        error = written.logits(backend, checkpoint.tensors) - truth
        assert np.sqrt(np.square(error).mean() / np.square(truth).mean()) < bound
    for name, lost in checkpoint.requantize_errors.items():
        assert lost < 0.006, name
        assert checkpoint.stored_formats[name] in ROUNDED_AGAIN or tensor_class(name) == "k_b", name


def test_experts_of_small_floats_lose_nothing(tmp_path: Path) -> None:
    written = write(tmp_path / "m.gguf", "MoE-16B", "MXFP4_MOE")
    loaded = written.logits("reference", written.checkpoint.tensors)
    np.testing.assert_allclose(loaded, written.true_logits, rtol=0, atol=1e-3)
    assert written.checkpoint.requantize_errors == {}
    assert written.checkpoint.stored_formats["layers.1.experts.up"] == "MXFP4"


def test_a_file_in_parts_is_the_same_model(tmp_path: Path) -> None:
    whole = write(tmp_path / "m.gguf", "V3", "Q4_K_M")
    parts = write(tmp_path / "m-00001-of-00003.gguf", "V3", "Q4_K_M", num_parts=3)
    assert len({file.path for file in parts.checkpoint.files}) == 3
    for name in whole.values:
        found, expected = parts.checkpoint.tensors[name], whole.checkpoint.tensors[name]
        assert found.format == expected.format
        np.testing.assert_array_equal(found.dequantize(), expected.dequantize())
