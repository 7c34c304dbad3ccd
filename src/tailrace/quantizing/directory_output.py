"""A Hugging Face directory whose matrices are compressed-tensors': shards of bounded size, written tensor by tensor."""

import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tailrace.errors import EngineError
from tailrace.quantizing.grid import Grid
from tailrace.quantizing.output_place import refuse_too_large
from tailrace.quantizing.pack_quantized import Piece, arrays, pieces, quantization_config
from tailrace.quantizing.plan import KEPT, Target
from tailrace.quantizing.source import Made, Source
from tailrace.weights.hf_text import read_json
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.scheme import SETTINGS
from tailrace.weights.stored import FileTensor

__all__ = ["DirectoryOutput", "directory_output"]

_SHARD_BYTES = 4 << 30
_INDEX, _CONFIG = "model.safetensors.index.json", "config.json"
_COPIED = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py", "LICENSE*")  # all but the weights
_WIDTHS = {"I32": 4, "I64": 8, "F16": 2, "F32": 4}

Shard = dict[str, list[tuple[str, Piece, int]]]  # of each tensor of the source: names, forms, bytes of its pieces


class DirectoryOutput:
    """Takes the tensors of the plan in its order."""

    def __init__(self, files: Iterator[IO[bytes]], shards: list[Shard], plan: Mapping[str, Target]) -> None:
        self._files = files
        self._plan = plan
        self._first = {next(iter(shard)) for shard in shards}
        self._file: IO[bytes] | None = None

    def write(self, name: str, tensor: FileTensor) -> None:
        if name in self._first:
            self._file = next(self._files)
        assert self._file is not None
        for part in _data(self._plan[name], tensor):
            self._file.write(part.data)


@contextmanager
def directory_output(
    path: Path, source: Source, plan: Mapping[str, Target], *, shard_bytes: int = _SHARD_BYTES
) -> Iterator[DirectoryOutput]:
    """Make the directory `path`: settings and index at once, then one shard after the other."""
    shards = _shards(source, plan, shard_bytes)
    refuse_too_large(path, sum(size for shard in shards for parts in shard.values() for *_, size in parts))
    path.mkdir()
    _copy_settings(source.path, path)
    _write_config(path, source, plan)
    names = _shard_names(len(shards))
    _write_index(path, shards, names)
    files = _open_each(path, shards, names)
    try:
        yield DirectoryOutput(files, shards, plan)
    finally:
        files.close()


def _open_each(path: Path, shards: list[Shard], names: list[str]) -> Generator[IO[bytes]]:
    """Each shard in turn, behind its head; it is closed when the next is asked for."""
    for shard, name in zip(shards, names, strict=True):
        with (path / name).open("wb") as file:
            head = _head(shard)
            file.write(len(head).to_bytes(8, "little") + head)
            yield file


def _shards(source: Source, plan: Mapping[str, Target], shard_bytes: int) -> list[Shard]:
    shards: list[Shard] = [{}]
    filled = 0
    for name, target in plan.items():
        parts = [(part, form, size) for part, form, size in _parts(name, target, source.tensors[name])]
        size = sum(size for *_, size in parts)
        if shards[-1] and filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = parts
        filled += size
    return shards


def _parts(name: str, target: Target, tensor: FileTensor) -> Iterator[tuple[str, Piece, int]]:
    if isinstance(target, Grid):
        for piece in pieces(tensor.shape, target):
            yield f"{_module(name)}.{piece.suffix}", piece, prod(piece.shape) * _WIDTHS[piece.dtype]
    elif target == KEPT and isinstance(tensor, SafetensorsTensor):
        yield name, Piece("", tensor.stored_format, tensor.shape), tensor.end - tensor.begin
    else:
        yield name, Piece("", "F32", tensor.shape), prod(tensor.shape) * _WIDTHS["F32"]


def _module(name: str) -> str:
    return name.removesuffix(".weight")


def _head(shard: Shard) -> bytes:
    """The JSON head of a shard, filled up to a multiple of eight bytes."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, piece, size in (part for parts in shard.values() for part in parts):
        entries[name] = {"dtype": piece.dtype, "shape": piece.shape, "data_offsets": (begin, begin + size)}
        begin += size
    text = msgspec.json.encode(entries)
    return text + b" " * (-len(text) % 8)


def _shard_names(count: int) -> list[str]:
    if count == 1:
        return ["model.safetensors"]
    return [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]


def _write_index(path: Path, shards: list[Shard], names: list[str]) -> None:
    if len(shards) == 1:
        return
    parts = [(part, name, size) for shard, name in zip(shards, names, strict=True) for part, size in _sizes(shard)]
    index = {"metadata": {"total_size": sum(size for *_, size in parts)}}
    placed = {"weight_map": {part: name for part, name, _ in parts}}
    (path / _INDEX).write_bytes(msgspec.json.format(msgspec.json.encode(index | placed)))


def _sizes(shard: Shard) -> Iterator[tuple[str, int]]:
    yield from ((part, size) for parts in shard.values() for part, _, size in parts)


def _copy_settings(source: Path, path: Path) -> None:
    for file in sorted({file for pattern in _COPIED for file in source.glob(pattern)}):
        if file.is_file() and file.name not in (_INDEX, _CONFIG):
            shutil.copyfile(file, path / file.name)


def _write_config(path: Path, source: Source, plan: Mapping[str, Target]) -> None:
    settings = dict(read_json(source.path / _CONFIG).values)
    (grid,) = {target for target in plan.values() if isinstance(target, Grid)}
    kept = (name for name, target in plan.items() if not isinstance(target, Grid))
    settings[SETTINGS] = quantization_config(grid, [_module(name) for name in kept if _is_linear(source, name)])
    (path / _CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(settings)))


def _is_linear(source: Source, name: str) -> bool:
    place = source.places.get(name)
    is_table = place is not None and place.role == "embed"
    return len(source.tensors[name].shape) == 2 and name.endswith(".weight") and not is_table


def _data(target: Target, tensor: FileTensor) -> Iterator[NDArray[Any]]:
    if isinstance(target, Grid):
        if not isinstance(tensor, Made):
            raise EngineError(f"{tensor.where} was to be rounded and is not")
        yield from arrays(tensor.tensor, target)
    elif target == KEPT and isinstance(tensor, SafetensorsTensor):
        yield tensor.file.array(np.uint8, tensor.end - tensor.begin, tensor.begin)
    else:
        yield np.ascontiguousarray(tensor.packed().dequantize())
