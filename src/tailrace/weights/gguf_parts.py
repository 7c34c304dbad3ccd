"""GGUF files that were split for upload: `name-00001-of-00003.gguf` and so on. The first part holds the metadata."""

import re
from pathlib import Path

from tailrace.errors import CheckpointError
from tailrace.weights.fields import Fields
from tailrace.weights.gguf import GgufFile, TensorInfo, read_gguf

__all__ = ["model_name", "read_parts"]

_PART_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_MAX_PARTS = 1024


def model_name(path: Path) -> str:
    """The file's name without its ending and without the number of a part."""
    match = _PART_NAME.fullmatch(path.name)
    return match[1] if match else path.stem


def read_parts(path: Path) -> GgufFile:
    """Read the head of a GGUF file; where it is one of several parts, of all of them, as one.

    Raises CheckpointError naming the part that is missing or does not belong.
    """
    given = read_gguf(path)
    num_parts = _integer(given, "split.count", default=1)
    if num_parts <= 1:
        return given
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match[3]) != num_parts:
        raise CheckpointError(f"{path}: one of {num_parts} parts, whose name must end in -00001-of-{num_parts:05}.gguf")
    names = [f"{match[1]}-{number:05}-of-{match[3]}.gguf" for number in range(1, num_parts + 1)]
    parts = [_part(path.with_name(name), index, num_parts) for index, name in enumerate(names)]
    return GgufFile(parts[0].file, parts[0].metadata, _merged(parts))


def _part(path: Path, index: int, num_parts: int) -> GgufFile:
    part = read_gguf(path)
    found = _integer(part, "split.no", default=0), _integer(part, "split.count", default=1)
    if found != (index, num_parts):
        raise CheckpointError(f"{path}: says it is part {found[0] + 1} of {found[1]}, its name says otherwise")
    return part


def _merged(parts: list[GgufFile]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for part in parts:
        if twice := tensors.keys() & part.tensors.keys():
            raise CheckpointError(f"{part.file.path}: tensor {min(twice)!r} is in an earlier part too")
        tensors |= part.tensors
    return tensors


def _integer(part: GgufFile, key: str, default: int) -> int:
    return Fields(str(part.file.path), part.metadata).integer(key, default, low=0, high=_MAX_PARTS)
