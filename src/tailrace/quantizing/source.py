"""The model that is quantised: its tensors by the names of its own files, and what each is to the recorded model."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from tailrace.errors import UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import GROUP, PackedTensor
from tailrace.ops.program import Program
from tailrace.ops.reference_math import Array
from tailrace.quantizing.forward import ReadRows
from tailrace.weights import gguf_tensors, hf_tensors
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import expected_shapes
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.gguf_parts import read_parts
from tailrace.weights.hf_text import read_json
from tailrace.weights.lazy import FindTensor
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import GGUF_NAMES, HUGGING_FACE_NAMES, file_name, tensor_class
from tailrace.weights.safetensors import SafetensorsTensor, read_safetensors
from tailrace.weights.scheme import read_scheme
from tailrace.weights.stored import FileTensor, FileTensors, Shape, StoredTensor

__all__ = ["Made", "Place", "Source", "bits", "is_composed", "is_quantizable", "open_source", "rows_of"]

_FIRST_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file's tensor stands in our weight `weight`: its matrices are those from `first` on."""

    weight: str
    first: int = 0
    count: int = 1

    @property
    def role(self) -> str:
        """What it is, in whichever layer."""
        return tensor_class(self.weight)

    @property
    def is_table(self) -> bool:
        """Whether it is as wide as the vocabulary: embedding or head."""
        return self.role in ("embed", "head")


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that stands in for one of a file, of its shape."""

    shape: Shape
    tensor: PackedTensor
    where: str

    @property
    def stored_format(self) -> str:
        return self.tensor.format

    @property
    def format(self) -> None:
        """Nobody packs it from here: it is read as float32."""

    @property
    def has_half_scales(self) -> bool:
        return True

    def packed(self) -> PackedTensor:
        return PackedTensor(self.shape, "f32", self.tensor.dequantize().reshape(self.shape))

    def rows(self, begin: int, end: int) -> Array:
        return rows_of(self.tensor, begin, end)

    def as_matrix(self) -> "Made":
        return replace(self, shape=(prod(self.shape[:-1]), self.shape[-1]))

    def check(self) -> None:
        """It was made here."""

    def release(self) -> None:
        """It views no file."""


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint's file tensors by their own names; `places` has those that the recorded model reads."""

    checkpoint: Checkpoint
    program: Program
    tensors: Mapping[str, FileTensor]
    places: Mapping[str, Place]
    find: FindTensor

    @property
    def path(self) -> Path:
        return self.checkpoint.source

    @property
    def is_directory(self) -> bool:
        return self.path.is_dir()

    @property
    def config(self) -> ModelConfig:
        return self.checkpoint.config

    def reader(self, made: Mapping[str, FileTensor] | None = None) -> ReadRows:
        """Reads rows of our weights; `made` stands in for tensors of the file."""
        files = FileTensors(str(self.path), {**self.tensors, **(made or {})})
        shapes, found = expected_shapes(self.config), dict[str, StoredTensor]()

        def read(name: str, begin: int, end: int) -> Array:
            if name not in found:
                found[name] = self.find(files, self.config, name, shapes[name])
            stored = found[name]
            if len(stored.shape) == 1:
                return stored.packed().dequantize()[begin:end]
            return stored.rows(begin, end)

        return read


def rows_of(tensor: PackedTensor, begin: int, end: int) -> Array:
    """Rows [begin, end) of a packed matrix, which are picked without a copy first."""
    picked = (part if part is None else part[begin:end] for part in (tensor.values, tensor.scales, tensor.offsets))
    values, scales, offsets = picked
    assert values is not None
    return PackedTensor((end - begin, *tensor.shape[1:]), tensor.format, values, scales, offsets).dequantize()


def open_source(checkpoint: Checkpoint) -> Source:
    """The files behind a checkpoint. Raises UnsupportedModel for a layout that no quantised file has."""
    if checkpoint.source.is_dir():
        tensors, find, names = _in_directory(checkpoint), hf_tensors.find_tensor, HUGGING_FACE_NAMES
    else:
        infos = read_parts(checkpoint.source).tensors
        tensors, find, names = (
            {key: GgufTensor(info) for key, info in infos.items()},
            gguf_tensors.find_tensor,
            GGUF_NAMES,
        )
    places = dict(_places(checkpoint, tensors, names))
    return Source(checkpoint, build_program(checkpoint.config), tensors, places, find)


def _in_directory(checkpoint: Checkpoint) -> dict[str, FileTensor]:
    in_files: dict[str, SafetensorsTensor] = {}
    for file in checkpoint.files:
        in_files |= read_safetensors(file.path)
    return read_scheme(read_json(checkpoint.source / "config.json")).compose(in_files)


def _places(
    checkpoint: Checkpoint, tensors: Mapping[str, FileTensor], names: Mapping[str, str]
) -> Iterator[tuple[str, Place]]:
    """The file's tensors in the order in which the model reads them, those for multi-token prediction last."""
    config = checkpoint.config
    for weight in expected_shapes(config) | mtp_shapes(config):
        part = tensor_class(weight)
        if part in ("k_b", "v_b") and (joined := file_name(names, weight, config.num_layers, part="kv_b")) in tensors:
            yield joined, Place(weight)  # first in the place of k_b, then as v_b: its inputs are those of v_b
            continue
        name = file_name(names, weight, config.num_layers)
        if part.startswith("experts.") and config.mixture is not None:
            yield from _experts(weight, name, config.mixture.routing.num_experts, tensors, checkpoint)
        else:
            yield name, Place(weight, count=config.num_heads if part == "k_b" else 1)


def _experts(
    weight: str, name: str, count: int, tensors: Mapping[str, FileTensor], checkpoint: Checkpoint
) -> Iterator[tuple[str, Place]]:
    if "{expert}" not in name:
        yield name, Place(weight, 0, count)
        return
    if name.replace("{expert}", "0") not in tensors:
        raise UnsupportedModel(
            f"{checkpoint.source}: the experts of {weight!r} are one tensor, for which compressed-tensors has no form: "
            "save the model with a tensor for each expert"
        )
    yield from ((name.replace("{expert}", str(expert)), Place(weight, expert)) for expert in range(count))


def bits(tensor: FileTensor) -> int:
    """How wide a tensor's values are stored: the first number in the word for its type, as in Q4_K or BF16."""
    if is_composed(tensor) and tensor.format is not None:
        return {"f32": 32, "f16": 16, "bf16": 16, "q8": 8, "q4": 4}[tensor.format]
    number = _FIRST_NUMBER.search(tensor.stored_format)
    return int(number[0]) if number else 32


def is_composed(tensor: FileTensor) -> bool:
    """Whether a scheme made it of several tensors of a file: it cannot be kept as it is."""
    return not isinstance(tensor, SafetensorsTensor | GgufTensor)


def is_quantizable(shape: Shape) -> bool:
    """Whether rows come in whole groups."""
    return len(shape) >= 2 and shape[-1] % GROUP == 0
